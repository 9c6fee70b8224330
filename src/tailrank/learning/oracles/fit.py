"""What every oracle takes and gives: counts of the transitions of one step in, a fitted step out.

The log-likelihood of a step is sum N(g, a, g') log sum_j phi_j(g, a) psi_j(g'), in nats over all transitions.
An oracle for an infinite class has no |F|; in its place stands an effective number, log |F| = (number of
free parameters) log n, which is how finely n transitions can tell its members apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tailrank.checks import InputError
from tailrank.models.counts import SparseCounts
from tailrank.models.lowrank import StepModel

CHUNK = 1 << 20
"""Entries of phi and psi gathered at a time, so that memory does not grow with the data."""


@dataclass(frozen=True)
class Fit:
    """A fitted step, its log-likelihood, the log-likelihood after each pass, and whether the search ended by itself.

    step: a `StepModel`, or an `EmpiricalStep` where the oracle makes no table.
    """

    step: Any
    log_likelihood: float
    trace: np.ndarray
    converged: bool


class MleOracle(Protocol):
    """Fits one step of a model to counts."""

    def fit(self, counts: np.ndarray | SparseCounts, *, rng: np.random.Generator, warm: Any = None) -> Fit:
        """The most likely step of the class (or the best that was found), given counts [G, A, G']."""
        ...

    def dimension(self, shape: tuple[int, int, int]) -> int:
        """d, the rank of the steps that are fitted to counts of this shape."""
        ...

    def log_class_size(self, n: float, shape: tuple[int, int, int]) -> float:
        """log |F| for n transitions of this shape, exact for a finite class."""
        ...


def sparse(counts: np.ndarray | SparseCounts) -> SparseCounts:
    """Checked counts, whichever form they came in."""
    if not isinstance(counts, SparseCounts):
        return SparseCounts.from_dense(counts)
    bad = np.flatnonzero(~(counts.count > 0.0) | ~np.isfinite(counts.count))
    if bad.size:
        place = ", ".join(str(i) for i in counts.place(int(bad[0])))
        raise InputError(f"counts[{place}] = {counts.count[bad[0]]}: must be finite and positive")
    cell = counts.pair * counts.shape[2] + counts.after
    if np.any(np.diff(cell) <= 0):
        i = int(np.flatnonzero(np.diff(cell) <= 0)[0]) + 1
        raise InputError(f"counts: entry {i} is not after entry {i - 1}, expected each (g, a, g') once and in order")
    pairs, after = counts.shape[0] * counts.shape[1], counts.shape[2]
    if cell.size and not (
        counts.pair[0] >= 0 and counts.pair[-1] < pairs and 0 <= counts.after.min() <= counts.after.max() < after
    ):
        raise InputError(f"counts: an index lies outside the shape {counts.shape}")
    return counts


def log_likelihood(step: StepModel, counts: np.ndarray | SparseCounts) -> float:
    """sum N log P over all transitions, -inf when the step excludes one of them."""
    data = sparse(counts)
    phi = step.phi.reshape(-1, step.phi.shape[-1])
    emission = np.ascontiguousarray(step.psi.T)
    width = max(CHUNK // phi.shape[1], 1)
    total = 0.0
    for begin in range(0, data.count.size, width):
        part = slice(begin, begin + width)
        likely = np.einsum("ij,ij->i", phi[data.pair[part]], emission[data.after[part]])
        with np.errstate(divide="ignore"):
            total += float(data.count[part] @ np.log(likely))
    return total


def check_warm(warm: StepModel, shape: tuple[int, int, int], rank: int) -> None:
    """Raise unless `warm` is a step of this shape and rank."""
    found, wanted = (warm.phi.shape, warm.psi.shape), ((*shape[:2], rank), (rank, shape[2]))
    if found != wanted:
        raise InputError(
            f"warm: phi and psi must have shapes {wanted[0]} and {wanted[1]}, found {found[0]}, {found[1]}"
        )
    warm.check("warm")


def parameters_log(free: float, n: float) -> float:
    """log |F| of a class with so many free parameters, for n transitions."""
    return free * math.log(max(n, 2.0))
