"""A policy that was learned by gradients: a tanh network that sees the features, the step and the budget.

a(x, h, c) = argmax_a logit_a(z),   z = ((x - centre) / spread, 2 h / H - 1, c / width)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.policies.tables import ChargedBudget

CLIP, FARTHEST = 10.0, 5.0
"""Standardised features and budgets are cut here."""


def actor_input(
    features: np.ndarray,
    time: np.ndarray | float,
    budgets: np.ndarray,
    centre: np.ndarray,
    spread: np.ndarray,
    width: float,
) -> np.ndarray:
    """z [n, m + 2] (float32) of features [n, m] at time h / H with budgets [n]."""
    z = np.empty((len(features), centre.size + 2), dtype=np.float32)
    z[:, :-2] = np.clip((np.asarray(features, dtype=np.float64) - centre) / spread, -CLIP, CLIP)
    z[:, -2] = 2.0 * np.asarray(time) - 1.0
    z[:, -1] = np.clip(np.asarray(budgets) / width, -FARTHEST, FARTHEST)
    return z


@dataclass(frozen=True)
class ActorPolicy(ChargedBudget):
    """A `Policy` on features [n, m]; its memory [n] is the budget that is left.

    layers: pairs W [k, k'], b [k'] (float32). centre, spread [m]: of the features; width: of budgets. budget: at the
    start. With `rng` actions are drawn from the softmax of the logits; a saved policy plays the likeliest.
    """

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    centre: np.ndarray
    spread: np.ndarray
    width: float
    budget: float
    horizon: int
    rng: np.random.Generator | None = None

    @property
    def n_features(self) -> int:
        """m."""
        return int(self.centre.size)

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.layers[-1][1].size)

    def start(self, n: int) -> np.ndarray:
        """The starting budget, n times."""
        return np.full(n, float(self.budget))

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] for each observation [n, m] and budget [n]."""
        x = actor_input(states, h / self.horizon, memory, self.centre, self.spread, self.width)
        for i, (w, b) in enumerate(self.layers):
            x = x @ w + b
            x = np.tanh(x) if i + 1 < len(self.layers) else x
        noise = 0.0 if self.rng is None else self.rng.gumbel(size=x.shape)
        return np.asarray((x + noise).argmax(axis=1))
