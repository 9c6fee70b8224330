"""A policy on some of the actions as one on all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.policies.tables import Policy
from tailrank.policies.wrapping import WrappingPolicy


@dataclass(frozen=True)
class SubsetPolicy(WrappingPolicy):
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

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] by their numbers among all."""
        return np.asarray(self.actions[self.inner.act(h, states, memory)])

    def own_actions(self, actions: np.ndarray) -> np.ndarray:
        """By their numbers among those of the inner policy."""
        return np.minimum(np.searchsorted(self.actions, actions), self.actions.size - 1)
