"""Counts: no structure at all. phi(g, a) is the unit vector of the pair, psi of a pair its empirical law.

d = G A, so that phi holds (G A)^2 entries and an elliptical bonus on phi is a bonus on counts. A pair that
was never seen is followed by every group with equal probability.

`smoothing` is a number of pseudo-counts for each pair, spread evenly over the next groups. It moves a
probability of smoothing / (N + smoothing) to outcomes that may never happen. Summed over the horizon, what
leaks to bad outcomes must stay far below tau (about tau / H a step at the very most), or no plan can do
better than the leak: zero, the default, is the safe choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.checks import not_negative
from tailrank.learning.oracles.fit import Fit, parameters_log, sparse
from tailrank.models.counts import SparseCounts
from tailrank.models.lowrank import EmpiricalStep, StepModel


@dataclass(frozen=True)
class TabularCounts:
    """Empirical laws of the next group."""

    smoothing: float = 0.0

    def __post_init__(self) -> None:
        not_negative(self.smoothing, "smoothing")

    def dimension(self, shape: tuple[int, int, int]) -> int:
        """d = G A."""
        return shape[0] * shape[1]

    def log_class_size(self, n: float, shape: tuple[int, int, int]) -> float:
        """G A (G' - 1) log n, an effective number."""
        return parameters_log(shape[0] * shape[1] * (shape[2] - 1), n)

    def fit(self, counts: np.ndarray | SparseCounts, *, rng: np.random.Generator, warm: StepModel | None = None) -> Fit:
        """The empirical laws. Neither chance nor a warm start plays a part."""
        data = sparse(counts)
        groups, actions, after = data.shape
        pairs = groups * actions
        laws = np.full((pairs, after), self.smoothing / after)
        laws[data.pair, data.after] += data.count
        seen = np.bincount(data.pair, weights=data.count, minlength=pairs) > 0.0
        laws[seen] /= laws[seen].sum(axis=1, keepdims=True)
        laws[~seen] = 1.0 / after
        value = float(data.count @ np.log(laws[data.pair, data.after]))
        step = StepModel(np.eye(pairs).reshape(groups, actions, pairs), laws)
        return Fit(step, value, np.array([value]), True)


@dataclass(frozen=True)
class EmpiricalCounts:
    """The same empirical laws as rows that were met instead of tables: as many states as memory holds pairs."""

    def dimension(self, shape: tuple[int, int, int]) -> int:
        """d = G A."""
        return shape[0] * shape[1]

    def log_class_size(self, n: float, shape: tuple[int, int, int]) -> float:
        """G A (G' - 1) log n, an effective number."""
        return TabularCounts().log_class_size(n, shape)

    def fit(self, counts: np.ndarray | SparseCounts, *, rng: np.random.Generator, warm: object = None) -> Fit:
        """The relative frequencies. Neither chance nor a warm start plays a part."""
        data = counts if isinstance(counts, SparseCounts) else sparse(counts)
        step = EmpiricalStep.of(data)
        value = float(data.count @ np.log(step.prob))
        return Fit(step, value, np.array([value]), True)
