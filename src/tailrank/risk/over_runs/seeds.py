"""Several runs that differ in their seed as one line with a band.

Runs are resampled with replacement, within each task where there are several (a stratified bootstrap; Agarwal et al.
2021); the band holds the middle 95% (`confidence`) of the centres of the resamples, at each point by itself. A run
between two of its points has the value of the last one: that is the plan it would have played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailrank.checks import InputError, one_of

CENTRES = ("mean", "median", "iqm")
RESAMPLES = 2000
CONFIDENCE = 0.95
FEWEST, ENOUGH = 3, 10
"""Runs from which on a band is drawn (two resample to nothing but themselves), and can be trusted a little."""
MOST_POINTS = 400
BLOCK = 4_000_000


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


def centre(values: np.ndarray, how: str) -> np.ndarray:
    """Mean, median or mean of the middle half (iqm) over the next to last axis: [.., n, t] -> [.., t]."""
    if one_of(how, "center", CENTRES) == "mean":
        return np.asarray(values.mean(axis=-2))
    if how == "median":
        return np.asarray(np.median(values, axis=-2))
    cut = values.shape[-2] // 4
    ordered = np.sort(values, axis=-2)
    return np.asarray(ordered[..., cut : values.shape[-2] - cut, :].mean(axis=-2))


def band(
    x: np.ndarray, strata: Sequence[np.ndarray], how: str, rng: np.random.Generator, confidence: float = CONFIDENCE
) -> Band:
    """The centre of runs at x [t], with a band where there are enough of them.

    strata: for each task the values [n, t] of its runs; the centres of the tasks are averaged.
    """
    y = np.mean([centre(table, how) for table in strata], axis=0)
    if sum(len(table) for table in strata) < FEWEST:
        return Band(x, y)
    resampled = np.zeros((RESAMPLES, x.size))
    for table in strata:
        n = len(table)
        rows = max(1, BLOCK // table.size)
        for begin in range(0, RESAMPLES, rows):
            size = min(rows, RESAMPLES - begin)
            chosen = table[rng.integers(0, n, size=(size, n))]
            resampled[begin : begin + size] += centre(chosen, how) / len(strata)
    low, high = np.quantile(resampled, [0.5 - confidence / 2, 0.5 + confidence / 2], axis=0)
    return Band(x, y, low, high)
