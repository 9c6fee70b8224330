"""What a run says while it goes on: a line on the terminal, or plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn

from tailrank import checks
from tailrank._system.telling import heard_by
from tailrank.runs.run import Progress as Report

MODES = ("auto", "plain", "none")
BAR = 16
SECONDS, SHARE = 10.0, 0.1
"""A plain line is due after so many seconds, or so much of the run."""


@contextmanager
def show_progress(mode: str = "auto", episodes: int | None = None) -> Iterator[Report | None]:
    """What to hand to a run as its `progress`, or None where nothing is shown.

    mode: `auto` is a line on stderr if that is a terminal, `plain` is a line now and then wherever stderr goes, `none`
    is silence. episodes: after how many the run ends, if not by its iterations.
    """
    checks.one_of(mode, "progress", MODES)
    console = Console(stderr=True)
    if mode == "plain":
        plain = Plain(lambda line: print(line, file=sys.stderr, flush=True), episodes)
        with heard_by(plain.say):
            yield plain
    elif mode == "none" or not console.is_terminal:
        yield None
    else:
        with line(console) as bar:
            shown = Bar(bar, episodes)
            with heard_by(shown.say):
                yield shown


@contextmanager
def line(console: Console) -> Iterator[Progress]:
    """A line on a terminal: a sign of life, a text, a bar, the time that is left."""
    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn("line"), text, BarColumn(BAR), TimeRemainingColumn(compact=True))
    bar = Progress(*columns, console=console, transient=True)
    bar.start()
    try:
        yield bar
    finally:
        with suppress(OSError):  # the terminal may be closed by now
            bar.stop()


def combine_reports(*reports: Report | None) -> Report | None:
    """Call all of them, in this order; those that are None are left out, and those that have nowhere to write any more.

    A terminal may be closed, a pipe too: a run is worth more than what is said about it.
    """
    some = [report for report in reports if report is not None]

    def call(row: dict[str, Any], iterations: int, star: float | None) -> None:
        for report in list(some):
            try:
                report(row, iterations, star)
            except OSError:
                some.remove(report)

    return call if some else None


class RunProgress:
    """What is known so far: rows need not have a CVaR (or other value), so the last one is kept. doing: what takes the
    time now."""

    def __init__(self, episodes: int | None = None) -> None:
        self.goal = episodes
        self.cvar = self.doing = ""
        self.parts: list[str] = []

    def take(self, row: Mapping[str, Any], iterations: int, star: float | None) -> list[str]:
        """The parts of a line, the most important first."""
        key = "value" if "value" in row else "cvar"
        if row.get(key) is not None:
            low, high = row.get(f"{key}_low"), row.get(f"{key}_high")
            between = "" if low is None or high is None else f" ({_short(low)} to {_short(high)})"
            self.cvar = f"{'CVaR' if key == 'cvar' else key} {_short(row[key])}{between}"
        best = f" of {_short(star)}" if star is not None and self.cvar else ""
        done = [f"{row['k']}/{iterations}", f"{row['episodes']} episodes"]
        if self.goal:
            done = [f"{row['episodes']}/{self.goal} episodes"]
        parts = [*done, f"{self.cvar}{best}", *_of_played(row)]
        names = {"bonus": "bonus", "log_likelihood": "log-likelihood"}
        parts += [f"{name} {_short(row[key])}" for key, name in names.items() if row.get(key) is not None]
        self.parts = [part for part in parts if part]
        return self.parts[:]

    def with_doing(self) -> list[str]:
        """The parts of the last line, with what takes the time now in the second place."""
        return [*self.parts[:1], *([self.doing] if self.doing else []), *self.parts[1:]]

    def share(self, row: Mapping[str, Any], iterations: int) -> float:
        """How much of the run is done, in [0, 1]."""
        by_episodes = row["episodes"] / self.goal if self.goal else 0.0
        return float(min(1.0, max(row["k"] / max(iterations, 1), by_episodes)))


class Bar:
    """The line on a terminal: as many parts as fit."""

    def __init__(self, bar: Progress, episodes: int | None = None) -> None:
        self.bar, self.state = bar, RunProgress(episodes)
        self.task: TaskID | None = None

    def __call__(self, row: dict[str, Any], iterations: int, star: float | None) -> None:
        """Show a row."""
        self.state.take(row, iterations, star)
        share = self.state.share(row, iterations)
        if self.task is None or not self.bar.tasks[0].total:
            # What was done before a resume says nothing about the time that is left.
            self._begin(share * (row["k"] - 1) / row["k"], 1.0)
        self._show(completed=share)

    def say(self, text: str, now: bool) -> None:
        """Show what is being done."""
        self.state.doing = text
        if self.task is None:
            self._begin(0.0, None)
        self._show()
        if now:
            self.bar.refresh()

    def _begin(self, done: float, total: float | None) -> None:
        if self.task is not None:
            self.bar.remove_task(self.task)
        self.task = self.bar.add_task("", total=total)
        self.bar.update(self.task, completed=done)

    def _show(self, **more: Any) -> None:
        parts, room = self.state.with_doing(), self.bar.console.width - BAR - 12
        while len(parts) > 1 and len("  ".join(parts)) > room:
            parts.pop()
        if self.task is not None:
            self.bar.update(self.task, description="  ".join(parts)[:room], **more)


class Plain:
    """Plain lines, one every ten seconds or every tenth of the run, whichever comes first."""

    def __init__(
        self, write: Callable[[str], None], episodes: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.write, self.state, self.clock = write, RunProgress(episodes), clock
        self.begun: tuple[float, float] | None = None
        self.last = (clock(), 0.0)

    def __call__(self, row: dict[str, Any], iterations: int, star: float | None) -> None:
        """Write a line if one is due."""
        parts, share, now = self.state.take(row, iterations, star), self.state.share(row, iterations), self.clock()
        if self.begun is None:
            # As above; a first iteration cannot be told from what was there before it.
            self.begun = (now, share)
            self.last = (self.last[0], share if row["k"] > 1 else 0.0)
        due = now - self.last[0] >= SECONDS or share - self.last[1] >= SHARE - 1e-9 or share >= 1.0
        if not due:
            return
        self.last = (now, share)
        passed, done = now - self.begun[0], share - self.begun[1]
        if done > 0 and share < 1.0:
            parts.append(f"{_clock((1.0 - share) * passed / done)} left")
        self.write("  ".join(parts))

    def say(self, text: str, now: bool) -> None:
        """Write what is being done, at once or if a line is due."""
        self.state.doing = text
        if text and (now or self.clock() - self.last[0] >= SECONDS):
            self.last = (self.clock(), self.last[1])
            self.write(text if now else "  ".join(self.state.with_doing()[:2]))


def _of_played(row: Mapping[str, Any]) -> list[str]:
    """What the episodes of an iteration on a simulator earned, what the model promises, and which model that is."""
    if row.get("played") is None:
        return []
    played = f"played CVaR {_short(row['played'])}, mean {_short(row.get('return'))}"
    promise = [f"promised {_short(row['objective'])}"] if row.get("objective") is not None else []
    return [played, *promise, str(row.get("model", ""))]


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float | int) else "-"
