"""The commands `tailrank inspect` (once called `import`) and `tailrank export`."""

from __future__ import annotations

from copy import copy
from typing import Any

import click

from tailrank.cli.errors import Command, say
from tailrank.cli.options import collected, print_json, read_source, reading_options
from tailrank.envs.mdp_files.formats import formats_text


@click.command("inspect", cls=Command)
@click.argument("source")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect(source: str, as_json: bool, **options: Any) -> None:
    """Read SOURCE and say what is in it."""
    notes: list[str] = []
    with collected(notes):
        read = read_source(source, options)
    notes[:0] = read.notes
    from tailrank.cli import terminal

    summary = terminal.summary(read)
    if as_json:
        print_json(summary | {"notes": notes}, notes, quiet=False)
    else:
        terminal.described(summary, notes)


import_ = copy(inspect)
import_.name, import_.hidden = "import", True


@click.command(cls=Command, help=f"Write the MDP in SOURCE to the file PATH ({formats_text()}).")
@click.argument("source")
@click.argument("path")
@reading_options
def export(source: str, path: str, **options: Any) -> None:
    """Write an MDP to a file."""
    from tailrank.envs import write_mdp

    notes: list[str] = []
    with collected(notes):
        read = read_source(source, options)
        remarks = write_mdp(read.mdp, path)
    say(f"{path}: {read.mdp.n_states} states, {read.mdp.n_actions} actions, {read.mdp.prob.size} rows")
    for line in (*read.notes, *notes, *remarks):
        say(f"note: {line}")
