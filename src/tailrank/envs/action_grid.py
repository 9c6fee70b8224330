"""A grid of continuous actions that a learner may begin to know coarsely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ActionGrid:
    """counts [d]: values in every dimension of the fine grid, the last changing fastest; stride: between coarse ones.

    >>> grid = ActionGrid((5, 3), 2)
    >>> grid.coarse.tolist(), grid.beside(6, 1).tolist()
    ([0, 2, 6, 8, 12, 14], [3, 7, 9])
    """

    counts: tuple[int, ...]
    stride: int

    @property
    def digits(self) -> np.ndarray:
        """Where each action stands, [A, d]."""
        return np.stack(np.unravel_index(np.arange(int(np.prod(self.counts))), self.counts), axis=1)

    @property
    def coarse(self) -> np.ndarray:
        """The actions of the coarse grid."""
        return np.flatnonzero((self.digits % self.stride == 0).all(axis=1))

    def beside(self, action: int, step: int) -> np.ndarray:
        """The actions so many fine steps away in one dimension."""
        found = []
        for i, count in enumerate(self.counts):
            for side in (-step, step):
                there = self.digits[action].copy()
                there[i] += side
                if 0 <= there[i] < count:
                    found.append(int(np.ravel_multi_index(tuple(there), self.counts)))
        return np.array(sorted(found), dtype=np.int64)
