"""A comparison on the terminal, plain where there is none."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tailrank.checks import printable
from tailrank.cli.terminal import add_row, console, line, table_of
from tailrank.comparison import Comparison
from tailrank.comparison.tables import Table, of_task, over_all, task_title


def compared(found: Comparison) -> None:
    """Print tables of every task, those over all tasks, and the notes."""
    out = console()
    for task in found.tasks:
        out.print(Text(printable(task_title(task)), style="bold"), soft_wrap=True)
        for table in of_task(found, task):
            _print(out, table)
    for table in over_all(found):
        _print(out, table)
    line(
        out,
        f"in brackets: {100 * found.options.confidence:g}% intervals over runs, of no width where all runs were alike",
    )
    for note in found.notes:
        line(out, f"note: {note}")


def _print(out: Console, table: Table) -> None:
    shown = table_of(table.columns)
    shown.columns[0].justify = "left"
    for row in table.rows:
        add_row(shown, *row)
    texts = zip(table.columns, *table.rows, strict=True)
    needed = sum(2 + max(len(part) for text in column for part in text.split("\n")) for column in texts)
    out.width = max(out.width, needed)
    out.print()
    line(out, table.title)
    out.print(shown)
    out.print()
