"""The line on the terminal while a run goes on, and the summary after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from tailrank.experiments import folder as files
from tailrank.experiments.run import Progress as Report

WIDTH = 120


@contextmanager
def shown(quiet: bool) -> Iterator[Report | None]:
    """What to hand to a run as its `progress`: a line on stderr, or None where that is no terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task: list[TaskID] = []

        def report(row: dict[str, Any], iterations: int, star: float) -> None:
            cvar, best, bonus = (_short(x) for x in (row["cvar"], star, row["bonus"]))
            text = f"{row['episodes']} episodes  CVaR {cvar} of {best}  bonus {bonus}"
            if not task:
                # What was done before a resume says nothing about the time that is left.
                task.append(bar.add_task(text, total=iterations, completed=row["k"] - 1))
            bar.update(task[0], completed=row["k"], description=text)

        yield report


def summary(result: Mapping[str, Any], notes: list[str]) -> None:
    """Print the result of a run."""
    out = Console(file=sys.stdout, highlight=False, markup=False)
    out.width = max(out.width, WIDTH)
    tau = f"{result['tau']:g}"
    lines = [
        ("CVaR", f"{result['cvar']:.6g} at tau = {tau}, of the policy that is returned (exact)"),
        ("best CVaR", f"{result['cvar_star']:.6g}"),
        ("returned", f"{result['returned']}: {result['why']}"),
        ("regret", f"{result['regret']:.6g} over {result['iterations']} iterations of {result['algorithm']}"),
        ("played", f"{result['episodes']} episodes, {result['steps']} steps, {result['seconds']:.3g} s"),
        ("files", f"{result['out']} ({files.PLAN}, {files.ROWS}, {files.CONFIG}, {files.MANIFEST})"),
    ]
    for name, value in lines:
        out.print(Text(f"{name:<11}{value}"), soft_wrap=True)
    for note in notes:
        out.print(Text(f"note: {note}"), soft_wrap=True)


def theory(rows: list[tuple[str, float, str]]) -> None:
    """Print the figures of the theorems."""
    out = Console(file=sys.stdout, highlight=False, markup=False)
    for name, value, formula in rows:
        out.print(Text(f"{name:<18}{value:>12.4g}  {formula}"), soft_wrap=True)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float | int) else "-"
