"""The numbers of a configuration on a task.

A run's score is (CVaR - floor) / (CVaR* - floor) of the plan it returned (or of its last plan), where CVaR* is known
and above the floor. Runs of one task are compared at one number of episodes, the most that all of them have. Runs that
are not finished count in the episodes to CVaR* only, as far as they got; where no run of a cell is finished, all count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tailrank.comparison._records import Record, waits
from tailrank.risk.over_runs import intervals, survival
from tailrank.risk.over_runs.intervals import SeedInterval, Statistic
from tailrank.risk.over_runs.survival import LogRank, Median, SurvivalCurve, Waits

SCORES = ("returned", "last")
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Options:
    """How to compare. at: episodes at which runs of a task are compared, None for the most that all have."""

    within: float = 0.05
    confidence: float = 0.95
    floor: float = 0.0
    score: str = "returned"
    at: float | None = None
    seed: int = 0

    def rng(self) -> np.random.Generator:
        """What draws resamples: the same for every number, so that none depends on what else is compared."""
        return np.random.default_rng(self.seed)

    def interval(self, statistic: Statistic, samples: Sequence[np.ndarray]) -> SeedInterval:
        """The statistic of these samples, [n] each, with its interval."""
        return intervals.bootstrap_interval(statistic, samples, self.confidence, self.rng())


@dataclass(frozen=True)
class Reached:
    """Episodes until the plan is within a share of CVaR*. mean: of min(episodes, until)."""

    waits: Waits
    solved: SeedInterval
    median: Median
    mean: SeedInterval
    until: float
    curve: SurvivalCurve


@dataclass(frozen=True)
class Cell:
    """A configuration (by its place) on a task. None: not known; means over `settled_runs`, scores [n]."""

    method: int
    records: tuple[Record, ...]
    first: Reached | None
    stay: Reached | None
    last: SeedInterval | None
    returned: SeedInterval | None
    score: SeedInterval | None
    regret: SeedInterval | None
    seconds: SeedInterval | None
    rate: SeedInterval | None
    scores: np.ndarray | None


@dataclass(frozen=True)
class Contrast:
    """Log-rank test of two configurations on a task: for the first time, and to stay. adjusted: by Holm, of `first`."""

    pair: tuple[int, int]
    first: LogRank
    stay: LogRank
    adjusted: float = 1.0


@dataclass(frozen=True)
class TaskResults:
    """A task with its cells. at: episodes at which its runs are compared, None where they have none in common."""

    name: str
    tau: float
    star: float | None
    at: float | None
    cells: tuple[Cell, ...]
    tests: tuple[Contrast, ...] = ()


def settled_runs(records: Sequence[Record]) -> tuple[Record, ...]:
    """The runs that are finished, or all if none is."""
    return tuple(record for record in records if record.run.status == "finished") or tuple(records)


def common(records: Sequence[Record], wanted: float | None) -> float | None:
    """Episodes at which these runs are compared."""
    spans = [record.span for record in records]
    known = [span for span in spans if span is not None]
    if not known or len(known) < len(spans):
        return None
    at = min(last for _, last in known) if wanted is None else wanted
    return at if at >= max(first for first, _ in known) else None


def cells(by_method: dict[int, tuple[Record, ...]], at: float | None, options: Options) -> tuple[Cell, ...]:
    """The cells of a task."""
    first, stay = (_readings(by_method, options, later) for later in (False, True))
    return tuple(_cell(m, records, at, first[m], stay[m], options) for m, records in by_method.items())


def _readings(by_method: dict[int, tuple[Record, ...]], options: Options, stay: bool) -> dict[int, Reached | None]:
    """Episodes to within a share of CVaR* of every configuration, with means up to one common end."""
    times = {m: waits(records, options.within, options.floor, stay) for m, records in by_method.items()}
    done = {m: waits(settled_runs(records), options.within, options.floor, stay) for m, records in by_method.items()}
    known = [one for one in done.values() if one is not None]
    until = survival.limit(*known) if known else 0.0
    return {m: _summarise_times(times[m], done[m], until, options) for m in by_method}


def _summarise_times(times: Waits | None, done: Waits | None, until: float, options: Options) -> Reached | None:
    if times is None or done is None:
        return None
    confidence = options.confidence
    mean = options.interval(intervals.average, [survival.restricted_times(done, until)])
    solved = intervals.share_interval(int(times.event.sum()), times.event.size, confidence)
    curve = survival.survival_curve(times, confidence)
    return Reached(times, solved, survival.median_time(times, confidence), mean, until, curve)


def _cell(
    method: int,
    records: tuple[Record, ...],
    at: float | None,
    first: Reached | None,
    stay: Reached | None,
    options: Options,
) -> Cell:
    done = settled_runs(records)

    def mean(value: Callable[[Record], float | None]) -> SeedInterval | None:
        values = all_of(done, value)
        return None if values is None else options.interval(intervals.average, [values])

    scores = all_of(done, lambda record: score_of(record, at, options))
    return Cell(
        method,
        records,
        first,
        stay,
        None if at is None else mean(lambda record: record.last(at)),
        mean(lambda record: record.returned),
        mean(lambda record: score_of(record, at, options)),
        None if at is None else mean(lambda record: record.regret_at(at)),
        mean(lambda record: record.seconds),
        mean(_rate),
        scores,
    )


def _rate(record: Record) -> float | None:
    """Episodes a second."""
    return record.episodes / record.seconds if record.seconds and record.episodes is not None else None


def all_of(records: Sequence[Record], value: Callable[[Record], float | None]) -> np.ndarray | None:
    """The value of every run [n]; None if one of them has none."""
    values = [value(record) for record in records]
    return None if any(one is None for one in values) else np.array(values, dtype=np.float64)


def judged_cvar(record: Record, at: float | None, options: Options) -> float | None:
    """The CVaR that a run is judged by."""
    if options.score == "returned":
        return record.final()
    return None if at is None else record.last(at)


def score_of(record: Record, at: float | None, options: Options) -> float | None:
    """How much of what is possible the run has reached."""
    value = judged_cvar(record, at, options)
    if value is None or record.star is None or record.star - options.floor <= TOLERANCE:
        return None
    return (value - options.floor) / (record.star - options.floor)
