"""Numbers over repeated runs of one or several tasks, with intervals.

Runs are resampled with replacement within each task (a stratified bootstrap; Agarwal, Schwarzer, Castro, Courville,
Bellemare 2021), tasks are fixed. The interval is made of quantiles of the resampled values. Departure: a resample of n
runs spreads too little by sqrt((n - 1) / n), and a normal law is too short where the spread is estimated, so the
quantiles lie further out (Hesterberg 2015): at the normal tail of sqrt(n / (n - 1)) t, where t is of Student's law with
as many degrees of freedom as there are runs less samples, n the fewest runs of a sample. Where a sample has fewer than
`FEWEST` runs there is no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tailrank.checks import inside

FEWEST, ENOUGH = 3, 10
"""Runs from which on there is an interval (two resample to nothing but themselves), and it can be trusted a little."""
CONFIDENCE = 0.95
RESAMPLES = 5000
BLOCK = 4_000_000
"""Numbers in memory at once."""
Statistic = Callable[..., np.ndarray]
"""A function of samples (arrays whose last axis is the runs of one task) that leaves the other axes."""


@dataclass(frozen=True)
class SeedInterval:
    """A value and the ends of its interval, None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None


def check_confidence(confidence: object) -> float:
    """A confidence in [0.5, 1)."""
    return inside(confidence, "confidence", "[0.5, 1)")


def average(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    """Mean over the tasks of the mean over runs: [.., n] each -> [..]."""
    return np.mean([sample.mean(axis=axis) for sample in samples], axis=0)


def interquartile_mean(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    """Interquartile mean: that of the middle half of all runs of all tasks, [.., n] each -> [..]."""
    from scipy import stats

    return np.asarray(stats.trim_mean(np.concatenate(samples, axis=axis), 0.25, axis=axis))


def median(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    """Median of all runs of all tasks, [.., n] each -> [..]."""
    return np.asarray(np.median(np.concatenate(samples, axis=axis), axis=axis))


CENTRES: dict[str, Statistic] = {"mean": average, "median": median, "iqm": interquartile_mean}
"""What may stand for several runs."""


def improvement(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    """P(X > Y) + P(X = Y) / 2, averaged over tasks: X of every task, then Y of every task, [.., n] each -> [..].

    For one task it is the statistic of Mann and Whitney, divided by the number of pairs.
    """
    half = len(samples) // 2
    wins = []
    for x, y in zip(samples[:half], samples[half:], strict=True):
        gap = np.expand_dims(np.moveaxis(x, axis, -1), -1) - np.expand_dims(np.moveaxis(y, axis, -1), -2)
        wins.append((np.sign(gap).mean(axis=(-2, -1)) + 1.0) / 2.0)
    return np.mean(wins, axis=0)


def bootstrap_interval(
    statistic: Statistic, samples: Sequence[np.ndarray], confidence: float, rng: np.random.Generator
) -> SeedInterval:
    """The statistic of the samples, each [n], with its interval."""
    value = float(statistic(*samples))
    if min(sample.size for sample in samples) < FEWEST:
        return SeedInterval(value)
    low, high = interval_ends(statistic, samples, confidence, rng)
    return SeedInterval(value, float(low), float(high))


def interval_ends(
    statistic: Statistic, samples: Sequence[np.ndarray], confidence: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The ends [..] of the intervals for samples [.., n] (of several experiments, resampled alike).

    Which runs a resample takes depends on `rng` and the numbers of runs alone. So a table, a plot and a page that
    begin with the same `rng` show the same interval for the same runs.
    """
    sizes = [sample.shape[-1] for sample in samples]
    chosen = [rng.integers(0, n, size=(RESAMPLES, n)) for n in sizes]
    each = max(sizes) ** 2 if statistic is improvement else sum(sizes)
    rows = max(1, BLOCK // (each * samples[0][..., 0].size))
    values = [
        statistic(*(sample[..., rows_of[i : i + rows]] for sample, rows_of in zip(samples, chosen, strict=True)))
        for i in range(0, RESAMPLES, rows)
    ]
    tail = 0.5 - widen_confidence(confidence, sizes) / 2
    low, high = np.quantile(np.concatenate(values, axis=-1), [tail, 1.0 - tail], axis=-1)
    return low, high


def widen_confidence(confidence: float, sizes: Sequence[int]) -> float:
    """Share of the resampled values that an interval must hold, for samples of these sizes (each at least 2)."""
    from scipy import stats

    n, freedom = min(sizes), sum(sizes) - len(sizes)
    reach = np.sqrt(n / (n - 1)) * stats.t.ppf(0.5 + confidence / 2, freedom)
    return float(1.0 - 2.0 * stats.norm.sf(reach))


def improvement_interval(
    better: Sequence[np.ndarray], worse: Sequence[np.ndarray], confidence: float, rng: np.random.Generator
) -> SeedInterval:
    """Probability of improvement of the runs `better` over the runs `worse`, both by task, [n] each.

    Where all runs of one lie above all of the other, resamples know nothing else. Then the end is that of Clopper and
    Pearson for pairs that share no run: it holds because all of them win with probability at most mean^pairs.
    """
    found = bootstrap_interval(improvement, [*better, *worse], confidence, rng)
    if found.low is None or found.value not in (0.0, 1.0):
        return found
    end = separated_end([min(x.size, y.size) for x, y in zip(better, worse, strict=True)], confidence)
    return SeedInterval(1.0, end, 1.0) if found.value == 1.0 else SeedInterval(0.0, 0.0, 1.0 - end)


def separated_end(pairs: Sequence[int], confidence: float) -> float:
    """The lower end where all of so many pairs, that share no run, were won."""
    return float((0.5 - confidence / 2) ** (1.0 / sum(pairs)))


def share_interval(hits: int, n: int, confidence: float) -> SeedInterval:
    """The share hits / n with the interval of Wilson (1927)."""
    from scipy import stats

    found = stats.binomtest(hits, n).proportion_ci(confidence, method="wilson")
    return SeedInterval(hits / n, float(found.low), float(found.high))


def shares_interval(samples: Sequence[np.ndarray], confidence: float, rng: np.random.Generator) -> SeedInterval:
    """Mean over tasks of the share of hits; samples: of each task its hits and misses [n].

    Of several tasks by resampling, unless all or none are hits.
    """
    found = bootstrap_interval(average, samples, confidence, rng)
    if found.low is None or (len(samples) > 1 and 0.0 < found.value < 1.0):
        return found
    return share_interval(
        int(sum(sample.sum() for sample in samples)), sum(sample.size for sample in samples), confidence
    )


def holm(p: Sequence[float]) -> list[float]:
    """p-values of several tests [m], made larger so that all may be looked at (Holm 1979)."""
    order = np.argsort(p, kind="stable")
    grown = np.maximum.accumulate([min(1.0, (len(p) - i) * p[j]) for i, j in enumerate(order)])
    result = [0.0] * len(p)
    for j, value in zip(order, grown, strict=True):
        result[j] = float(value)
    return result
