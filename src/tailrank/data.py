"""What a learner has seen, as counts: all that the likelihood and the covariance need.

`pairs` and `nexts` of D_h and D~_h (Algorithm 1, lines 9-10) are kept as counts over groups of states:
visits[h] [G, A] counts D_h only (the covariance, line 12), counts[h] [G, A, G'] counts both (line 11).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Seen:
    """Counts of transitions, one pair of arrays for each of the H - 1 steps; `add` counts in place."""

    visits: tuple[np.ndarray, ...]
    counts: tuple[np.ndarray, ...]

    @classmethod
    def empty(cls, sizes: list[int], n_actions: int) -> Seen:
        """No data; sizes [H]: groups at each step."""
        return cls(
            tuple(np.zeros((g, n_actions)) for g in sizes[:-1]),
            tuple(np.zeros((g, n_actions, after)) for g, after in pairwise(sizes)),
        )

    def copy(self) -> Seen:
        """The same counts in arrays of their own."""
        return Seen(tuple(v.copy() for v in self.visits), tuple(c.copy() for c in self.counts))

    def add(self, h: int, group: np.ndarray, action: np.ndarray, after: np.ndarray, *, covariance: bool) -> None:
        """Count transitions [n] of step h; `covariance` says that they belong to D_h, not only to D~_h."""
        np.add.at(self.counts[h], (group, action, after), 1.0)
        if covariance:
            np.add.at(self.visits[h], (group, action), 1.0)
