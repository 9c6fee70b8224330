"""The command `tailrank plot`."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tailrank.cli_errors import Command, Failure
from tailrank.cli_names import known

if TYPE_CHECKING:
    from tailrank.envs import Source
    from tailrank.report.subject import Subject

F = TypeVar("F", bound=Callable[..., Any])
READING = ("horizon", "discount", "start", "index_base", "axis_order", "imports")
CURVES = ("regret", "cvar", "profile")
LAWS = ("distribution", "frontier")
ONLY = {
    "by": ("regret", "cvar"), "center": ("regret", "cvar"), "log": ("regret", "cvar"), "baseline": ("profile",),
}  # fmt: skip
"""Options that only some figures have."""


def reading_options(function: F) -> F:
    """How an MDP is read and solved, for figures of one."""
    options = (
        click.option("--tau", type=float, metavar="T", help="Tail fraction in (0, 1] to solve for.  [default: 0.1]"),
        click.option("--seconds", type=float, default=60.0, show_default=True, metavar="X", help="Time to solve."),
        click.option("--horizon", type=int, metavar="H", help="Number of steps of an MDP."),
        click.option("--discount", type=float, metavar="G", help="Discount in (0, 1]."),
        click.option("--start", metavar="S", help='First state, or a law "1:0.5,4:0.5".'),
        click.option("--index-base", type=click.Choice(["auto", "0", "1"]), default="auto", help="Counted from."),
        click.option("--axis-order", type=click.Choice(["auto", "state-first", "action-first"]), default="auto",
                     help="Axes in .npz."),
        click.option("--import", "imports", multiple=True, metavar="PKG", help="Package to import first."),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


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
@reading_options
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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        size = _draw(sources, out, what, runs, options, notes)
    notes += [" ".join(str(warning.message).split()) for warning in caught]
    click.echo(f"{out}: {what}, {size / 1000:.0f} kB")
    for line in dict.fromkeys(notes):
        click.echo(f"note: {line}")


def _draw(sources: tuple[str, ...], out: str, what: str, runs: bool, options: dict[str, Any], notes: list[str]) -> int:
    from tailrank import plots
    from tailrank.plots.seeds import ENOUGH, FEWEST

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
    if any(FEWEST <= count < ENOUGH for count in _seeds(sources)):
        notes.append(f"a band over fewer than {ENOUGH} seeds is too narrow: more seeds, or say how many there were")
    return size


def _seeds(folders: tuple[str, ...]) -> list[int]:
    """How many runs there are of each configuration."""
    from tailrank.experiments.config import read_toml
    from tailrank.experiments.folder import CONFIG
    from tailrank.report.runs import Run

    runs = (Run(Path(folder), read_toml(Path(folder) / CONFIG), {}, []) for folder in folders)
    return list(Counter(run.kind for run in runs).values())


def _subject(sources: tuple[str, ...], options: dict[str, Any]) -> Subject:
    from tailrank.envs import ENVIRONMENTS, read_mdp
    from tailrank.report.sources import of_sources

    def read(source: str) -> Source:
        return known(lambda: read_mdp(source, **{name: options[name] for name in READING}), source, [*ENVIRONMENTS])

    return of_sources(sources, read, tau=options["tau"], seconds=options["seconds"])
