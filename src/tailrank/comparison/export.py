"""A comparison as data: one JSON object, a long table of all numbers, and a table of the runs.

Numbers that are not there are null or empty: an estimate that is not known, the open end of an interval.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tailrank.comparison._records import Record, time_to_reach
from tailrank.comparison.across import ABOVE, Overall
from tailrank.comparison.compare import Comparison
from tailrank.comparison.measures import Cell, Options, Reached, TaskResults
from tailrank.risk.over_runs.intervals import SeedInterval
from tailrank.risk.over_runs.survival import LogRank, Median

SUMMARY = (
    "task",
    "tau",
    "configuration",
    "against",
    "measure",
    "at",
    "runs",
    "estimate",
    "low",
    "high",
    "p",
    "p_holm",
)
RUNS = (
    "task",
    "configuration",
    "seed",
    "folder",
    "status",
    "episodes",
    "first",
    "first_reached",
    "stay",
    "stay_reached",
    "last_cvar",
    "returned_cvar",
    "cvar_star",
    "regret",
    "seconds",
)
MEANS = ("last", "returned", "score", "regret", "seconds", "rate")
Row = dict[str, Any]
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A text that begins so would be computed by a spreadsheet; an apostrophe before it says that it is a text."""


def as_dict(found: Comparison) -> dict[str, Any]:
    """Everything, as JSON can hold it."""
    names = found.methods
    return {
        "configurations": list(names),
        "options": asdict(found.options),
        "notes": list(found.notes),
        "tasks": [_task(task, found) for task in found.tasks],
        "overall": [_overall(one, names) for one in found.overall],
        "pairs": [
            {"better": names[p.pair[0]], "worse": names[p.pair[1]], "tasks": p.tasks, **asdict(p.improvement)}
            for p in found.pairs
        ],
    }


def _task(task: TaskResults, found: Comparison) -> dict[str, Any]:
    names = found.methods
    return {
        "name": task.name,
        "tau": task.tau,
        "cvar_star": task.star,
        "at": task.at,
        "cells": [_cell(cell, task, found) for cell in task.cells],
        "log_rank": [
            {
                "first": names[t.pair[0]],
                "second": names[t.pair[1]],
                "p_holm": t.adjusted,
                "to_first": asdict(t.first),
                "to_stay": asdict(t.stay),
            }
            for t in task.tests
        ],
    }


def _cell(cell: Cell, task: TaskResults, found: Comparison) -> dict[str, Any]:
    return {
        "configuration": found.methods[cell.method],
        "settings": settings_of(cell.records),
        "first": _times_as_dict(cell.first),
        "stay": _times_as_dict(cell.stay),
        **{name: None if (one := getattr(cell, name)) is None else asdict(one) for name in MEANS},
        "runs": [_run(record, task, found.options) for record in cell.records],
    }


def settings_of(records: Sequence[Record]) -> dict[str, Any]:
    """What the runs of a cell share, tables (`settings`) too; what differs (their seeds) is left out."""
    return _shared_columns([record.run.config for record in records])


def _shared_columns(tables: Sequence[dict[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in tables[0].items():
        others = [table.get(key) for table in tables]
        if isinstance(value, dict) and all(isinstance(other, dict) for other in others):
            result[key] = _shared_columns(others)  # type: ignore[arg-type]
        elif all(other == value for other in others):
            result[key] = value
    return result


def _times_as_dict(found: Reached | None) -> dict[str, Any] | None:
    if found is None:
        return None
    curve = {name: getattr(found.curve, name).tolist() for name in ("x", "share", "low", "high")}
    return {
        "solved": asdict(found.solved),
        "median": asdict(found.median),
        "mean": asdict(found.mean),
        "mean_until": found.until,
        "waiting": curve,
    }


def _overall(one: Overall, names: Sequence[str]) -> dict[str, Any]:
    lines = {
        name: None if (y := getattr(one.profile, name)) is None else y.tolist() for name in ("x", "y", "low", "high")
    }
    return {
        "configuration": names[one.method],
        "tasks": one.tasks,
        "runs": one.runs,
        "iqm": asdict(one.iqm),
        "mean": asdict(one.mean),
        "profile": lines,
    }


def _run(record: Record, task: TaskResults, options: Options) -> Row:
    first, stay = (
        time_to_reach(record, options.within, options.floor, later) or (None, None) for later in (False, True)
    )
    return {
        "seed": record.run.seed,
        "folder": str(record.run.folder),
        "status": record.run.status,
        "episodes": record.episodes,
        "first": first[0],
        "first_reached": first[1],
        "stay": stay[0],
        "stay_reached": stay[1],
        "last_cvar": None if task.at is None else record.last(task.at),
        "returned_cvar": record.returned,
        "cvar_star": record.star,
        "regret": None if task.at is None else record.regret_at(task.at),
        "seconds": record.seconds,
    }


def runs_csv(found: Comparison) -> str:
    """A row a run."""
    return _csv(
        RUNS,
        (
            {"task": task.name, "configuration": found.methods[cell.method]} | _run(record, task, found.options)
            for task in found.tasks
            for cell in task.cells
            for record in cell.records
        ),
    )


def summary_csv(found: Comparison) -> str:
    """A row a number."""
    return _csv(SUMMARY, _summary(found))


def _summary(found: Comparison) -> Iterator[Row]:
    names = found.methods
    for task in found.tasks:
        for cell in task.cells:
            about = {"configuration": names[cell.method], "runs": len(cell.records)}
            about |= {"task": task.name, "tau": task.tau}
            for measure, at, number in _numbers(cell, task):
                yield about | {"measure": measure, "at": at} | _ends(number)
        for test in task.tests:
            about = {
                "task": task.name,
                "tau": task.tau,
                "configuration": names[test.pair[0]],
                "against": names[test.pair[1]],
            }
            yield about | _test_row("log_rank_first", test.first) | {"p_holm": test.adjusted}
            yield about | _test_row("log_rank_stay", test.stay)
    for one in found.overall:
        about = {"task": "all", "configuration": names[one.method], "runs": one.runs}
        yield about | {"measure": "iqm"} | _ends(one.iqm)
        yield about | {"measure": "mean_score"} | _ends(one.mean)
        for limit, number in zip(ABOVE, one.above, strict=True):
            yield about | {"measure": "share_above", "at": limit} | _ends(number)
    for pair in found.pairs:
        about = {"task": "all", "configuration": names[pair.pair[0]], "against": names[pair.pair[1]]}
        yield about | {"measure": "improvement"} | _ends(pair.improvement)


def _numbers(cell: Cell, task: TaskResults) -> Iterator[tuple[str, float | None, SeedInterval | Median]]:
    for name in ("first", "stay"):
        reading: Reached | None = getattr(cell, name)
        if reading is not None:
            yield f"{name}_solved", None, reading.solved
            yield f"{name}_median", reading.median.beyond, reading.median
            yield f"{name}_mean", reading.until, reading.mean
    for name in MEANS:
        number: SeedInterval | None = getattr(cell, name)
        if number is not None:
            yield name, task.at if name in ("last", "regret") else None, number


def _ends(number: SeedInterval | Median) -> Row:
    return {"estimate": number.value, "low": number.low, "high": number.high}


def _test_row(measure: str, test: LogRank) -> Row:
    return {"measure": measure, "estimate": test.chi2, "p": test.p}


def _csv(columns: Sequence[str], rows: Iterable[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: _plain(value) for key, value in row.items()})
    return text.getvalue()


def _plain(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return f"{value:.10g}" if isinstance(value, float | np.floating) else value
