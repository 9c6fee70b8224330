"""Times until something happens, where some runs end before it does (censored on the right).

A run that never got there says that its time is longer than the run: to leave it out, or to count its length as its
time, makes a method look better the shorter its runs are. The share S(t) that is still waiting after t is therefore
estimated by Kaplan and Meier (1958). Its interval is that of Greenwood on the scale log(-log S); the interval of the
median holds the times at which S cannot be told from 1/2 (Brookmeyer and Crowley 1982). Where S has fallen to 0 its
interval is not defined; departure: its upper end is then that of Clopper and Pearson for the runs that were left.
Two methods are compared by the log-rank test (Mantel 1966), whose p-value comes from permutations: exact for few runs.
SciPy has the curve and the statistic.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.checks import InputError

PERMUTATIONS = 20_000
"""All of them where there are no more, else as many random ones."""
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Waits:
    """Times [n], and whether it happened then [n]; where not, it had not happened until then."""

    time: np.ndarray
    event: np.ndarray

    def __post_init__(self) -> None:
        if self.time.size == 0 or self.time.shape != self.event.shape:
            raise InputError(f"times: must be as many as events and at least one, found {self.time.shape}")

    @property
    def longest(self) -> float:
        """The last time that anything is known about."""
        return float(self.time.max())


@dataclass(frozen=True)
class SurvivalCurve:
    """Share that still waits after each time x [t], with an interval at each of them; before x[0] it is 1."""

    x: np.ndarray
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Median:
    """The median time; None is later than `beyond`, the end of the data. The same for the ends of its interval."""

    value: float | None
    low: float | None
    high: float | None
    beyond: float


@dataclass(frozen=True)
class LogRank:
    """excess: times reached by the first sample less what was expected if both were alike; above 0 it is faster."""

    chi2: float
    p: float
    excess: float
    exact: bool


def survival_curve(waits: Waits, confidence: float) -> SurvivalCurve:
    """The estimate of Kaplan and Meier."""
    from scipy import stats

    found = stats.ecdf(_censored_data(waits)).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        ends: Any = found.confidence_interval(confidence, method="log-log")
    share = np.asarray(found.probabilities)
    low, high = (np.asarray(end.probabilities) for end in (ends.low, ends.high))
    # Undefined at 1 and at 0: there, nothing was seen to vary.
    low, high = np.where(np.isnan(low), share, low), np.where(np.isnan(high), share, high)
    if share[-1] <= TOLERANCE:
        before = float(high[-2]) if share.size > 1 else 1.0
        left = int((waits.time >= found.quantiles[-1]).sum())
        high[-1] = before * (1.0 - (0.5 - confidence / 2) ** (1.0 / left))
    return SurvivalCurve(np.asarray(found.quantiles), share, low, high)


def median_time(waits: Waits, confidence: float) -> Median:
    """The first time at which no more than half still wait."""
    return median_of(survival_curve(waits, confidence), waits.longest)


def median_of(found: SurvivalCurve, beyond: float) -> Median:
    """The median of a curve from data that ends at `beyond`."""
    value, low, high = (_first(found.x, y) for y in (found.share, found.low, found.high))
    return Median(value, low, high, beyond)


def _first(x: np.ndarray, y: np.ndarray) -> float | None:
    below = np.flatnonzero(y <= 0.5 + TOLERANCE)
    return float(x[below[0]]) if below.size else None


def limit(*samples: Waits) -> float:
    """The longest time up to which nothing is censored in any sample: a mean up to there is of what was seen."""
    ends = [float(w.time[~w.event].min()) for w in samples if not w.event.all()]
    return min(ends) if ends else max(w.longest for w in samples)


def restricted_times(waits: Waits, until: float) -> np.ndarray:
    """min(time, until) [n], known for every run if `until` is not beyond `limit`; its mean is the area under S."""
    return np.minimum(waits.time, until)


def log_rank(first: Waits, second: Waits, rng: np.random.Generator) -> LogRank:
    """Whether two samples, of two or more, wait alike.

    The excess is the sum over the first sample of event - (cumulative hazard of both until its time), so permuting
    these scores permutes the test.
    """
    from scipy import stats

    scores = _scores(first, second)
    n = first.time.size
    if not np.any(scores):
        return LogRank(0.0, 1.0, 0.0, True)
    with np.errstate(invalid="ignore"):
        statistic = float(stats.logrank(_censored_data(first), _censored_data(second)).statistic)
    if not math.isfinite(statistic):
        # No time at which something happened while runs of both were waiting.
        return LogRank(0.0, 1.0, 0.0, True)
    done = stats.permutation_test(
        (scores[:n], scores[n:]),
        lambda x, y, axis: x.sum(axis=axis),
        vectorized=True,
        n_resamples=PERMUTATIONS,
        batch=PERMUTATIONS // 4,
        alternative="two-sided",
        random_state=rng,
    )
    exact = math.comb(scores.size, n) <= PERMUTATIONS
    return LogRank(statistic**2, float(done.pvalue), float(scores[:n].sum()), exact)


def _scores(first: Waits, second: Waits) -> np.ndarray:
    """Event less cumulative hazard (Nelson and Aalen, both samples together) of every run [n + m]; they sum to 0."""
    time, event = np.concatenate([first.time, second.time]), np.concatenate([first.event, second.event])
    at, happened = np.unique(time[event], return_counts=True)
    waiting = (time[:, None] >= at[None, :]).sum(axis=0)
    hazard = np.append(0.0, np.cumsum(happened / waiting))
    return event - hazard[np.searchsorted(at, time, side="right")]


def _censored_data(waits: Waits) -> Any:
    from scipy import stats

    return stats.CensoredData(uncensored=waits.time[waits.event], right=waits.time[~waits.event])
