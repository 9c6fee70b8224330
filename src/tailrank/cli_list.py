"""The command `tailrank list`: the learners and environments by name."""

from __future__ import annotations

import inspect
import json

import click

from tailrank.cli_errors import Command


@click.command("list", cls=Command)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(as_json: bool) -> None:
    """The algorithms and environments that `train` and `sweep` know by name."""
    from tailrank.envs import ENVIRONMENTS, SIMULATORS
    from tailrank.learners.registry import ALGORITHMS

    algorithms = {name: algorithm.summary for name, algorithm in ALGORITHMS.items()}
    environments = {
        name: (inspect.getdoc(make) or "").splitlines()[0] for name, make in (ENVIRONMENTS | SIMULATORS).items()
    }
    if as_json:
        click.echo(json.dumps({"algorithms": algorithms, "environments": environments}))
        return
    for title, names in (("algorithms", algorithms), ("environments", environments)):
        click.echo(title)
        width = max(map(len, names))
        for name, summary in names.items():
            click.echo(f"  {name:<{width}}  {summary}")
