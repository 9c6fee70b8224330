"""The command `tailrank show`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tailrank.cli.errors import Command, Failure


@click.command(cls=Command)
@click.argument("policy")
@click.option("--step", type=int, metavar="H", help="Only this step (from 0).")
@click.option("--state", metavar="S", help="Only this state or latent: a number from 0, or its name.")
@click.option("--rows", type=int, default=60, show_default=True, help="Most rows to print.")
def show(policy: str, step: int | None, state: str | None, rows: int) -> None:
    """The saved POLICY as a table: which action at which step, state (or latent) and remaining budget.

    POLICY is a file, or the folder of a run.
    """
    from pathlib import Path

    from tailrank.cli.policy_table import policy_table
    from tailrank.runs.folder import PLAN
    from tailrank.runs.policy_files.storage import load

    stored = load(Path(policy) / PLAN if Path(policy).is_dir() else policy)
    policy_table(stored, step=step, state=_place(state, stored.labels[0]), rows=rows)


def _place(state: str | None, names: Sequence[object]) -> int | None:
    """The number of a state that is given by name or number."""
    if state is None or state in names:
        return None if state is None else list(names).index(state)
    from tailrank.checks import did_you_mean, whole

    if state.lstrip("-").isdigit():
        return whole(state, "state", least=-(10**9))
    raise Failure(f"--state {state}: must be a number from 0 or a name{did_you_mean(state, map(str, names))}")
