"""Several runs that differ in their seed as one line, with the interval of `intervals` at each point as a band.

A run between two of its points has the value of the last one: that is the plan it would have played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailrank.checks import InputError, one_of
from tailrank.risk.over_runs.intervals import CENTRES, CONFIDENCE, FEWEST, interval_ends

MOST_POINTS = 400


@dataclass(frozen=True)
class Band:
    """A line x, y [t] with a band low, high [t], or without one (None)."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


def align(series: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Common points x [t] and the values there [n, t] of n runs, each given as (x, y) with increasing x.

    From where all runs have a value to where the first one ends.
    """
    first, last = max(x[0] for x, _ in series), min(x[-1] for x, _ in series)
    grid = np.unique(np.concatenate([x for x, _ in series]))
    grid = grid[(grid >= first) & (grid <= last)]
    if grid.size == 0:
        raise InputError("runs: of one configuration, they have no stretch in common; draw them one by one")
    grid = grid[np.unique(np.linspace(0, grid.size - 1, min(grid.size, MOST_POINTS)).astype(np.int64))]
    return grid, np.stack([y[np.searchsorted(x, grid, side="right") - 1] for x, y in series])


def band(
    x: np.ndarray, strata: Sequence[np.ndarray], how: str, rng: np.random.Generator, confidence: float = CONFIDENCE
) -> Band:
    """The centre of runs at x [t], with an interval (`interval_ends`) at each point where there are enough.

    strata: for each task the values [n, t] of its runs. how: one of CENTRES.
    """
    centre, samples = CENTRES[one_of(how, "center", CENTRES)], [table.T for table in strata]
    y = centre(*samples)
    if min(len(table) for table in strata) < FEWEST:
        return Band(x, y)
    return Band(x, y, *interval_ends(centre, samples, confidence, rng))
