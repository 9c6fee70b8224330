"""Features as numbers of cells: random projections (or the features themselves) cut into equal intervals, hashed.

Counts on hashed random projections are what Tang et al. (2017, "#Exploration") use; with two cells a projection
this is their SimHash, but for the place of the cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank._system.arrays import check_arrays
from tailrank.checks import InputError
from tailrank.policies.tables import BudgetPolicy
from tailrank.policies.wrapping import WrappingPolicy

ARRAYS = {"directions": "float [m, k]", "low": "float [k]", "width": "float [k] > 0", "mixers": "uint64 [k]"}


@dataclass(frozen=True)
class Cells:
    """directions [m, k]; interval i of direction j begins at low[j] + i width[j]. mixers [k]: the hash."""

    directions: np.ndarray
    low: np.ndarray
    width: np.ndarray
    count: int
    mixers: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, projections: int | None, count: int, rng: np.random.Generator) -> Cells:
        """`count` intervals between the least and the most that these features [n, m] have in each direction.

        projections: how many random directions (none: one for each feature).
        """
        m = features.shape[1]
        directions = np.eye(m) if projections is None else rng.normal(size=(m, projections)) / np.sqrt(m)
        shadow = features @ directions
        low, high = shadow.min(axis=0), shadow.max(axis=0)
        width = np.where(high > low, (high - low) / count, 1.0)
        mixers = rng.integers(0, 2**63, size=directions.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        return cls(directions, low, width, count, mixers)

    def checked(self) -> Cells:
        """Itself; what was read and does not fit together is refused."""
        check_arrays({name: getattr(self, name) for name in ARRAYS}, ARRAYS, "cells.")
        if not 2 <= self.count < 2**31:
            raise InputError(f"count = {self.count}: must lie in 2..{2**31 - 1}")
        return self

    def keys(self, features: np.ndarray) -> np.ndarray:
        """The hash of the cell of each row of features [n, m], [n] (uint64)."""
        digits = np.floor((features @ self.directions - self.low) / self.width)
        digits = np.clip(digits, 0, self.count - 1).astype(np.uint64)
        return np.asarray((digits * self.mixers).sum(axis=1, dtype=np.uint64))


@dataclass(frozen=True)
class CellPolicy(WrappingPolicy):
    """A `Policy` on features through the known cells of every step, [H] of sorted hashes; memory is the budget.

    In a cell that was never seen the action is an arbitrary one that the hash fixes.
    """

    cells: Cells
    known: list[np.ndarray]
    inner: BudgetPolicy
    n_actions: int

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.known)

    @property
    def n_features(self) -> int:
        """m."""
        return int(self.cells.directions.shape[0])

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] for features [n, m]."""
        keys, known = self.cells.keys(states), self.known[h]
        arbitrary = ((keys >> np.uint64(20)) % np.uint64(self.n_actions)).astype(np.int64)
        if known.size == 0:
            return arbitrary
        place = np.minimum(np.searchsorted(known, keys), known.size - 1)
        return np.where(known[place] == keys, self.inner.act(h, place, memory), arbitrary)
