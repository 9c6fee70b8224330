"""The commands `tailrank train` and `tailrank theory`."""

from __future__ import annotations

import json
import math
import re
import signal
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tailrank.cli_errors import Command, Failure

if TYPE_CHECKING:
    from tailrank.envs import Episodic
    from tailrank.experiments.config import RunConfig

F = TypeVar("F", bound=Callable[..., Any])
PRINTED = ("algorithm", "tau", "iterations", "episodes", "steps", "cvar", "cvar_star", "status", "seconds", "out")
TABLES = {"settings": "--set", "planner": "--planner"}


def run_options(function: F) -> F:
    """The options that describe a run; None where nothing was said, so that a file can say it."""
    options = (
        click.option("--algorithm", metavar="ela|ella", help="The learner.  [default: ela]"),
        click.option("--tau", type=float, metavar="T", help="Tail fraction in (0, 1].  [default: 0.1]"),
        click.option("--iterations", type=int, metavar="K", help="Iterations to run."),
        click.option("--seed", type=int, metavar="S", help="Seed of everything that is random.  [default: 0]"),
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the environment."),
        click.option("--model", metavar="class|counts|em|block", help="What is fitted."),
        click.option("--rank", type=int, metavar="D", help="Rank of the models em and block."),
        click.option("--collect", metavar="rollins|printed|episode", help="Which episodes are played."),
        click.option("--share/--no-share", default=None, help="Pool the data of all steps."),
        click.option("--batch", type=int, metavar="B", help="Collections between two fits."),
        click.option("--alpha-scale", type=float, metavar="X", help="Scale of the bonus."),
        click.option("--lam-scale", type=float, metavar="X", help="Scale of the regularisation."),
        click.option("--cap", metavar="corrected|printed|X", help="Largest bonus."),
        click.option("--log", metavar="corrected|printed", help="The logarithm in the bonus."),
        click.option("--output", metavar="best|uniform|greedy", help="Which plan is returned."),
        click.option("--output-episodes", type=int, metavar="N", help="Fresh episodes to judge a candidate."),
        click.option("--stop-cvar", type=float, metavar="X", help="Stop when a plan's exact CVaR reaches this."),
        click.option("--checkpoint-every", type=int, metavar="K", help="Iterations between checkpoints."),
        click.option("--planner", multiple=True, metavar="KEY=VALUE", help="Setting of the planner of ella."),
        click.option("--upsilon", type=float, metavar="U", help="Grid that rewards are rounded up to."),
        click.option("--horizon", type=int, metavar="H", help="Number of steps."),
        click.option("--discount", type=float, metavar="G", help="Discount in (0, 1]."),
        click.option("--start", metavar="S", help='First state, or a law "1:0.5,4:0.5".'),
        click.option("--index-base", type=click.Choice(["auto", "0", "1"]), help="What a file counts from."),
        click.option("--axis-order", type=click.Choice(["auto", "state-first", "action-first"]), help="Axes in .npz."),
        click.option("--import", "imports", multiple=True, metavar="PKG", help="Package to import first."),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


@click.command(cls=Command)
@click.argument("source", required=False)
@run_options
@click.option("--episodes", type=int, metavar="N", help="Run until at least N episodes were played.")
@click.option("--config", "file", metavar="FILE", help="Read the run from a TOML file; options override it.")
@click.option("--out", metavar="DIR", help="Folder of the run.  [default: runs/SOURCE-ALGORITHM-SEED]")
@click.option("--resume", metavar="DIR", help="Continue the run in this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
@click.option("--quiet", is_flag=True, help="No progress, no notes.")
def train(
    source: str | None,
    episodes: int | None,
    file: str | None,
    out: str | None,
    resume: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Learn a policy for SOURCE: risky-lock, random-lowrank, risky-shortcut, decoy, or an MDP as for solve.

    A run can be stopped at any time (Ctrl-C) and continued with --resume, with the same result.
    """
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    notes: list[str] = []
    if resume is not None:
        if source or episodes or file or out or given:
            raise Failure("--resume: takes everything from the folder; no source and no other setting can be given")
        result = _go(lambda run, progress: run.resume(resume, progress=progress), quiet, notes)
    else:
        config, env = _config(source, episodes, file, given, notes)
        name = re.sub(r"[^\w.-]+", "-", env.name).strip("-.") or "run"
        where = out or f"runs/{name}-{config.algorithm}-{config.seed}"
        notes += [line for line in env.notes if line not in notes]
        result = _go(lambda run, progress: run.run(config, where, progress=progress, env=env), quiet, notes)
    if as_json:
        for line in () if quiet else notes:
            click.echo(f"tailrank: note: {line}", err=True)
        click.echo(json.dumps({name: result[name] for name in PRINTED}, allow_nan=False))
        return
    from tailrank.experiments import progress as view

    view.summary(result, [] if quiet else notes)


def _go(start: Callable[[Any, Any], dict[str, Any]], quiet: bool, notes: list[str]) -> dict[str, Any]:
    """Start or resume a run, with progress on a terminal; a signal ends it with one line."""
    from tailrank.experiments import progress as view
    from tailrank.experiments import run

    try:
        with view.shown(quiet) as progress, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            result = start(run, progress)
    except run.Interrupted as error:
        raise Failure(str(error), 143 if error.signal == signal.SIGTERM else 130) from None
    notes += dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
    return result


def _config(
    source: str | None, episodes: int | None, file: str | None, given: dict[str, Any], notes: list[str]
) -> tuple[RunConfig, Episodic]:
    from tailrank.envs import ENVIRONMENTS
    from tailrank.experiments.build import environment, iterations_for
    from tailrank.experiments.config import RunConfig, read_toml

    values = read_toml(file) if file else {}
    if source:
        values["environment"] = source
    if not values.get("environment"):
        raise Failure("SOURCE: must be given, as an argument or as environment in --config")
    if episodes is not None and "iterations" in given:
        raise Failure("--iterations and --episodes: give one of them")
    for name, flag in TABLES.items():
        if name in given:
            before = values.get(name)
            given[name] = (before if isinstance(before, dict) else {}) | _pairs(given[name], flag)
    if "cap" in given:
        given["cap"] = _value(given["cap"])
    values |= given
    if "horizon" in given and str(values["environment"]) in ENVIRONMENTS:
        values["settings"] = (values.get("settings") or {}) | {"horizon": values.pop("horizon")}
    if episodes is not None:
        values["iterations"] = 1
    elif values.get("iterations") is None:
        raise Failure("--iterations or --episodes: must be given")
    config = RunConfig.from_dict(values)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        env = environment(config)
    notes += dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
    if episodes is not None:
        config = replace(config, iterations=iterations_for(episodes, config, env))
    return config, env


def _pairs(pairs: tuple[str, ...], flag: str) -> dict[str, Any]:
    result = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise Failure(f"{flag} {pair}: must be KEY=VALUE")
        result[name.strip().replace("-", "_")] = _value(text.strip())
    return result


def _value(text: str) -> Any:
    """A number, true or false where the text is one, else the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@click.command(cls=Command)
@click.option("--H", "H", type=int, required=True, help="Steps of an episode.")
@click.option("--A", "A", type=int, required=True, help="Actions.")
@click.option("--d", "d", type=int, required=True, help="Rank.")
@click.option("--class-size", type=float, required=True, metavar="F", help="Number of models in the class.")
@click.option("--tau", type=float, required=True, metavar="T", help="Tail fraction in (0, 1].")
@click.option("--epsilon", type=float, required=True, metavar="E", help="How far from the best CVaR.")
@click.option("--delta", type=float, default=0.1, show_default=True, metavar="P", help="Probability of failure.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def theory(as_json: bool, **figures: Any) -> None:
    """What the theorems ask for, with all their constants set to one."""
    from tailrank.schedules import Theory

    try:
        rows = Theory(**figures).table()
    except (OverflowError, ZeroDivisionError):
        raise Failure("theory: the figures are too large for a number; choose a larger --epsilon or --tau") from None
    if not all(math.isfinite(value) for _, value, _ in rows):
        raise Failure("theory: the figures are too large for a number; choose a larger --epsilon or --tau")
    if as_json:
        table = [{"quantity": name, "value": value, "formula": formula} for name, value, formula in rows]
        click.echo(json.dumps(figures | {"table": table}, allow_nan=False))
        return
    from tailrank.experiments import progress as view

    view.theory(rows)
