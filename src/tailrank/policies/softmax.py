"""Small softmax policies by hand: a trunk that all steps share (tanh layers, maybe none), and a linear head a step.

    pi(a | x, h) = softmax(head_h(trunk(x)))_a

Without a trunk this is the softmax-linear policy with its own weights for every step. Gradients are written out, so
nothing but NumPy is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tailrank.policies.tables import Memoryless


def softmax(logits: np.ndarray, axis: int = -1) -> np.ndarray:
    """Probabilities proportional to exp(logits) along an axis; -inf has none.

    >>> softmax(np.array([0.0, np.log(3.0), -np.inf])).tolist()
    [0.25, 0.75, 0.0]
    """
    p = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return np.asarray(p / p.sum(axis=axis, keepdims=True))


@dataclass(frozen=True)
class Network:
    """trunk: pairs W [k, k'], b [k']; head [H, k, A] and its constants shift [H, A]."""

    trunk: tuple[tuple[np.ndarray, np.ndarray], ...]
    head: np.ndarray
    shift: np.ndarray

    @classmethod
    def fresh(
        cls, n_features: int, horizon: int, n_actions: int, hidden: tuple[int, ...], rng: np.random.Generator
    ) -> Network:
        """Random trunk, heads at zero: uniform actions."""
        sizes = (n_features, *hidden)
        trunk = tuple((rng.normal(size=(k, j)) / np.sqrt(k), np.zeros(j)) for k, j in pairwise(sizes))
        return cls(trunk, np.zeros((horizon, sizes[-1], n_actions)), np.zeros((horizon, n_actions)))

    @property
    def weights(self) -> list[np.ndarray]:
        """All arrays of parameters, in a fixed order; changing them in place changes the network."""
        return [array for layer in self.trunk for array in layer] + [self.head, self.shift]

    def copy(self) -> Network:
        """The same network with arrays of its own."""
        return Network(tuple((w.copy(), b.copy()) for w, b in self.trunk), self.head.copy(), self.shift.copy())

    def probabilities(self, h: int, features: np.ndarray) -> np.ndarray:
        """pi(. | x, h) of features [n, m], [n, A]."""
        return self._softmax(h, self._layers(features)[-1])

    def score(self, h: int, features: np.ndarray, actions: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
        """Gradient of sum_i weights[i] log pi(actions[i] | features[i], h), an array for each of `weights`."""
        layers = self._layers(features)
        slope = -weights[:, None] * self._softmax(h, layers[-1])
        slope[np.arange(len(actions)), actions] += weights
        return self._back(h, layers, slope)

    def entropy(self, h: int, features: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
        """Gradient of sum_i weights[i] times the entropy of pi(. | features[i], h)."""
        layers = self._layers(features)
        p = self._softmax(h, layers[-1])
        log = np.log(np.maximum(p, 1e-300))
        return self._back(h, layers, -weights[:, None] * p * (log - (p * log).sum(axis=1, keepdims=True)))

    def _layers(self, features: np.ndarray) -> list[np.ndarray]:
        layers = [features]
        for w, b in self.trunk:
            layers.append(np.tanh(layers[-1] @ w + b))
        return layers

    def _softmax(self, h: int, last: np.ndarray) -> np.ndarray:
        return softmax(last @ self.head[h] + self.shift[h])

    def _back(self, h: int, layers: list[np.ndarray], slope: np.ndarray) -> list[np.ndarray]:
        """Gradients of the parameters from those of the logits, [n, A]."""
        head, shift = np.zeros_like(self.head), np.zeros_like(self.shift)
        head[h], shift[h] = layers[-1].T @ slope, slope.sum(axis=0)
        found = [head, shift]
        slope = slope @ self.head[h].T
        for (w, _), before, here in zip(self.trunk[::-1], layers[-2::-1], layers[:0:-1], strict=True):
            slope = slope * (1.0 - here**2)
            found = [before.T @ slope, slope.sum(axis=0), *found]
            slope = slope @ w.T
        return found


@dataclass(frozen=True)
class SoftmaxPolicy(Memoryless):
    """A `Policy` on features: draws from the network with `rng`, or without it plays the likeliest action."""

    network: Network
    rng: np.random.Generator | None = None

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.network.head)

    @property
    def n_features(self) -> int:
        """m."""
        return int((self.network.trunk[0][0] if self.network.trunk else self.network.head[0]).shape[0])

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.network.head.shape[2])

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] for features [n, m]."""
        p = self.network.probabilities(h, states)
        if self.rng is None:
            return np.asarray(p.argmax(axis=1))
        total = np.cumsum(p, axis=1)
        return np.asarray((self.rng.random(len(p))[:, None] * total[:, -1:] >= total).sum(axis=1))
