"""A policy that also sees what came before: the last observations, and the last action.

    x = (o_h, o_h - o_{h-1}, ..., o_{h-k+1} - o_{h-k}, one-hot of a_{h-1})

Differences tell the same as the observations themselves, and distances between them mean more: they are velocities.
Before the first step there is no action (zeros), and the observation is taken to have been what it is at first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tailrank.policies.tables import Policy
from tailrank.policies.wrapping import WrappingPolicy


@dataclass(frozen=True)
class Recall:
    """What is recalled: so many observations before the present one, and whether the last action is."""

    observations: int = 0
    action: bool = False

    def width(self, n_features: int, n_actions: int) -> int:
        """The numbers of x where an observation has m and there are A actions."""
        return n_features * (1 + self.observations) + n_actions * self.action

    @property
    def words(self) -> str:
        """For people."""
        seen = f"the last {self.observations} observations" if self.observations > 1 else "the last observation"
        return " and ".join([seen] * (self.observations > 0) + ["the last action"] * self.action) or "nothing"


@dataclass(frozen=True)
class RecallPolicy(WrappingPolicy):
    """A `Policy` on observations [n, m] that hands x to `inner`.

    Memory [n, w + k m + A]: that of the inner policy (w numbers), earlier observations, the latest first (NaN before
    the first step), and the last action.
    """

    inner: Policy
    recall: Recall
    n_features: int
    n_actions: int

    @property
    def horizon(self) -> int | None:
        """H, where the inner policy knows it."""
        return getattr(self.inner, "horizon", None)

    @property
    def _kept(self) -> int:
        return self.recall.width(self.n_features, self.n_actions) - self.n_features

    def start(self, n: int) -> np.ndarray:
        """The memory of n fresh episodes."""
        past = np.zeros((n, self._kept))
        past[:, : self.recall.observations * self.n_features] = np.nan
        return np.column_stack([self.inner.start(n), past])

    def seen(self, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """x [n, m'] of observations [n, m]."""
        past = memory[:, memory.shape[1] - self._kept :]
        observed = self._observed(states, past)
        last_action = past[:, self.recall.observations * self.n_features :]
        return np.hstack([*differences(observed), last_action])

    def _observed(self, states: np.ndarray, past: np.ndarray) -> list[np.ndarray]:
        """k + 1 observations [n, m], the latest first."""
        m, found = self.n_features, [np.asarray(states, dtype=np.float64)]
        for j in range(self.recall.observations):
            earlier = past[:, j * m : (j + 1) * m]
            found.append(np.where(np.isnan(earlier), found[-1], earlier))
        return found

    def own_memory(self, memory: np.ndarray) -> np.ndarray:
        """The memory of the inner policy."""
        wide = memory.shape[1] - self._kept
        return memory[:, 0] if wide == 1 else memory[:, :wide]

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """What the inner policy does at x."""
        return self.inner.act(h, self.seen(states, memory), self.own_memory(memory))

    def past(self, states: np.ndarray, actions: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The last observations, and the last action."""
        observed = self._observed(states, memory[:, memory.shape[1] - self._kept :])
        kept = observed[: self.recall.observations]
        return np.hstack([*kept, *([np.eye(self.n_actions)[actions]] if self.recall.action else [])])


def differences(observed: list[np.ndarray]) -> list[np.ndarray]:
    """The first of observations [n, m], and what each differs by from the one before it in time, the latest first."""
    return [observed[0], *(later - earlier for later, earlier in pairwise(observed))]
