"""The command `tailrank plot`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrank.cli.errors import Command, Failure, say
from tailrank.cli.options import collected, read_source, solving_options

if TYPE_CHECKING:
    from tailrank.report.subject import Subject

CURVES = ("regret", "cvar", "profile")
LAWS = ("distribution", "frontier")
ONLY = {
    "by": ("regret", "cvar"),
    "center": ("regret", "cvar"),
    "log": ("regret", "cvar"),
    "baseline": ("profile",),
}
"""Options that only some figures have."""


@click.command(cls=Command)
@click.argument("sources", nargs=-1, required=True, metavar="RUN...")
@click.option("-o", "--out", default="figure.png", show_default=True, metavar="FILE", help="A .png, .svg or .pdf file.")
@click.option("--what", metavar="|".join((*CURVES, *LAWS)), help="[default: cvar of runs, else distribution]")
@click.option("--by", metavar="episodes|iterations", help="What curves are drawn against.  [default: episodes]")
@click.option("--center", metavar="mean|median|iqm", help="Of the seeds of a configuration.  [default: mean]")
@click.option("--log", metavar="x|y|xy", help="Logarithmic axes of curves.")
@click.option("--baseline", type=float, metavar="X", help="CVaR that counts as nothing in a profile.  [default: 0]")
@click.option("--label", "labels", multiple=True, metavar="TEXT", help="Name of a line; once for each of them.")
@click.option("--size", type=float, metavar="INCHES", help="Width of the figure.  [default: 3.4, a column]")
@solving_options
def plot(sources: tuple[str, ...], out: str, what: str | None, **options: Any) -> None:
    """Draw a figure for a paper: learning curves, return laws, frontiers, performance profiles.

    RUN... is one or several folders of runs (tailrank train): those that differ in their seed only are one line with a
    band (bootstrap over seeds, 95%). Laws and frontiers are also drawn of a policy file and the MDP it plays in, or of
    an MDP as for solve, which is solved first.
    """
    from tailrank.checks import one_of
    from tailrank.plots.style import checked_path

    checked_path(Path(out))
    runs = all(Path(source).is_dir() for source in sources)
    what = one_of(what or ("cvar" if runs else "distribution"), "what", (*CURVES, *LAWS))
    for name, figures in ONLY.items():
        if options[name] is not None and what not in figures:
            raise Failure(f"--{name}: is for {' and '.join(figures)}, not for {what}")
    notes: list[str] = []
    with collected(notes):
        size = _draw(sources, out, what, runs, options, notes)
    say(f"{out}: {what}, {size / 1000:.0f} kB")
    for line in dict.fromkeys(notes):
        say(f"note: {line}")


def _draw(sources: tuple[str, ...], out: str, what: str, runs: bool, options: dict[str, Any], notes: list[str]) -> int:
    from tailrank import plots
    from tailrank.risk.over_runs.intervals import ENOUGH, FEWEST
    from tailrank.runs.read import Run

    names = [name for name, figures in ONLY.items() if what in figures]
    settings = {name: options[name] for name in names if options[name] is not None} | {"labels": options["labels"]}
    if options["size"] is not None:
        settings["width"] = options["size"]
    if what in LAWS:
        subject = _subject(sources, options)
        notes += [*subject.warnings, *subject.notes]
        return plots.save(getattr(plots, what)(subject, **settings), out)
    if not runs:
        other = next(source for source in sources if not Path(source).is_dir())
        raise Failure(f"{other}: is no folder of a run; --what {what} is drawn of runs (tailrank train)")
    size = plots.save(getattr(plots, what)(sources, **settings), out)
    found = [Run.read(Path(source)) for source in dict.fromkeys(sources)]
    notes += [f"{run.folder}: not finished ({run.status})" for run in found if run.status != "finished"]
    if any(FEWEST <= count < ENOUGH for count in Counter(run.kind for run in found).values()):
        notes.append(f"a band over fewer than {ENOUGH} seeds is too narrow: more seeds, or say how many there were")
    return size


def _subject(sources: tuple[str, ...], options: dict[str, Any]) -> Subject:
    from tailrank.report.sources import of_sources

    return of_sources(
        sources,
        lambda source: read_source(source, options),
        tau=options["tau"],
        seconds=options["seconds"],
        imports=options["imports"],
    )
