"""The policy of a shortfall network, in NumPy: what a stored policy needs to act.

    Q(x, h, c, a) = E(c - R)^+,  R what is still to come after a;   dQ/dc at budget i = sigmoid(logit_i(x, h, a))

The network gives the slopes, which lie between 0 and 1 as those of any shortfall, and Q is their sum from the lowest
budget on, where it is zero. An ensemble's Q is the mean of its members'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.policies.kernel import BudgetScale
from tailrank.policies.tables import ChargedBudget

CLIP = 10.0
"""Standardised features are cut here: what was almost constant in training must not shout later."""

Layers = tuple[tuple[Any, Any], ...]


def network_input(features: np.ndarray, left: Any, horizon: int, centre: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Standardised features [n, m], and two numbers that say how many steps are left [n] (one sees the end better)."""
    z = np.clip((np.asarray(features, dtype=np.float64) - centre) / spread, -CLIP, CLIP)
    left = np.broadcast_to(np.asarray(left, dtype=np.float64), len(z))
    return np.column_stack([z, left / horizon, 1.0 / np.maximum(left, 1.0)]).astype(np.float32)


def forward(layers: Layers, x: np.ndarray) -> np.ndarray:
    """Output of ReLU layers (W [k, k'], b [k']) for x [n, k]."""
    for i, (w, b) in enumerate(layers):
        x = x @ w
        x += b
        if i + 1 < len(layers):
            np.maximum(x, 0.0, out=x)
    return x


def mean_slopes(layers: Layers, x: np.ndarray, n_actions: int) -> np.ndarray:
    """Slopes [n, A, C - 1] of Q, the mean of E networks with layers W [E, k, k'], b [E, k'], for inputs x [n, k]."""
    E = len(layers[0][0])
    total = _sigmoid(forward(tuple((w[0], b[0]) for w, b in layers), x))
    for e in range(1, E):
        total += _sigmoid(forward(tuple((w[e], b[e]) for w, b in layers), x))
    total /= np.float32(E)
    return total.reshape(len(x), n_actions, -1)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    """In place; exp of what is cut off at 30 overflows nothing."""
    np.negative(np.clip(logits, -30.0, 30.0, out=logits), out=logits)
    np.exp(logits, out=logits)
    logits += 1.0
    return np.asarray(np.reciprocal(logits, out=logits))


def shortfalls(slopes: np.ndarray) -> np.ndarray:
    """Q [..., C] in units from its slopes [..., C - 1]."""
    return np.concatenate([np.zeros_like(slopes[..., :1]), np.cumsum(slopes, axis=-1)], axis=-1)


@dataclass(frozen=True)
class ShortfallPolicy(ChargedBudget):
    """A `Policy` on features [n, m]; its memory [n] is the budget that is left.

    layers: pairs W [E, k, k'], b [E, k'] of E networks (float32); the last has A (C - 1) numbers. centre, spread [m]:
    of the features. budget: at the start.
    """

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    centre: np.ndarray
    spread: np.ndarray
    scale: BudgetScale
    budget: float
    horizon: int

    @property
    def n_features(self) -> int:
        """m."""
        return int(self.centre.size)

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.layers[-1][1].shape[1] // (self.scale.count - 1))

    def start(self, n: int) -> np.ndarray:
        """The starting budget, n times."""
        return np.full(n, float(self.budget))

    def values(self, features: np.ndarray, left: Any) -> np.ndarray:
        """Q [n, A, C] in units on the grid of budgets, with so many steps left."""
        x = network_input(features, left, self.horizon, self.centre, self.spread)
        return shortfalls(mean_slopes(self.layers, x, self.n_actions).astype(np.float64))

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The action with the least shortfall for each observation [n, m] and budget [n]."""
        return np.asarray(self._at(h, states, memory).argmin(axis=1))

    def shortfall(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The shortfall E(c - R)^+ of that action [n], as the networks say."""
        return np.asarray(self.scale.unit * self._at(h, states, memory).min(axis=1))

    def _at(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Q [n, A] in units at these budgets [n]."""
        left = self.horizon - h
        values = self.values(states, left)
        place = np.clip(self.scale.place(memory, left), 0.0, self.scale.count - 1)
        low = np.minimum(place.astype(np.int64), self.scale.count - 2)
        rows, part = np.arange(len(values)), (place - low)[:, None]
        return np.asarray((1.0 - part) * values[rows, :, low] + part * values[rows, :, low + 1])
