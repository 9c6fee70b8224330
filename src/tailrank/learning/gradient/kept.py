"""The last episodes that a policy gradient played itself: an update learns from those of the last few."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.checks import InputError

KEPT = 4
"""Updates that learn from an episode."""
PARTS = ("features", "actions", "rewards", "chances", "lengths", "portions")


@dataclass(frozen=True)
class KeptEpisodes:
    """n episodes with T steps in all: features [T, m] (float32), actions and rewards [T], log-probabilities of the
    actions when they were played, chances [T], lengths [n], and how many episodes each update brought, portions."""

    features: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    chances: np.ndarray
    lengths: np.ndarray
    portions: np.ndarray

    @classmethod
    def none(cls, n_features: int) -> KeptEpisodes:
        """Before the first."""
        numbers, whole = np.zeros(0), np.zeros(0, dtype=np.int64)
        return cls(np.zeros((0, n_features), dtype=np.float32), whole, numbers, numbers, whole, whole)

    def with_portion(
        self, features: np.ndarray, actions: np.ndarray, rewards: np.ndarray, chances: np.ndarray, lengths: np.ndarray
    ) -> KeptEpisodes:
        """With the episodes of one more update; those of the last `KEPT` stay."""
        portions = np.append(self.portions, lengths.size)
        gone = int(portions[:-KEPT].sum())
        steps, new = int(self.lengths[:gone].sum()), (features, actions, rewards, chances)
        old = (self.features, self.actions, self.rewards, self.chances)
        seen, done, paid, likely = (np.concatenate([a[steps:], b]) for a, b in zip(old, new, strict=True))
        return KeptEpisodes(seen, done, paid, likely, np.concatenate([self.lengths[gone:], lengths]), portions[-KEPT:])

    def step_numbers(self) -> np.ndarray:
        """h of each step, [T]."""
        return np.arange(self.actions.size) - np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        return {f"kept.{name}": getattr(self, name) for name in PARTS}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], n_features: int) -> KeptEpisodes:
        """Those of a checkpoint."""
        found = cls(*(np.asarray(arrays[f"kept.{name}"]) for name in PARTS))
        T = found.actions.size
        fits = found.features.shape == (T, n_features) and found.rewards.shape == found.chances.shape == (T,)
        if not fits or int(found.lengths.sum()) != T or int(found.portions.sum()) != found.lengths.size:
            raise InputError("gradient: the episodes of the checkpoint do not fit together")
        return found
