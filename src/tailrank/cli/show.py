"""The command `tailrank show`."""

from __future__ import annotations

import click

from tailrank.cli.errors import Command


@click.command(cls=Command)
@click.argument("policy")
@click.option("--step", type=int, metavar="H", help="Only this step (from 0).")
@click.option("--state", type=int, metavar="S", help="Only this state or latent (from 0).")
@click.option("--rows", type=int, default=60, show_default=True, help="Most rows to print.")
def show(policy: str, step: int | None, state: int | None, rows: int) -> None:
    """The saved POLICY as a table: which action at which step, state (or latent) and remaining budget."""
    from tailrank.cli.policy_table import policy_table
    from tailrank.runs.policy_files.storage import load

    policy_table(load(policy), step=step, state=state, rows=rows)
