"""What a learner has seen, as counts: all that the likelihood and the covariance need.

`pairs` and `nexts` of D_h and D~_h (Algorithm 1, lines 9-10) are kept as counts over groups of states:
visits[h] [G, A] counts D_h only (the covariance, line 12), counts[h] [G, A, G'] counts both (line 11), as a table or,
where there are too many groups for one, as the cells that were met.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tailrank.checks import InputError


@dataclass(frozen=True)
class SparseCounts:
    """Transitions seen, each cell once and in order: pair [m] (g A + a), after [m] (g'), count [m] > 0."""

    pair: np.ndarray
    after: np.ndarray
    count: np.ndarray
    shape: tuple[int, int, int]

    @classmethod
    def empty(cls, shape: tuple[int, int, int]) -> SparseCounts:
        """Nothing seen."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0), shape)

    @classmethod
    def of(
        cls, states: np.ndarray, actions: np.ndarray, next_states: np.ndarray, shape: tuple[int, int, int]
    ) -> SparseCounts:
        """Counts of raw transitions: states, actions, next_states [n]."""
        columns = [np.asarray(column) for column in (states, actions, next_states)]
        for column, size, name in zip(columns, shape, ("states", "actions", "next_states"), strict=True):
            if column.shape != columns[0].shape or column.ndim != 1:
                raise InputError(f"{name}: must have shape {columns[0].shape[:1]} like states, found {column.shape}")
            if column.size and not np.issubdtype(column.dtype, np.integer):
                raise InputError(f"{name}: must be whole numbers, found {column.dtype}")
            bad = np.flatnonzero((column < 0) | (column >= size))
            if bad.size:
                raise InputError(f"{name}[{bad[0]}] = {column[bad[0]]}: must lie in 0..{size - 1}")
        return cls.empty(shape).plus(columns[0].astype(np.int64) * shape[1] + columns[1], columns[2])

    @classmethod
    def from_dense(cls, counts: np.ndarray) -> SparseCounts:
        """Counts of a table [G, A, G']."""
        table = np.asarray(counts, dtype=np.float64)
        if table.ndim != 3 or 0 in table.shape:
            raise InputError(f"counts: must be a table [G, A, G'] with no empty axis, found shape {table.shape}")
        bad = np.argwhere(~(table >= 0.0) | ~np.isfinite(table))
        if bad.size:
            place = ", ".join(str(i) for i in bad[0])
            raise InputError(f"counts[{place}] = {table[tuple(bad[0])]}: must be finite and not negative")
        cells = np.flatnonzero(table)
        after = table.shape[2]
        return cls(cells // after, cells % after, table.ravel()[cells], (table.shape[0], table.shape[1], after))

    @property
    def total(self) -> float:
        """Number of transitions, n."""
        return float(self.count.sum())

    def place(self, i: int) -> tuple[int, int, int]:
        """(g, a, g') of entry i."""
        return int(self.pair[i]) // self.shape[1], int(self.pair[i]) % self.shape[1], int(self.after[i])

    def plus(self, pair: np.ndarray, after: np.ndarray, count: np.ndarray | None = None) -> SparseCounts:
        """The same and the transitions pair [n], after [n], each as often as count [n] says (once)."""
        width = self.shape[2]
        cells = np.concatenate([self.pair * width + self.after, pair * width + after])
        weights = np.concatenate([self.count, np.ones(pair.size) if count is None else count])
        cells, where = np.unique(cells, return_inverse=True)
        return SparseCounts(
            cells // width, cells % width, np.bincount(where, weights=weights, minlength=cells.size), self.shape
        )


Counts = np.ndarray | SparseCounts


def number_of(counts: Counts) -> float:
    """How many transitions."""
    return counts.total if isinstance(counts, SparseCounts) else float(counts.sum())


def pooled(counts: list[Counts]) -> Counts:
    """The counts of all steps together; they must have the same shape."""
    shapes = sorted({c.shape for c in counts})
    if len(shapes) > 1:
        raise InputError(f"share: needs the same groups at every step, found shapes {shapes}")
    first = counts[0]
    if not isinstance(first, SparseCounts):
        return np.asarray(np.sum(counts, axis=0))  # type: ignore[arg-type]
    pair, after, count = (np.concatenate([getattr(c, name) for c in counts]) for name in ("pair", "after", "count"))
    return SparseCounts.empty(first.shape).plus(pair, after, count)


@dataclass(frozen=True)
class TransitionCounts:
    """Counts of transitions, one pair of entries for each of the H - 1 steps; `add` counts in place."""

    visits: list[np.ndarray]
    counts: list[Counts]

    @classmethod
    def empty(cls, sizes: list[int], n_actions: int, *, sparse: bool = False) -> TransitionCounts:
        """No data; sizes [H]: groups at each step. sparse: keep the cells that are met, not tables."""
        shapes = [(g, n_actions, after) for g, after in pairwise(sizes)]
        visits = [np.zeros(shape[:2]) for shape in shapes]
        return cls(visits, [SparseCounts.empty(s) if sparse else np.zeros(s) for s in shapes])

    def copy(self) -> TransitionCounts:
        """The same counts in arrays of their own."""
        return TransitionCounts(
            [v.copy() for v in self.visits], [c if isinstance(c, SparseCounts) else c.copy() for c in self.counts]
        )

    def add(self, h: int, group: np.ndarray, action: np.ndarray, after: np.ndarray, *, covariance: bool) -> None:
        """Count transitions [n] of step h; `covariance` says that they belong to D_h, not only to D~_h."""
        counts = self.counts[h]
        if isinstance(counts, SparseCounts):
            self.counts[h] = counts.plus(group * counts.shape[1] + action, after)
        else:
            np.add.at(counts, (group, action, after), 1.0)
        if covariance:
            np.add.at(self.visits[h], (group, action), 1.0)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        arrays = {f"visits.{h}": visits for h, visits in enumerate(self.visits)}
        for h, counts in enumerate(self.counts):
            if isinstance(counts, SparseCounts):
                arrays |= {f"pair.{h}": counts.pair, f"after.{h}": counts.after, f"count.{h}": counts.count}
            else:
                arrays[f"counts.{h}"] = counts
        return arrays

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> TransitionCounts:
        """From a checkpoint, given counts of the same shapes."""
        counts: list[Counts] = [
            SparseCounts(arrays[f"pair.{h}"], arrays[f"after.{h}"], arrays[f"count.{h}"], c.shape)
            if isinstance(c, SparseCounts)
            else arrays[f"counts.{h}"].copy()
            for h, c in enumerate(self.counts)
        ]
        return TransitionCounts([arrays[f"visits.{h}"].copy() for h in range(len(counts))], counts)
