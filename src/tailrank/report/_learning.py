"""Learning curves: every run for itself, and runs that differ in their seed only together, with an interval.

The interval of several seeds is that of `risk.over_runs`, as in tables and figures, at each iteration. A single run of
a simulator has the bounds of its evaluations instead; an exact CVaR needs none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrank.report._levels import pack
from tailrank.risk.over_runs.intervals import CONFIDENCE
from tailrank.risk.over_runs.seeds import band
from tailrank.runs.read import Run

SERIES = ("cvar", "regret", "return", "bonus", "log_likelihood")
BOUNDS = ("cvar_low", "cvar_high", "return_low", "return_high")
MOST_POINTS = 400
MOST_LINES = 20


def curves(runs: list[Run]) -> dict[str, Any]:
    """Groups of runs with their curves; an empty list of groups where no run has a row."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.rows:
            groups.setdefault(run.kind, []).append(run)
    names = _names([members[0] for members in groups.values()])
    return {
        "confidence": CONFIDENCE,
        "groups": [_group(members, name) for members, name in zip(groups.values(), names, strict=True)],
    }


def _names(firsts: list[Run]) -> list[str]:
    """What tells the groups apart: the settings in which they differ."""
    keys = sorted({k for run in firsts for k in run.config} - {"seed", "checkpoint_every"})
    differ = [k for k in keys if len({repr(run.config.get(k)) for run in firsts}) > 1]
    return [", ".join(f"{k} {run.config.get(k, 'default')}" for k in differ[:4]) for run in firsts]


def _group(members: list[Run], name: str) -> dict[str, Any]:
    stars = {run.star for run in members}
    star = stars.pop() if len(stars) == 1 else None
    common = min(len(run.rows) for run in members)
    return {
        "name": name,
        "tau": members[0].tau,
        "star": star,
        "seeds": [run.seed for run in members],
        "iterations": [len(run.rows) for run in members],
        "common": common,
        "runs": [_run(run) for run in members[:MOST_LINES]],
        "mean": _mean(members, common) if len(members) > 1 else None,
    }


def _places_drawn(n: int) -> np.ndarray:
    """Which of n iterations are drawn: all, or every m-th with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).astype(np.int64))


def _run(run: Run) -> dict[str, Any]:
    columns = {name: run.column(name) for name in ("k", "episodes", *SERIES, *BOUNDS)}
    at = _places_drawn(len(run.rows))
    for column in (columns["cvar"], columns["cvar_low"]):
        if column is not None:
            # Evaluations may be rare: none of them may fall between the rows that are drawn.
            known = np.flatnonzero(~np.isnan(column))
            at = np.union1d(at, known[_places_drawn(known.size)])
    result: dict[str, Any] = {"seed": run.seed, "iterations": len(run.rows)}
    return result | {name: pack(column[at]) for name, column in columns.items() if column is not None}


def _mean(members: list[Run], common: int) -> dict[str, Any]:
    """Mean and interval over the runs, for the iterations that all of them have."""
    at = _places_drawn(common)
    episodes = members[0].column("episodes")
    result: dict[str, Any] = {"episodes": pack(episodes[:common][at])} if episodes is not None else {}
    for name in SERIES:
        columns = [run.column(name) for run in members]
        if any(column is None for column in columns):
            continue
        table = np.stack([column[:common][at] for column in columns if column is not None])
        line = band(at, [table], "mean", np.random.default_rng(0))
        result[name] = {"mean": pack(line.y)}
        if line.low is not None and line.high is not None:
            result[name] |= {"low": pack(line.low), "high": pack(line.high)}
    return result
