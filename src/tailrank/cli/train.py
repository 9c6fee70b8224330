"""The commands `tailrank train` and `tailrank theory`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tailrank.cli.errors import Command, Failure
from tailrank.cli.names import known
from tailrank.cli.options import collected, pairs, print_json, reading_options, value, with_options

if TYPE_CHECKING:
    from tailrank.runs.config import RunConfig

F = TypeVar("F", bound=Callable[..., Any])
PRINTED = (
    "algorithm",
    "tau",
    "iterations",
    "episodes",
    "steps",
    "cvar",
    "cvar_low",
    "cvar_high",
    "method",
    "cvar_star",
    "status",
    "seconds",
    "out",
)
TABLES = {"settings": "--set", "planner": "--planner", "network": "--network"}


def run_options(function: F) -> F:
    """The options that describe a run; None where nothing was said, so that a file can say it."""
    options = (
        click.option("--algorithm", metavar="NAME", help="The learner, see tailrank list.  [default: ela]"),
        click.option("--tau", type=float, metavar="T", help="Tail fraction in (0, 1].  [default: 0.1]"),
        click.option("--iterations", type=int, metavar="K", help="Iterations to run."),
        click.option("--seed", type=int, metavar="S", help="Seed of everything that is random.  [default: 0]"),
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the environment."),
        click.option(
            "--model",
            metavar="class|counts|em|block|mixture|linear|neural|table",
            help="What is fitted; the last four learn from observations.",
        ),
        click.option("--rank", metavar="D|auto", help="Rank of the model (the most latents of a step)."),
        click.option("--collect", metavar="rollins|printed|episode", help="Which episodes are played."),
        click.option("--share/--no-share", default=None, help="Pool the data of all steps."),
        click.option("--batch", type=int, metavar="B", help="Collections between two fits."),
        click.option("--growth", type=float, metavar="P", help="Or this share of all so far, if it is more."),
        click.option("--alpha-scale", type=float, metavar="X", help="Scale of the bonus."),
        click.option("--lam-scale", type=float, metavar="X", help="Scale of the regularisation."),
        click.option("--cap", metavar="corrected|printed|X", help="Largest bonus."),
        click.option("--log", metavar="corrected|printed", help="The logarithm in the bonus."),
        click.option("--output", metavar="best|uniform|greedy", help="Which plan is returned."),
        click.option("--output-episodes", type=int, metavar="N", help="Fresh episodes to judge a candidate."),
        click.option("--stop-cvar", type=float, metavar="X", help="Stop when the CVaR of a plan reaches this."),
        click.option("--stop-within", type=float, metavar="P", help="Stop when it is within this share of CVaR*."),
        click.option("--checkpoint-every", type=int, metavar="K", help="Iterations between checkpoints."),
        click.option("--planner", multiple=True, metavar="KEY=VALUE", help="Setting of the planner of ella."),
        click.option("--upsilon", type=float, metavar="U", help="Grid that rewards are rounded up to."),
        reading_options,
        click.option("--rewards", metavar="learned", help="Learn from observations; rewards are learned too."),
        click.option("--reward-range", type=float, nargs=2, metavar="LOW HIGH", help="What rewards can be."),
        click.option("--reward-levels", type=int, metavar="N", help="Steps of the reward grid.  [default: 20]"),
        click.option("--action-levels", type=int, metavar="N", help="Values of each continuous action."),
        click.option("--width", type=int, metavar="N", help="Copies of the environment that play side by side."),
        click.option("--bonus", metavar="elliptical|visits", help="What the bonus measures."),
        click.option("--pilot", type=int, metavar="N", help="Random episodes before the first plan."),
        click.option("--evaluate-every", type=int, metavar="K", help="Judge the plan every K iterations."),
        click.option("--evaluation-episodes", type=int, metavar="N", help="Fresh episodes to judge with."),
        click.option("--network", multiple=True, metavar="KEY=VALUE", help="Setting of a network (width=64)."),
    )
    return with_options(function, options)


@click.command(cls=Command)
@click.argument("source", required=False)
@run_options
@click.option("--episodes", type=int, metavar="N", help="Run until at least N episodes were played.")
@click.option("--config", "file", metavar="FILE", help="Read the run from a TOML file; options override it.")
@click.option("--out", metavar="DIR", help="Folder of the run.  [default: runs/SOURCE-ALGORITHM-SEED]")
@click.option("--resume", metavar="DIR", help="Continue the run in this folder.")
@click.option("--log-to", multiple=True, metavar="tensorboard|wandb|mlflow", help="Also log there; repeatable.")
@click.option("--progress", "mode", default="auto", metavar="auto|plain|none", help="plain: lines, also to a file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
@click.option("--quiet", is_flag=True, help="No progress, no notes.")
def train(
    source: str | None,
    episodes: int | None,
    file: str | None,
    out: str | None,
    resume: str | None,
    log_to: tuple[str, ...],
    mode: str,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Learn a policy for SOURCE: risky-lock, random-lowrank, risky-shortcut, decoy, or an MDP as for solve; from
    observations: rich-lock, or any Gymnasium environment with --model mixture, neural, linear or table.

    A run can be stopped at any time (Ctrl-C) and continued with --resume, with the same result.
    """
    from tailrank.runs.build import close

    given = {name: value for name, value in options.items() if value is not None and value != ()}
    notes: list[str] = []
    shown = ("none" if quiet else mode, log_to)
    if resume is not None:
        trusted = given.pop("imports", ())
        if source or episodes or file or out or given:
            raise Failure("--resume: takes everything from the folder; no source and no other setting can be given")
        about = _about(resume)
        result = _go(
            lambda run, progress: run.resume(resume, progress=progress, imports=trusted), about, resume, shown, notes
        )
    else:
        config, env = _config(source, episodes, file, given, notes)
        name = re.sub(r"[^\w.-]+", "-", env.name).strip("-.") or "run"
        where = out or f"runs/{name}-{config.algorithm}-{config.seed}"

        def start(run: Any, progress: Any) -> dict[str, Any]:
            try:
                return run.run(config, where, progress=progress, env=env)
            finally:
                close(env)

        result = _go(start, asdict(config), where, shown, notes)
    from tailrank.runs.folder import read_manifest

    notes += [line for line in read_manifest(Path(result["out"])).get("notes", ()) if line not in notes]
    if as_json:
        print_json({name: result[name] for name in PRINTED if name in result}, notes, quiet)
        return
    from tailrank.cli.run_summary import summary

    summary(result, [] if quiet else notes)


def _about(folder: str) -> dict[str, Any]:
    """The configuration of a run that is resumed; empty if there is none, which resuming will say."""
    from tailrank.runs.config import RunConfig
    from tailrank.runs.folder import CONFIG

    path = Path(folder) / CONFIG
    return asdict(RunConfig.read(path)) if path.is_file() else {}


def _go(
    start: Callable[[Any, Any], dict[str, Any]],
    about: dict[str, Any],
    where: str,
    shown: tuple[str, tuple[str, ...]],
    notes: list[str],
) -> dict[str, Any]:
    """Start or resume a run with what is shown of it (progress, loggers); a signal ends it with one line."""
    from tailrank.runs import progress as view
    from tailrank.runs import run
    from tailrank.runs.loggers import Logged

    try:
        with (
            collected(notes),
            view.shown(shown[0], about.get("episodes")) as bar,
            Logged(shown[1], about, Path(where).absolute()) as log,
        ):
            result = start(run, view.together(bar, log))
            log.finish(result)
    except run.Interrupted as error:
        raise Failure(str(error), error.exit_code) from None
    return result


def _config(
    source: str | None, episodes: int | None, file: str | None, given: dict[str, Any], notes: list[str]
) -> tuple[RunConfig, Any]:
    from tailrank.envs import ENVIRONMENTS, SIMULATORS
    from tailrank.runs.build import check_trusted, environment, iterations_for
    from tailrank.runs.config import RunConfig, read_toml

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
            given[name] = (before if isinstance(before, dict) else {}) | pairs(given[name], flag)
    for name in ("cap", "rank"):
        if name in given:
            given[name] = value(given[name])
    values |= given
    if "horizon" in given and str(values["environment"]) in (*ENVIRONMENTS, *SIMULATORS):
        values["settings"] = (values.get("settings") or {}) | {"horizon": values.pop("horizon")}
    if episodes is not None:
        values["iterations"] = 1
    elif values.get("episodes") is not None:
        values.setdefault("iterations", values["episodes"])
    elif values.get("iterations") is None:
        raise Failure("--iterations or --episodes: must be given")
    config = RunConfig.from_dict(values)
    if file:
        check_trusted(config, (*given.get("imports", ()), *((source or "").rpartition(":")[:1])))
    with collected(notes):
        env = known(lambda: environment(config), config.environment, (*ENVIRONMENTS, *SIMULATORS))
    if episodes is not None and config.simulated:
        config = replace(config, iterations=episodes, episodes=episodes)
    elif episodes is not None:
        config = replace(config, iterations=iterations_for(episodes, config, env))
    return config, env


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
    from tailrank.learning.schedule import Theory

    rows = Theory(**figures).table()
    if as_json:
        table = [{"quantity": name, "value": value, "formula": formula} for name, value, formula in rows]
        click.echo(json.dumps(figures | {"table": table}, allow_nan=False))
        return
    for name, figure, formula in rows:
        click.echo(f"{name:<18}{figure:>12.4g}  {formula}")
