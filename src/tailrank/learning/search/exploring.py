"""Exploration of the search: every other episode plays the mean, the others policies of their own around it.

A model is right where there are data. Policies that are drawn as those of the next search will be, one an episode,
bring data from where that search will look.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tailrank.policies.moved import Moved


@dataclass
class PerturbedPolicy:
    """Linear policies on features, one an episode; it is not made to be saved.

        a(x, h) = argmax_a theta_a . (x, h/H, 1),        x standardised by centre and spread [m]

    Memory [n]: the number of the policy, 0 for the mean [A, m + 2]; the others are drawn with `deviation` when an
    episode begins. A share `epsilon` of the actions is drawn at random.
    """

    mean: np.ndarray
    deviation: np.ndarray
    centre: np.ndarray
    spread: np.ndarray
    horizon: int
    epsilon: float
    rng: np.random.Generator
    _theta: np.ndarray = field(init=False, repr=False)
    _begun: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        self._theta = self.mean[None]

    def start(self, n: int) -> np.ndarray:
        """Policies of n episodes."""
        mine = (self._begun + np.arange(n)) % 2 == 1
        self._begun += n
        drawn = self.rng.normal(size=(int(mine.sum()), *self.mean.shape)) * self.deviation + self.mean
        self._theta = np.concatenate([self.mean[None], drawn])
        return np.where(mine, np.cumsum(mine), 0)

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] for features [n, m]."""
        n = len(states)
        time = np.full((n, 1), h / self.horizon)
        x = np.hstack([(states - self.centre) / self.spread, time, np.ones((n, 1))])
        best = np.einsum("nai,ni->na", self._theta[memory.astype(np.int64)], x).argmax(axis=1)
        other = self.rng.integers(0, len(self.mean), size=n)
        return np.where(self.rng.random(n) < self.epsilon, other, best)

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """The same policies."""
        return memory
