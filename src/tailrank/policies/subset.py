"""A policy on some of the actions as one on all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.policies.tables import Policy


@dataclass(frozen=True)
class SubsetPolicy:
    """Plays what `inner` plays; actions [A'], increasing: which of the actions its own ones 0..A' - 1 are."""

    inner: Policy
    actions: np.ndarray

    @property
    def n_features(self) -> Any:
        """m, where the inner policy knows it."""
        return getattr(self.inner, "n_features", None)

    @property
    def horizon(self) -> Any:
        """H, where the inner policy knows it."""
        return getattr(self.inner, "horizon", None)

    def start(self, n: int) -> np.ndarray:
        """The memory of the inner policy."""
        return self.inner.start(n)

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] by their numbers among all."""
        return np.asarray(self.actions[self.inner.act(h, states, memory)])

    def update(
        self,
        h: int,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        next_states: np.ndarray,
        memory: np.ndarray,
    ) -> np.ndarray:
        """That of the inner policy, which is told its own numbers of the actions."""
        own = np.minimum(np.searchsorted(self.actions, actions), self.actions.size - 1)
        return self.inner.update(h, states, own, rewards, next_states, memory)
