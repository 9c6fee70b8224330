"""The commands `tailrank report` and `tailrank serve`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tailrank.cli_errors import Command, Failure

if TYPE_CHECKING:
    from tailrank.envs import Source
    from tailrank.report.subject import Subject

F = TypeVar("F", bound=Callable[..., Any])
READING = ("horizon", "discount", "start", "index_base", "axis_order", "imports")


def subject_options(function: F) -> F:
    """The options that say what a report is about."""
    options = (
        click.option("--tau", type=float, metavar="T", help="Tail fraction in (0, 1] to solve for.  [default: 0.1]"),
        click.option("--seed", type=int, default=0, show_default=True, help="Seed of the episodes that are shown."),
        click.option("--seconds", type=float, default=60.0, show_default=True, metavar="X", help="Time to solve."),
        click.option("--horizon", type=int, metavar="H", help="Number of steps."),
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
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@subject_options
@click.option("-o", "--out", default="report.html", show_default=True, metavar="FILE", help="The file to write.")
def report(sources: tuple[str, ...], out: str, **options: Any) -> None:
    """Write one HTML file that shows what a policy risks, to open in any browser.

    SOURCE... is one or several folders of runs (tailrank train); a policy file and the MDP it plays in; or an MDP as
    for solve, which is solved first.
    """
    if os.path.isdir(out) or not os.path.isdir(os.path.dirname(out) or "."):
        raise Failure(f"--out {out}: must be a file in a folder that exists")
    notes: list[str] = []
    subject = _subject(sources, options, notes)
    from tailrank.report.document import save

    size = save(subject, out)
    click.echo(f"{out}: {size / 1000:.0f} kB, open it in a browser")
    for line in notes:
        click.echo(f"note: {line}")


@click.command(cls=Command)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@subject_options
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 is any.")
def serve(sources: tuple[str, ...], port: int, **options: Any) -> None:
    """Show the report of SOURCE in a browser on this computer, live while a run goes on.

    SOURCE is what `tailrank report` takes; without it, the newest run in runs/. Ctrl-C ends it.
    """
    from tailrank.report.serve import ADDRESS, Server
    from tailrank.report.site import Site

    chosen = sources or (_newest(),)
    folders = [Path(source) for source in chosen if Path(source).is_dir()]
    site = Site(lambda: _subject(chosen, options, []), folders if len(folders) == len(chosen) else ())
    try:
        server = Server(site, port)
    except OSError as error:
        raise Failure(f"--port {port}: cannot be used ({error.strerror}); choose another, or 0 for any") from None
    try:
        with server:
            click.echo(f"http://{ADDRESS}:{server.server_port}/ shows {', '.join(chosen)}; Ctrl-C ends it")
            server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        click.echo("stopped")


def _newest() -> str:
    from tailrank.report.runs import is_run

    runs = [path for path in Path("runs").glob("*") if is_run(path)]
    if not runs:
        raise Failure("SOURCE: must be given, as there is no run in runs/")
    return str(max(runs, key=lambda path: path.stat().st_mtime))


def _subject(sources: tuple[str, ...], options: dict[str, Any], notes: list[str]) -> Subject:
    from tailrank.checks import whole
    from tailrank.envs import read_mdp
    from tailrank.report.sources import of_sources

    def read(source: str) -> Source:
        return read_mdp(source, **{name: options[name] for name in READING})

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        seed = whole(options["seed"], "seed", least=0)
        subject = of_sources(sources, read, tau=options["tau"], seed=seed, seconds=options["seconds"])
    lines = [*subject.warnings, *subject.notes, *(" ".join(str(w.message).split()) for w in caught)]
    notes += dict.fromkeys(lines)
    return subject
