"""The last episodes that a policy gradient played itself: an update learns from those of the last few."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank._system.arrays import arrays_below, check_arrays
from tailrank.checks import InputError

KEPT = 4
"""Updates that learn from an episode."""
DESCRIBED = {
    "features": "float32 [T*, m*]",
    "actions": "int64 [T*] >= 0",
    "rewards": "float64 [T*]",
    "chances": "float64 [T*] <= 0",
    "lengths": "int64 [n*] >= 1",
    "portions": "int64 [*] >= 0",
}
"""The arrays of a checkpoint."""


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
        return {f"kept.{name}": getattr(self, name) for name in DESCRIBED}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], n_features: int) -> KeptEpisodes:
        """Those of a checkpoint."""
        held = arrays_below(arrays, "kept.")
        sizes = check_arrays(held, DESCRIBED, "kept.", m=n_features)
        found = cls(*(held[name] for name in DESCRIBED))
        if int(found.lengths.sum()) != sizes["T"] or int(found.portions.sum()) != sizes["n"]:
            raise InputError("gradient: the episodes of the checkpoint do not fit together")
        return found
