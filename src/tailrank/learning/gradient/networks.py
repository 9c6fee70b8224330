"""The networks of the policy gradient while they are trained: one that acts, and a critic whose scale follows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailrank.learning.dense import flat_weights, layer_views, orthogonal_layers, tanh_outputs
from tailrank.learning.rivals.ascent import Adam

SLOW = 0.7
"""How the critic's centre and scale are remembered from an update to the next."""


@dataclass(frozen=True)
class TanhTraining:
    """A tanh network of these sizes: weights [1, P] (float32), and Adam."""

    sizes: tuple[int, ...]
    weights: np.ndarray
    adam: Adam

    @classmethod
    def begun(cls, sizes: tuple[int, ...], last: float, rng: np.random.Generator) -> TanhTraining:
        """A random network; last: the gain of its last layer."""
        return cls(sizes, flat_weights(orthogonal_layers(sizes, last, rng)), Adam(0.0))

    def copy(self, rate: float) -> TanhTraining:
        """The same with arrays of its own, for steps of this rate."""
        adam = self.adam.copy()
        adam.rate = rate
        return replace(self, weights=self.weights.copy(), adam=adam)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """[n, k'] for x [n, k]."""
        return tanh_outputs(layer_views(self.weights, self.sizes), x)[-1]


@dataclass(frozen=True)
class Critic:
    """Values centre + scale f(z) of a network f: it learns targets of mean 0 and variance 1, whatever a step is worth.

    As these change, centre and scale follow, and the last layer is changed so that values stay what they were (van
    Hasselt et al. 2016). scale 0: no target was seen, and all values are 0.
    """

    training: TanhTraining
    centre: float = 0.0
    scale: float = 0.0

    def values(self, z: np.ndarray) -> np.ndarray:
        """[T] of z [T, m + 2]."""
        if not self.scale:
            return np.zeros(len(z))
        return self.centre + self.scale * self.training.outputs(z)[:, 0].astype(np.float64)

    def about(self, aims: np.ndarray, rate: float) -> Critic:
        """The same values with arrays of its own, where centre and scale have moved towards those of targets [T]."""
        training, centre = self.training.copy(rate), float(aims.mean())
        scale = max(float(aims.std()), 1e-6 * abs(centre)) or 1.0
        if self.scale:
            centre, scale = SLOW * self.centre + (1.0 - SLOW) * centre, SLOW * self.scale + (1.0 - SLOW) * scale
            w, b = layer_views(training.weights, training.sizes)[-1]
            w *= np.float32(self.scale / scale)
            b *= np.float32(self.scale / scale)
            b += np.float32((self.centre - centre) / scale)
        return Critic(training, centre, scale)
