"""What a comparison needs of a run: when its plans were judged and what they were worth, without the rows.

Regret here is the sum over episodes of CVaR* less the CVaR of the plan of their iteration: an iteration of b episodes
counts b times. (`regret` in the rows of a run counts every iteration once, so that methods whose iterations play other
numbers of episodes cannot be compared by it; at one episode an iteration the two are the same.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tailrank.checks import InputError
from tailrank.comparison.groups import Paths, series, star_of
from tailrank.risk.over_runs.survival import Waits
from tailrank.runs import folder as files
from tailrank.runs.read import Run, is_run

TOLERANCE = 1e-9
Line = tuple[np.ndarray, np.ndarray]
"""Episodes [t] and a value [t] at each of them."""


@dataclass(frozen=True)
class Record:
    """A run (without its rows) and its numbers; None is what it does not have.

    judged: CVaR of the plans. regret: summed over episodes. star: CVaR*. returned: CVaR of the plan that was returned.
    """

    run: Run
    judged: Line | None
    regret: Line | None
    star: float | None
    returned: float | None
    episodes: float | None
    seconds: float | None
    estimated: bool

    @classmethod
    def of(cls, run: Run) -> Record:
        """The numbers of a run that was read."""
        judged, counted = series(run, "episodes", "cvar"), series(run, "episodes", "regret")
        played = run.column("episodes")
        for line in (judged, counted):
            _check(run, line)
        regret = None
        if counted is not None:
            x, total = counted
            regret = x, np.cumsum(np.diff(total, prepend=0.0) * np.diff(x, prepend=0.0))
        episodes = _number(run, "episodes")
        if episodes is None and played is not None and not np.isnan(played).all():
            episodes = float(np.nanmax(played))
        return cls(
            replace(run, rows=[]),
            None if judged is None else (judged[0], judged[1]),
            regret,
            star_of(run),
            _number(run, "cvar"),
            episodes,
            _number(run, "seconds"),
            run.column("cvar_low") is not None or "cvar_low" in run.result,
        )

    @property
    def span(self) -> tuple[float, float] | None:
        """The first and the last number of episodes at which a plan was judged."""
        return None if self.judged is None else (float(self.judged[0][0]), float(self.judged[0][-1]))

    def last(self, at: float) -> float | None:
        """CVaR of the last plan after at most so many episodes."""
        if self.judged is None or self.judged[0][0] > at:
            return None
        x, y = self.judged
        return float(y[np.searchsorted(x, at, side="right") - 1])

    def final(self) -> float | None:
        """CVaR of the plan that was returned; of the last one that was judged, where none was."""
        return self.returned if self.returned is not None or self.span is None else self.last(self.span[1])

    def regret_at(self, at: float) -> float | None:
        """Regret after so many episodes."""
        if self.regret is None or self.regret[0][-1] < at:
            return None
        x, y = self.regret
        return float(np.interp(at, np.append(0.0, x), np.append(0.0, y)))


def run_folders(paths: Paths) -> Iterator[Path]:
    """The folders of runs among these and in them, however deep; each once."""
    seen = set()
    for path in [Path(paths)] if isinstance(paths, str | Path) else [Path(one) for one in paths]:
        if not path.is_dir():
            raise InputError(f"{path}: must be the folder of a run, or one with such folders in it")
        empty = True
        for folder in [path] if is_run(path) else _below(path):
            empty = False
            if folder.resolve() not in seen:
                seen.add(folder.resolve())
                yield folder
        if empty:
            raise InputError(f"{path}: holds no run (no {files.CONFIG} with a {files.MANIFEST} in it or below)")


def _below(top: Path) -> Iterator[Path]:
    for folder, inner, names in os.walk(top):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if files.CONFIG in names and files.MANIFEST in names:
            inner.clear()
            yield Path(folder)


def time_to_reach(record: Record, within: float, floor: float, stay: bool) -> tuple[float, bool] | None:
    """Episodes until the CVaR is within a share of CVaR* (for good, if `stay`), and whether it ever was.

    The share is of CVaR* - floor. Where it was not, the episodes that it did not take less than.
    """
    if record.judged is None or record.star is None:
        return None
    (x, y), star = record.judged, record.star
    there = y >= star - within * abs(star - floor) - TOLERANCE * max(1.0, abs(star))
    if stay:
        missed = np.flatnonzero(~there)
        at = int(missed[-1]) + 1 if missed.size else 0
    else:
        at = int(there.argmax()) if there.any() else there.size
    return (float(x[at]), True) if at < there.size else (float(x[-1]), False)


def waits(records: tuple[Record, ...], within: float, floor: float, stay: bool) -> Waits | None:
    """The same of several runs, None if one of them does not know."""
    times = [time_to_reach(record, within, floor, stay) for record in records]
    known = [one for one in times if one is not None]
    if len(known) < len(times):
        return None
    return Waits(np.array([time for time, _ in known]), np.array([event for _, event in known]))


def _number(run: Run, name: str) -> float | None:
    value = run.result.get(name)
    if not isinstance(value, int | float):
        return None
    if not np.isfinite(value):
        raise InputError(f"{run.folder / files.MANIFEST}: {name} = {value}: must be finite")
    return float(value)


def _check(run: Run, line: tuple[np.ndarray, ...] | None) -> None:
    if line is None:
        return
    path = run.folder / files.ROWS
    for column in line:
        bad = np.flatnonzero(~np.isfinite(column))
        if bad.size:
            raise InputError(f"{path}: holds {column[bad[0]]}, but episodes, cvar and regret must be finite")
    fewer = np.flatnonzero(np.diff(line[0]) < 0)
    if fewer.size:
        before, after = line[0][fewer[0]], line[0][fewer[0] + 1]
        raise InputError(f"{path}: {after:g} after {before:g}: episodes must not become fewer")
