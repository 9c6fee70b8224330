"""The choice of a distributional network (QR-DQN, C51) without the library that trained it.

A network of ReLU layers maps (features, one of H steps) to N numbers for every action: quantiles of the return, or the
logits of a law on a support. Actions maximise the mean of the lowest tau of that law.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.policies.softmax import softmax
from tailrank.policies.tables import Memoryless
from tailrank.risk.law import tail_weights


@dataclass(frozen=True)
class DistributionalPolicy(Memoryless):
    """A `Policy` on features. layers: pairs W [k, k'], b [k'] (float32), the last one with N A numbers, quantiles or
    categories first; support [N] of the categories, or empty for quantiles.
    """

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    support: np.ndarray
    tau: float
    n_actions: int
    horizon: int

    @property
    def n_features(self) -> int:
        """m."""
        return int(self.layers[0][0].shape[0]) - self.horizon

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] for features [n, m]."""
        x = with_step(states, h, self.horizon)
        for i, (w, b) in enumerate(self.layers):
            x = x @ w + b
            if i + 1 < len(self.layers):
                x = np.maximum(x, 0.0)
        found = x.reshape(len(x), -1, self.n_actions)
        if self.support.size:
            return np.asarray(category_tail(found, self.support, self.tau).argmax(axis=1))
        weights = tail_weights(found.shape[1], self.tau)
        return np.asarray((np.sort(found, axis=1) * weights[:, None]).sum(axis=1).argmax(axis=1))


def category_tail(logits: np.ndarray, support: np.ndarray, tau: float) -> np.ndarray:
    """CVaR_tau of the laws with these logits [n, N, A] on an increasing support [N], [n, A]."""
    p = softmax(logits, axis=1)
    taken = np.clip(tau - (np.cumsum(p, axis=1) - p), 0.0, p)
    return np.asarray((taken * support[:, None]).sum(axis=1) / taken.sum(axis=1))


def with_step(features: np.ndarray, h: int, horizon: int) -> np.ndarray:
    """Features [n, m] and the step as one of H indicators, [n, m + H] (after the last step: none), float32."""
    steps = np.zeros((len(features), horizon))
    if h < horizon:
        steps[:, h] = 1.0
    return np.concatenate([features, steps], axis=1).astype(np.float32)
