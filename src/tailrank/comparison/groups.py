"""Runs by configuration: which belong together, what tells them apart, and what a curve of theirs is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.runs.read import APART, Run

Paths = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class RunGroup:
    """Runs of one configuration, and its name in the figure."""

    name: str
    runs: tuple[Run, ...]

    @property
    def tau(self) -> float:
        """The tail fraction."""
        return self.runs[0].tau

    @property
    def star(self) -> float | None:
        """CVaR*, where all of them know the same."""
        stars = {None if (star := star_of(run)) is None else round(star, 9) for run in self.runs}
        return stars.pop() if len(stars) == 1 else None


def read(runs: Paths) -> list[Run]:
    """The runs in these folders, each once."""
    folders = [runs] if isinstance(runs, str | Path) else list(runs)
    if not folders:
        raise InputError("runs: at least one folder must be given")
    return [Run.read(folder) for folder in dict.fromkeys(Path(folder) for folder in folders)]


def group_runs(runs: Iterable[Run], labels: Sequence[str] = ()) -> list[RunGroup]:
    """Runs of the same configuration but for the seed together, in the order given."""
    found = by_kind(runs)
    return named(found, [flat(members[0].config) for members in found], labels)


def by_kind(runs: Iterable[Run]) -> list[list[Run]]:
    """Runs of each configuration; raises where one is there twice."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.kind, []).append(run)
    for members in found.values():
        seeds = [run.seed for run in members]
        if len(set(seeds)) < len(seeds):
            twice = next(run for i, run in enumerate(members) if run.seed in seeds[:i])
            raise InputError(f"{twice.folder}: has the configuration and the seed of another run; give each once")
    return list(found.values())


def named(members: list[list[Run]], settings: list[dict[str, str]], labels: Sequence[str]) -> list[RunGroup]:
    """Groups with a name each: `labels`, or the settings in which they differ."""
    if labels and len(labels) != len(members):
        raise InputError(f"label: must be given {len(members)} times, once a configuration, found {len(labels)}")
    names = list(labels) or differences(settings)
    return [RunGroup(name, tuple(runs)) for name, runs in zip(names, members, strict=True)]


def differences(settings: list[dict[str, str]], absent: str = "-") -> list[str]:
    """What tells apart: `ELA` where it is the algorithm alone, else `rank = 3, share = True`; empty for one.

    Settings that only some have (those of the planner of ella) are left out where the others tell them apart. absent:
    what is said of one that does not have a setting; nothing, if it is empty.
    """
    keys = sorted({key for one in settings for key in one}, key=lambda key: (key != "algorithm", key))
    differ = [key for key in keys if len({one.get(key) for one in settings}) > 1]
    shared = [key for key in differ if all(key in one for one in settings)]
    if len({tuple(one[key] for key in shared) for one in settings}) == len(settings):
        differ = shared
    short = [key.split(".")[-1] for key in keys]
    title = {key: key if short.count(end) > 1 else end for key, end in zip(keys, short, strict=True)}
    return [
        ", ".join(_setting(key, title[key], one.get(key, absent)) for key in differ if one.get(key, absent))
        for one in settings
    ]


def _setting(key: str, title: str, value: str) -> str:
    if key == "algorithm":
        return value.upper()
    return value if key == "environment" else f"{'τ' if key == 'tau' else title} = {value}"


def flat(config: dict[str, Any]) -> dict[str, str]:
    """The settings of a run that matter, tables opened: `settings.horizon`."""
    result: dict[str, str] = {}
    for key, value in config.items():
        if key in APART:
            continue
        if isinstance(value, dict):
            result |= {f"{key}.{name}": _text(x) for name, x in value.items()}
        else:
            result[key] = Path(str(value)).name if key == "environment" else _text(value)
    return result


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def star_of(run: Run) -> float | None:
    """CVaR* of a run: from its result, or from its first row, where the regret is CVaR* less the CVaR."""
    if run.star is not None:
        return run.star
    first = run.rows[0] if run.rows else {}
    regret, cvar = first.get("regret"), first.get("cvar")
    if isinstance(regret, int | float) and isinstance(cvar, int | float):
        return float(regret + cvar)
    return None


def final_cvar(run: Run) -> float:
    """CVaR of the policy that the run returned, or of its last plan that was judged."""
    value = run.result.get("cvar")
    if isinstance(value, int | float):
        return float(value)
    column = run.column("cvar")
    known = column[~np.isnan(column)] if column is not None else np.zeros(0)
    if known.size == 0:
        raise InputError(f"{run.folder}: no plan of this run was judged yet (no row has a cvar)")
    return float(known[-1])


def series(run: Run, by: str, *columns: str) -> tuple[np.ndarray, ...] | None:
    """x (`k` or `episodes`) and the columns [t] where the first of them has a value; None if it never has.

    A column that is missing is NaN.
    """
    x, first = run.column(by), run.column(columns[0])
    if x is None or first is None:
        return None
    keep = ~np.isnan(first) & ~np.isnan(x)
    if not keep.any():
        return None
    empty = np.full(len(run.rows), np.nan)
    found = [column if (column := run.column(name)) is not None else empty for name in columns]
    return (x[keep], *(column[keep] for column in found))
