"""Numbers across configurations and tasks: tests of two, probabilities of improvement, scores over all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailrank.comparison.measures import TOLERANCE, Contrast, Options, TaskResults, all_of, judged_cvar, settled_runs
from tailrank.risk.over_runs import intervals, survival
from tailrank.risk.over_runs.intervals import SeedInterval
from tailrank.risk.over_runs.seeds import Band, band

ABOVE = (0.5, 0.95)
"""Scores at which the text says how many runs are above; files have all of `PROFILE`."""
PROFILE = np.round(np.linspace(0.0, 1.0, 21), 2)


@dataclass(frozen=True)
class Overall:
    """A configuration over the tasks that all configurations have; `above`: share of runs with a score above ABOVE."""

    method: int
    runs: int
    tasks: int
    iqm: SeedInterval
    mean: SeedInterval
    above: tuple[SeedInterval, ...]
    profile: Band


@dataclass(frozen=True)
class Pair:
    """Probability that a run of the first has a better final CVaR than one of the second, averaged over their tasks."""

    pair: tuple[int, int]
    tasks: int
    improvement: SeedInterval


def tests(task: TaskResults, pairs: Sequence[tuple[int, int]], options: Options) -> tuple[Contrast, ...]:
    """The log-rank tests of a task between configurations that ran on it, twice or more."""
    known = [one for one in task.cells if len(one.records) > 1]
    cell = {one.method: one for one in known if one.first is not None and one.stay is not None}
    done = []
    for a, b in pairs:
        if a in cell and b in cell:
            first, stay = (
                survival.log_rank(getattr(cell[a], name).waits, getattr(cell[b], name).waits, options.rng())
                for name in ("first", "stay")
            )
            done.append(Contrast((a, b), first, stay))
    return tuple(done)


def overall(tasks: Sequence[TaskResults], methods: int, options: Options) -> tuple[Overall, ...]:
    """Every configuration over the tasks on which all of them have scores; none where there is no such task."""
    shared = tasks_with_scores(tasks, methods)
    result = []
    for m in range(methods if shared else 0):
        samples = [next(c.scores for c in task.cells if c.method == m and c.scores is not None) for task in shared]
        shares = [(x[:, None] > PROFILE[None, :] + TOLERANCE).astype(float) for x in samples]
        above = [
            intervals.shares_interval([x > limit + TOLERANCE for x in samples], options.confidence, options.rng())
            for limit in ABOVE
        ]
        iqm, mean = (options.interval(how, samples) for how in (intervals.interquartile_mean, intervals.average))
        profile = band(PROFILE, shares, "mean", options.rng(), options.confidence)
        result.append(Overall(m, sum(x.size for x in samples), len(shared), iqm, mean, tuple(above), profile))
    return tuple(result)


def tasks_with_scores(tasks: Sequence[TaskResults], methods: int) -> list[TaskResults]:
    """The tasks on which every configuration has scores."""
    return [task for task in tasks if sum(cell.scores is not None for cell in task.cells) == methods]


def improvements(tasks: Sequence[TaskResults], pairs: Sequence[tuple[int, int]], options: Options) -> tuple[Pair, ...]:
    """Probabilities of improvement, of pairs with a task in common."""
    result = []
    for a, b in pairs:
        samples = [sample for task in tasks if (sample := _both(task, a, b, options)) is not None]
        if samples:
            xs, ys = zip(*samples, strict=True)
            result.append(
                Pair((a, b), len(samples), intervals.improvement_interval(xs, ys, options.confidence, options.rng()))
            )
    return tuple(result)


def _both(task: TaskResults, a: int, b: int, options: Options) -> tuple[np.ndarray, np.ndarray] | None:
    """Scores of both on a task, or their CVaR where CVaR* is not known."""
    cell = {one.method: one for one in task.cells}
    if a not in cell or b not in cell:
        return None
    x, y = cell[a].scores, cell[b].scores
    if x is None or y is None:
        x, y = (
            all_of(settled_runs(cell[m].records), lambda record: judged_cvar(record, task.at, options)) for m in (a, b)
        )
    return None if x is None or y is None else (_round(x), _round(y))


def _round(x: np.ndarray) -> np.ndarray:
    """Values that differ by rounding only are ties."""
    return np.round(x, 9)
