"""The command `tailrank list`: the learners and environments by name."""

from __future__ import annotations

import inspect
import json
import sys

import click

from tailrank.cli.errors import Command


@click.command("list", cls=Command)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(as_json: bool) -> None:
    """The algorithms and environments that `train` and `sweep` know by name."""
    from tailrank.envs import ENVIRONMENTS, SIMULATORS
    from tailrank.learning.registry import ALGORITHMS
    from tailrank.learning.rivals.observations import RIVALS

    algorithms = {name: algorithm.summary for name, algorithm in ALGORITHMS.items()}
    modules = {name: sys.modules[getattr(make, "func", make).__module__] for name, make in RIVALS.items()}
    observing = {name: _first_line(module) for name, module in modules.items()}
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
        for name, summary in names.items():
            click.echo(f"  {name:<{width}}  {summary}")


def _first_line(made: object) -> str:
    return (inspect.getdoc(made) or "").splitlines()[0]
