"""The command `tailrank compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrank.cli.errors import Command, Failure, say
from tailrank.cli.options import collected, print_json

if TYPE_CHECKING:
    from tailrank.comparison import Comparison

FORMATS = ("svg", "png", "pdf")


@click.command(cls=Command)
@click.argument("sources", nargs=-1, required=True, metavar="RUNS...")
@click.option(
    "--within",
    type=float,
    default=0.05,
    show_default=True,
    metavar="X",
    help="How near to CVaR* is near enough, as a share of it.",
)
@click.option("--confidence", type=float, default=0.95, show_default=True, metavar="P", help="Of each interval.")
@click.option("--baseline", metavar="NAME", help="Configuration that the others are compared with, else every pair.")
@click.option(
    "--score",
    default="returned",
    show_default=True,
    metavar="returned|last",
    help="Plan of a run that scores, probabilities and profiles are of.",
)
@click.option(
    "--floor",
    type=float,
    default=0.0,
    show_default=True,
    metavar="X",
    help="CVaR that counts as nothing, where CVaR* is not positive.",
)
@click.option(
    "--at",
    type=int,
    metavar="N",
    help="Episodes to compare last plans and regrets at.  [default: the most that all have]",
)
@click.option(
    "--pool", multiple=True, metavar="NAME", help="A setting whose values count as seeds, such as settings.seed."
)
@click.option("--label", "labels", multiple=True, metavar="TEXT", help="Name of a configuration; once for each.")
@click.option("--csv", "table", metavar="FILE", help="Also write all numbers to a table.")
@click.option("-o", "--out", metavar="DIR", help="Also write pictures, tables and a page (index.html) there.")
@click.option("--format", "kind", metavar="svg|png|pdf", help="Of the pictures in --out.  [default: svg]")
@click.option("--rivals", is_flag=True, help="Runs on simulators: train rivals with as many steps, and judge them too.")
@click.option("--import", "imports", multiple=True, metavar="PKG", help="With --rivals: package that runs may import.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compare(
    sources: tuple[str, ...],
    table: str | None,
    out: str | None,
    kind: str | None,
    rivals: bool,
    imports: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Compare runs: who gets near the best CVaR how soon, who ends how high, and how sure that is.

    RUNS... are folders of runs (tailrank train), or folders that hold such folders (tailrank sweep). Runs of one task
    that differ in their seed only are one configuration; its numbers have intervals over its runs. A run that never
    got there counts as longer than itself.

    With --rivals each run stands beside random actions, a CVaR policy gradient, QR-DQN (by mean and by CVaR) and PPO
    after the same number of steps, on the same fresh episodes; what they did is kept in the folder of the run.
    """
    if rivals:
        _rivals(sources, imports, as_json)
        return
    from tailrank.comparison import compare as compare_runs
    from tailrank.comparison.export import as_dict, summary_csv

    _check(table, out, kind)
    notes: list[str] = []
    with collected(notes):
        found = compare_runs(sources, **options)
        if table:
            _write(Path(table), summary_csv(found))
        written = _pictures(found, Path(out), kind or FORMATS[0]) if out else []
    if as_json:
        print_json(as_dict(found), [*found.notes, *notes], quiet=False)
        return
    from tailrank.cli.comparison_tables import compared

    compared(found)
    for line in [*(f"note: {note}" for note in notes), *([f"{out}: {', '.join(written)}"] if out else [])]:
        say(line)


def _rivals(sources: tuple[str, ...], imports: tuple[str, ...], as_json: bool) -> None:
    """Print every run on a simulator beside its rivals."""
    from dataclasses import asdict

    from tailrank.cli.terminal import add_row, console, line, number, table_of
    from tailrank.comparison.compare import run_folders
    from tailrank.comparison.rivals import beside_rivals

    found, notes = {}, dict[str, None]()
    for folder in run_folders(sources):
        found[str(folder)], more = beside_rivals(folder, imports, lambda text: say(text, err=True))
        notes |= dict.fromkeys(more)
    if as_json:
        print_json({name: [asdict(row) for row in rows] for name, rows in found.items()}, list(notes), quiet=False)
        return
    out = console()
    for name, rows in found.items():
        line(out, name)
        shown = table_of(["", "steps", "CVaR", "95% interval", "mean", "seconds"])
        shown.columns[0].justify = "left"
        for row in rows:
            span = f"{number(row.cvar_low)} .. {number(row.cvar_high)}"
            seconds = "-" if row.seconds is None else f"{row.seconds:.1f}"
            add_row(shown, row.name, f"{row.steps:,}", number(row.cvar), span, number(row.mean), seconds)
        out.print(shown)
        out.print()
    for note in notes:
        say(f"note: {note}")


def _check(table: str | None, out: str | None, kind: str | None) -> None:
    """Raise before the work is done, not after it."""
    from tailrank.checks import one_of

    if table and (Path(table).is_dir() or not Path(table).parent.is_dir()):
        raise Failure(f"--csv {table}: must be a file in a folder that exists")
    if kind and not out:
        raise Failure(f"--format {kind}: is for the pictures in --out, which is not given")
    if not out:
        return
    one_of(kind or FORMATS[0], "format", FORMATS)
    from tailrank.plots import style
    from tailrank.runs.read import is_run

    with style.look():
        pass
    if is_run(Path(out)) or (Path(out).exists() and not Path(out).is_dir()) or not Path(out).parent.is_dir():
        raise Failure(f"--out {out}: must be a folder, new or not that of a run, in a folder that exists")


def _pictures(found: Comparison, out: Path, kind: str) -> list[str]:
    """Write everything; the names of the files."""
    from tailrank.comparison.export import as_dict, runs_csv, summary_csv
    from tailrank.comparison.page import caption, page
    from tailrank.plots import save
    from tailrank.plots.comparing import figures
    from tailrank.plots.inline import inline

    drawn = figures(found)
    out.mkdir(exist_ok=True)
    for name, figure in drawn.items():
        save(figure, out / f"{name}.{kind}")
    texts = {
        "summary.csv": summary_csv(found),
        "runs.csv": runs_csv(found),
        "comparison.json": json.dumps(as_dict(found), allow_nan=False),
        "index.html": page(found, {name: inline(figure, name, caption(found, name)) for name, figure in drawn.items()}),
    }
    for name, text in texts.items():
        _write(out / name, text)
    return [*texts, *(f"{name}.{kind}" for name in drawn)]


def _write(path: Path, text: str) -> None:
    from tailrank._system.atomic import write_bytes

    # A folder may have a name that is no text.
    write_bytes(path, text.encode(errors="backslashreplace"))
