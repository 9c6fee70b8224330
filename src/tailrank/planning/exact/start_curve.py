"""The tables of the first step of an induction, mixed by the start law, chunk after chunk."""

from __future__ import annotations

import numpy as np

from tailrank.planning.exact.storage import Tables


class StartCurve:
    """One column of the tables of the first step, mixed by the start law [S] as they are added.

    The budgets are those between the least and the most that can be earned from some start; where starts leave a gap
    V is linear, so a maximiser of c - V / tau is always among them. slope: that of a table above its last entry.
    """

    def __init__(self, tables: Tables, start: np.ndarray, slope: float) -> None:
        self._tables, self._start, self._slope = tables, start, slope
        spans = _union(*(x[start > 0] for x in (tables.first, tables.last)))
        self._parts = [(low, np.zeros(high - low + 1)) for low, high in spans]

    def add(self, begin: int, end: int, places: np.ndarray, values: np.ndarray) -> None:
        """Add what the states begin..end-1 have; places [S, 3]: see `Tables.place`."""
        from tailrank.planning.exact import _kernels

        states, tables = slice(begin, end), self._tables
        own = (self._start[states], tables.first[states], tables.offset[begin : end + 1], places[states], values)
        for low, total in self._parts:
            _kernels.mix_tables(*own, low, total, self._slope)

    @property
    def budgets(self) -> np.ndarray:
        """The budgets, [C]."""
        return np.concatenate([np.arange(low, low + total.size) for low, total in self._parts])

    @property
    def total(self) -> np.ndarray:
        """What was added so far, [C]."""
        return np.concatenate([total for _, total in self._parts])


def _union(first: np.ndarray, last: np.ndarray) -> list[tuple[int, int]]:
    """The whole numbers in one of the intervals first..last [n], as intervals apart, in order."""
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    begins = np.concatenate([[0], 1 + np.flatnonzero(first[1:] > last[:-1] + 1)])
    ends = last[np.append(begins[1:] - 1, first.size - 1)]
    return list(zip(first[begins].tolist(), ends.tolist(), strict=True))
