"""What a sweep says while it goes on (a line on the terminal), and the list of its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, TaskID

from tailrank.runs.progress import BAR, RunProgress, line
from tailrank.runs.sweeps.file import Sweep
from tailrank.runs.sweeps.sweep import SweepState, Watch


@contextmanager
def show_sweep(sweep: Sweep, quiet: bool = False) -> Iterator[Watch | None]:
    """What to hand to a sweep as its `watch`: a line on stderr if that is a terminal, else None."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    with line(console) as bar:
        yield SweepBar(bar, sweep)


class SweepBar:
    """The line: runs done and failed, then those that go on, as many as fit."""

    def __init__(self, bar: Progress, sweep: Sweep) -> None:
        self.bar = bar
        self.configs = {planned.name: planned.config for planned in sweep.runs}
        self.task: TaskID | None = None
        self.last: dict[str, int] = {}

    def __call__(self, states: Mapping[str, SweepState], said: str) -> None:
        """Show the states."""
        parts = [part for part in (said, counted(states), *self._going(states)) if part]
        while len(parts) > 1 and len("  ".join(parts)) > self.bar.console.width - BAR - 10:
            parts.pop()
        share = sum((self._share(name, state) for name, state in states.items()), 0.0)
        if self.task is None:
            # What was done before says nothing about the time that is left.
            self.task = self.bar.add_task("", total=len(states), completed=share)  # type: ignore[arg-type]
        self.bar.update(self.task, completed=share, description="  ".join(parts))

    def _share(self, name: str, state: SweepState) -> float:
        if state.status in ("finished", "failed"):
            return 1.0
        config = self.configs[name]
        return RunProgress(config.run.episodes).share(state.row, config.iterations) if state.row else 0.0

    def _going(self, states: Mapping[str, SweepState]) -> Iterator[str]:
        """The runs that have got on since the last look."""
        for name, state in states.items():
            k = int(state.row.get("k", 0)) if state.status == "begun" else 0
            if k > self.last.get(name, 0):
                self.last[name] = k
                yield f"{name} {k}/{self.configs[name].iterations}"


def counted(states: Mapping[str, SweepState]) -> str:
    """How many runs are finished, and failed if any."""
    count = Counter(state.status for state in states.values())
    failed = f", {count['failed']} failed" if count["failed"] else ""
    return f"{count['finished']}/{len(states)} runs{failed}"
