"""The command `tailrank list`: the learners and environments by name."""

from __future__ import annotations

import inspect
import json

import click

from tailrank.cli.errors import Command


@click.command("list", cls=Command)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(as_json: bool) -> None:
    """The algorithms and environments that `train` and `sweep` know by name."""
    from tailrank.envs import ENVIRONMENTS, SIMULATORS
    from tailrank.learning.registry import COUNTABLE, SIMULATED, summary

    algorithms = {name: summary(name, "countable") for name in COUNTABLE}
    observing = {name: summary(name, "simulator") for name in SIMULATED if name not in ("ela", "ella")}
    environments = {name: _first_line(make) for name, make in ENVIRONMENTS.items()}
    simulators = {name: _first_line(make) for name, make in SIMULATORS.items()}
    found = {
        "algorithms": algorithms,
        "environments": environments,
        "algorithms on simulators (beside ela and ella)": observing,
        "simulators": simulators,
    }
    if as_json:
        click.echo(json.dumps(found))
        return
    for title, names in found.items():
        click.echo(title)
        width = max(map(len, names))
        for name, line in names.items():
            click.echo(f"  {name:<{width}}  {line}")


def _first_line(made: object) -> str:
    return (inspect.getdoc(made) or "").splitlines()[0]
