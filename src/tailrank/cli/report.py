"""The commands `tailrank report` and `tailrank serve`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrank.cli.errors import Command, Failure, say
from tailrank.cli.options import collected, read_source, solving_options

if TYPE_CHECKING:
    from tailrank.report.subject import Subject

SEED = click.option("--seed", type=int, default=0, show_default=True, help="Seed of the episodes that are shown.")


@click.command(cls=Command)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@SEED
@solving_options
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
    say(f"{out}: {size / 1000:.0f} kB, open it in a browser")
    for line in notes:
        say(f"note: {line}")


@click.command(cls=Command)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@SEED
@solving_options
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 is any.")
def serve(sources: tuple[str, ...], port: int, **options: Any) -> None:
    """Show the report of SOURCE in a browser on this computer, live while a run goes on.

    SOURCE is what `tailrank report` takes; without it, the newest run in runs/. Ctrl-C ends it.
    """
    from tailrank.report.live.server import ADDRESS, Server
    from tailrank.report.live.site import Site

    chosen = sources or (_newest(),)
    folders = [Path(source) for source in chosen if Path(source).is_dir()]
    live = folders if len(folders) == len(chosen) else ()
    site = Site(lambda: _subject(chosen, options, []), live, options["imports"])
    try:
        server = Server(site, port)
    except OSError as error:
        raise Failure(f"--port {port}: cannot be used ({error.strerror}); choose another, or 0 for any") from None
    try:
        with server:
            say(f"http://{ADDRESS}:{server.server_port}/ shows {', '.join(chosen)}; Ctrl-C ends it")
            server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        say("stopped")


def _newest() -> str:
    from tailrank.runs.read import is_run

    runs = [path for path in Path("runs").glob("*") if is_run(path)]
    if not runs:
        raise Failure("SOURCE: must be given, as there is no run in runs/")
    return str(max(runs, key=lambda path: path.stat().st_mtime))


def _subject(sources: tuple[str, ...], options: dict[str, Any], notes: list[str]) -> Subject:
    from tailrank.checks import whole
    from tailrank.report.sources import of_sources

    seed, caught = whole(options["seed"], "seed", least=0), list[str]()
    with collected(caught):
        subject = of_sources(
            sources,
            lambda source: read_source(source, options),
            tau=options["tau"],
            seed=seed,
            seconds=options["seconds"],
            imports=options["imports"],
        )
    notes += dict.fromkeys([*subject.warnings, *subject.notes, *caught])
    return subject
