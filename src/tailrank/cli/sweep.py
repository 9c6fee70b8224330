"""The command `tailrank sweep`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tailrank.cli.errors import Command, Failure, say
from tailrank.cli.options import collected, print_json

if TYPE_CHECKING:
    from tailrank.runs.config import RunConfig
    from tailrank.runs.sweeps.file import Sweep
    from tailrank.runs.sweeps.sweep import Outcome, SweepState


@click.command(cls=Command)
@click.argument("path", metavar="FILE")
@click.option("--out", metavar="DIR", help="Folder of the runs.  [default: out in FILE, or runs/NAME of FILE]")
@click.option("--backend", metavar="serial|processes|dask", help="Where they run.  [default: processes]")
@click.option("--workers", type=int, metavar="N", help="Runs at a time.  [default: as many as there are processors]")
@click.option("--scheduler", metavar="tcp://HOST:PORT", help="Use the workers of this Dask scheduler.")
@click.option("--import", "imports", multiple=True, metavar="PKG", help="Package that FILE may import.")
@click.option("--dry-run", is_flag=True, help="List the runs and how they stand; nothing is run.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
@click.option("--quiet", is_flag=True, help="No progress, no notes.")
def sweep(
    path: str,
    out: str | None,
    backend: str | None,
    workers: int | None,
    scheduler: str | None,
    imports: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run what FILE describes: algorithms x environments x tau x seeds, each run in a folder as train writes it.

    Runs that are finished are skipped and those that were begun go on, so that the same command continues after Ctrl-C
    or a crash, and a sweep can grow. Exit code 1 if a run failed.
    """
    from tailrank.runs.run import Interrupted
    from tailrank.runs.sweeps import sweep as sweeps
    from tailrank.runs.sweeps.file import read_sweep

    backend = backend or ("processes" if scheduler is None else "dask")
    sweeps.backend_options(backend, workers, scheduler)
    with collected([]):  # every run has its own
        found = read_sweep(path, out, _environment, imports=imports)
    if dry_run:
        _list(found, {planned.name: sweeps.look(planned, found.out) for planned in found.runs}, as_json)
        return
    from tailrank.runs.sweeps.progress import show_sweep

    try:
        with show_sweep(found, quiet) as watch:
            outcome = sweeps.run_sweep(found, backend=backend, workers=workers, scheduler=scheduler, watch=watch)
    except Interrupted as error:
        raise Failure(str(error), error.exit_code) from None
    _summary(found, outcome, as_json, quiet)


def _environment(config: RunConfig) -> Any:
    """The environment of a run; a name that nobody knows gets near ones."""
    from tailrank.checks import InputError
    from tailrank.cli.names import unknown_source
    from tailrank.envs import ENVIRONMENTS, SIMULATORS
    from tailrank.runs.build import environment

    try:
        return environment(config)
    except InputError:
        unknown = unknown_source(config.environment.name, (*ENVIRONMENTS, *SIMULATORS))
        if unknown is None:
            raise
        raise InputError(unknown.replace("--import PACKAGE", "imports = ['PACKAGE'] with --import PACKAGE")) from None


def _list(found: Sweep, states: dict[str, SweepState], as_json: bool) -> None:
    if as_json:
        runs = [{"name": name, "status": state.status} for name, state in states.items()]
        print_json({"out": str(found.out), "runs": runs}, [], quiet=True)
        return
    for planned in found.runs:
        state = states[planned.name]
        how = f"  {state.row.get('k', 0)}/{planned.config.iterations}" if state.status == "begun" else ""
        how = f"  {state.error}" if state.status == "failed" else how
        say(f"{state.status:<9} {planned.name}{how}")


def _summary(found: Sweep, outcome: Outcome, as_json: bool, quiet: bool) -> None:
    """What was done; one line for each run that failed."""
    failed = outcome.failed
    for name, error in failed.items():
        say(f"tailrank: failed: {name}: {error}", err=True)
    n = len(outcome.states)
    now = n - outcome.before - len(failed)
    if as_json:
        about = {"out": str(found.out), "runs": n, "finished": now, "before": outcome.before, "failed": failed}
        print_json(about, outcome.notes, quiet)
    else:
        before = f", {outcome.before} before" if outcome.before else ""
        say(f"{found.out}: {n} runs, {now} finished now{before}, {len(failed)} failed")
        for note in () if quiet else outcome.notes:
            say(f"note: {note}")
    if failed:
        raise Failure(f"{len(failed)} of {n} runs failed; the same command tries them again", 1)
