"""Compare runs: read them, sort them by task and configuration, measure, and say what a reader must know."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from tailrank.checks import InputError, did_you_mean, number, one_of, whole
from tailrank.comparison import _notes, across, measures
from tailrank.comparison._records import Record
from tailrank.comparison._records import run_folders as run_folders
from tailrank.comparison.across import Overall, Pair
from tailrank.comparison.groups import Paths, by_kind
from tailrank.comparison.measures import SCORES, Options, TaskResults
from tailrank.comparison.tasks import (
    OWN_SEED,
    Crossed,
    crossed,
    method_names,
    seeded,
    separating,
    task_key,
    task_names,
    without,
)
from tailrank.risk.over_runs.intervals import check_confidence, holm
from tailrank.runs.read import Run

ALL_PAIRS = 6
"""Configurations up to which all pairs are compared if no baseline is named."""


@dataclass(frozen=True)
class Comparison:
    """Runs compared; cells, pairs and tests name methods by their place in `methods`."""

    methods: tuple[str, ...]
    tasks: tuple[TaskResults, ...]
    overall: tuple[Overall, ...]
    pairs: tuple[Pair, ...]
    options: Options
    notes: tuple[str, ...]


def compare(
    runs: Paths,
    *,
    within: float = 0.05,
    confidence: float = 0.95,
    floor: float = 0.0,
    score: str = "returned",
    at: int | None = None,
    baseline: str | None = None,
    labels: Sequence[str] = (),
    pool: Sequence[str] = (),
    rng: np.random.Generator | None = None,
) -> Comparison:
    """Compare the runs in these folders, or in folders below them.

    within: how near to CVaR* is near enough, as a share of CVaR* - floor. score: whose CVaR makes the score of a run,
    that of the plan it `returned` or of its `last` plan. at: episodes at which last plans and regrets are compared.
    baseline: the configuration that the others are compared with, else every pair. labels: names of the
    configurations. pool: settings whose values count as seeds.
    """
    seed = 0 if rng is None else int(rng.integers(2**32))
    options = replace(_options(within, confidence, floor, score, at), seed=seed)
    records, said = _read(runs)
    table, more = _table(records, pool)
    methods = _methods(table, labels)
    pairs, also = _pairs(methods, baseline)
    tasks = _adjust_tests(_tasks(table, records, options, pairs))
    overall = across.overall(tasks, len(methods), options)
    improved = across.improvements(tasks, pairs, options)
    said += [*more, *also, *_notes.of(methods, tasks, options), *_notes.of_settings(table)]
    return Comparison(methods, tuple(tasks), overall, improved, options, tuple(said))


def _options(within: float, confidence: float, floor: float, score: str, at: int | None) -> Options:
    if not 0.0 <= number(within, "within") < 1.0:
        raise InputError(f"within = {within:g}: must lie in [0, 1), a share of CVaR*")
    one_of(score, "score", SCORES)
    episodes = None if at is None else float(whole(at, "at"))
    return Options(float(within), check_confidence(confidence), number(floor, "floor"), score, episodes)


def _read(runs: Paths) -> tuple[list[Record], list[str]]:
    """The runs that can be compared, and a note on those that cannot."""
    records = [Record.of(Run.read(folder)) for folder in run_folders(runs)]
    by_kind(record.run for record in records)
    empty = [record.run for record in records if record.judged is None and record.returned is None]
    kept = [record for record in records if record.judged is not None or record.returned is not None]
    if not kept:
        raise InputError(
            f"{empty[0].folder}: no plan of this run was judged yet (no row has a cvar); nothing to compare"
        )
    return kept, _notes.left_out(empty)


def _table(records: Sequence[Record], pool: Sequence[str]) -> tuple[Crossed, list[str]]:
    """Runs by task and method. An environment that is drawn with the seed of a run is one task for all seeds."""
    runs = [record.run for record in records]
    known = {name for run in runs for key, value in run.config.items() for name in _names(key, value)}
    for name in pool:
        if name not in known:
            raise InputError(f"pool = {name!r:.60}: is no setting of these runs{did_you_mean(name, known)}")
    plain = [without(run, set(pool)) for run in runs]
    drawn = {run.folder for alike in _alike(plain) if seeded(alike) for run in alike}
    pooled = [without(run, {OWN_SEED}) if run.folder in drawn else run for run in plain]
    said = [f"{OWN_SEED} follows the seed: environments that are drawn with it count as one task"] if drawn else []
    return crossed(pooled, separating), said


def _names(key: str, value: object) -> list[str]:
    return [f"{key}.{name}" for name in value] if isinstance(value, dict) else [key]


def _alike(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs whose tasks differ in the seed of the environment only."""
    alike: dict[str, list[Run]] = {}
    for run in runs:
        alike.setdefault(task_key(without(run, {OWN_SEED})), []).append(run)
    return list(alike.values())


def _methods(table: Crossed, labels: Sequence[str]) -> tuple[str, ...]:
    names = list(labels) or method_names(table.methods)
    if len(names) != len(table.methods):
        count = len(table.methods)
        raise InputError(f"label: must be given {count} times, once a configuration, found {len(names)}")
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise InputError(f"label = {twice!r:.60}: is there twice, names of configurations must differ")
    return tuple(names)


def _pairs(methods: tuple[str, ...], baseline: str | None) -> tuple[list[tuple[int, int]], list[str]]:
    """Which configurations are compared with which."""
    if baseline is None and len(methods) <= ALL_PAIRS:
        return list(combinations(range(len(methods)), 2)), []
    said = []
    if baseline is None:
        baseline = methods[0]
        said = [f"{len(methods)} configurations: compared with the first, {baseline}; --baseline names another"]
    lower = [name.lower() for name in methods]
    if baseline.lower() not in lower:
        one_of(baseline, "baseline", methods)
    with_this = lower.index(baseline.lower())
    return [(i, with_this) for i in range(len(methods)) if i != with_this], said


def _tasks(
    table: Crossed, records: Sequence[Record], options: Options, pairs: Sequence[tuple[int, int]]
) -> list[TaskResults]:
    """The tasks in the order of their names, where 5 comes before 10."""
    by_folder = {record.run.folder: record for record in records}
    tasks = []
    for t, name in sorted(enumerate(task_names(table.tasks)), key=lambda one: _natural(one[1])):
        members = {m: [by_folder[run.folder] for run in cell] for (i, m), cell in table.cells.items() if i == t}
        everyone = [record for group in members.values() for record in group]
        stars = {round(record.star, 9) for record in everyone if record.star is not None}
        star = stars.pop() if len(stars) == 1 else None
        # A run that is not finished may not know it yet; it is the same task.
        known = {m: tuple(replace(r, star=star) if r.star is None else r for r in members[m]) for m in sorted(members)}
        done = [record for group in members.values() for record in measures.settled_runs(group)]
        at = measures.common(done, options.at)
        if options.at is not None:
            _check_at(done, options.at)
        task = TaskResults(name, everyone[0].run.tau, star, at, measures.cells(known, at, options))
        tasks.append(replace(task, tests=across.tests(task, pairs, options)))
    return tasks


def _natural(name: str) -> list[tuple[float, str]]:
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(float(part), "") if i % 2 else (-1.0, part) for i, part in enumerate(parts)]


def _check_at(records: Sequence[Record], at: float) -> None:
    for record in records:
        if record.span is not None and not record.span[0] <= at <= record.span[1]:
            first, last = record.span
            raise InputError(f"at = {at:g}: {record.run.folder} has plans after {first:g} to {last:g} episodes only")


def _adjust_tests(tasks: Sequence[TaskResults]) -> list[TaskResults]:
    """Tasks whose tests know how many there are."""
    grown = iter(holm([test.first.p for task in tasks for test in task.tests]))
    return [replace(task, tests=tuple(replace(test, adjusted=next(grown)) for test in task.tests)) for task in tasks]
