"""The command `tailrank train`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tailrank._system.settings import Place, settings_of
from tailrank.cli.errors import Command, Failure
from tailrank.cli.names import known
from tailrank.cli.options import collected, option_of, pairs, print_json, value, with_options
from tailrank.runs.flat import COMMON, ENVIRONMENT, LEARNER, is_flat, tables_of, without_defaults
from tailrank.runs.settings import LATER, EnvironmentConfig, RunSettings

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
    "cvar_upper",
    "method",
    "cvar_star",
    "cvar_star_lower",
    "objective",
    "value",
    "value_low",
    "value_high",
    "value_method",
    "value_star",
    "status",
    "seconds",
    "out",
)
PAIRS = {"settings": "--set", "planner": "--planner", "network": "--network"}


def run_options(function: F) -> F:
    """The options that describe a run, made from its dataclasses; None where nobody said, so that a file can say it."""
    environment, run = settings_of(EnvironmentConfig), settings_of(RunSettings)
    learner: dict[str, list[Place]] = {}
    for cls in COMMON:
        for name, place in settings_of(cls).items():
            if name in LEARNER:
                learner.setdefault(name, []).append(place)
    options = [
        click.option("--algorithm", metavar="NAME", help="The learner, see tailrank list.  [default: ela, or auto]"),
        click.option("--tau", type=float, metavar="T", help="Tail fraction in (0, 1].  [default: 0.1]"),
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the environment."),
        *(option_of(name, *places) for name, places in learner.items()),
        click.option("--planner", multiple=True, metavar="KEY=VALUE", help="Setting that only this learner has."),
        click.option("--network", multiple=True, metavar="KEY=VALUE", help="Setting of a network (width=64)."),
        *(option_of(name, place, default=True) for name, place in run.items() if name != "episodes"),
        *(option_of(name, environment[name], default=True) for name in ENVIRONMENT),
    ]
    return with_options(function, options)


GROUPS = {
    "Options": (
        *("tau", "episodes", "horizon", "seed", "out", "overwrite", "resume", "algorithm", "model", "config", "file"),
        *("log_to", "mode", "as_json", "quiet"),
    ),
    "The objective": ("objective", "weight", "risk_beta", "at", "risk_aversion", "points"),
    "The environment": (
        *("settings", "imports", "discount", "start", "upsilon", "index_base", "axis_order", "rewards"),
        *("action_levels", "width"),
    ),
    "What is returned, and how it is judged": (
        *("output", "output_episodes", "evaluate_every", "evaluation_episodes", "stop_cvar", "stop_within"),
        *("checkpoint_every", "iterations"),
    ),
}


@click.command(cls=Command, groups=GROUPS | {"The learner": LEARNER})
@click.argument("source", required=False)
@run_options
@click.option("--episodes", type=int, metavar="N", help="Run until at least N episodes were played.")
@click.option("--config", "file", metavar="FILE", help="Read the run from a TOML file; options override it.")
@click.option("--out", metavar="DIR", help="Folder of the run.  [default: runs/SOURCE-ALGORITHM-TAU-SEED-TIME]")
@click.option("--overwrite", is_flag=True, help="Throw away the run that --out holds.")
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
    overwrite: bool,
    resume: str | None,
    log_to: tuple[str, ...],
    mode: str,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Learn a policy for SOURCE: an environment of tailrank list (risky-lock, walled-lock, ...), or an MDP as for
    solve; from observations: rich-lock, or any Gymnasium environment, by --algorithm auto.

    A run can be stopped at any time (Ctrl-C) and continued with --resume, with the same result; more --iterations or
    --episodes than before make it longer.
    """
    from tailrank.runs import run as runs
    from tailrank.runs.build import close

    given = {name: value for name, value in options.items() if value is not None and value != ()}
    notes: list[str] = []
    shown = ("none" if quiet else mode, log_to)
    if resume is not None:
        trusted = given.pop("imports", ())
        changes = given | ({} if episodes is None else {"episodes": episodes})
        may = [name for names in LATER.values() for name in names]
        if source or file or out or overwrite or set(changes) - set(may):
            raise Failure(
                f"--resume: takes all from the folder but {', '.join(f'--{name}' for name in may)}".replace("_", "-")
            )
        if episodes is not None and "iterations" in given:
            raise Failure("--iterations and --episodes: give one of them")
        about = _about(resume) | changes
        result = _go(
            lambda progress: runs.resume(resume, progress=progress, imports=trusted, changes=changes),
            about,
            resume,
            shown,
            notes,
        )
    else:
        config, env = _config(source, episodes, file, given, notes)
        where = out or _folder(env.name, config)
        if overwrite:
            runs.discard(Path(where))

        def start(progress: Any) -> dict[str, Any]:
            try:
                return runs.run(config, where, progress=progress, env=env)
            finally:
                close(env)

        result = _go(start, config.flat(), where, shown, notes)
    notes += [line for line in result.get("notes", ()) if line not in notes]
    if as_json:
        print_json({name: result[name] for name in PRINTED if name in result}, notes, quiet)
        return
    from tailrank.cli.run_summary import summary

    summary(result, [] if quiet else notes)


def _folder(name: str, config: RunConfig) -> str:
    """A folder in runs/ that says what is in it and that nobody has used."""
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"
    learner = config.algorithm.rpartition(":")[2]
    first = f"runs/{plain}-{learner}-tau{config.tau:g}-seed{config.seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    return next(path for i in count() if not Path(path := first + (f"-{i}" if i else "")).exists())


def _only_played(where: dict[str, Any], notes: list[str], plain: bool) -> bool:
    """Whether it is learned from what is observed: without a transition table, or with one of too many states.

    plain: nothing was said about the learner, so that this may be chosen; why goes to the notes.
    """
    from tailrank.checks import InputError
    from tailrank.envs import sources
    from tailrank.envs.gymnasium.tables import NoTable

    name = str(where["name"])
    if not sources.is_id(name):
        return False
    given = {key: where[key] for key in ("horizon", "start", "imports") if key in where}
    try:
        with collected([]):
            mdp = sources.read(name, **given, **where.get("settings", {})).mdp
    except NoTable:
        return True
    except InputError:
        return False  # what is wrong is said when the environment is made
    why = sources.many_states(mdp) if plain else ""
    notes += [why] if why else []
    return bool(why)


def _about(folder: str) -> dict[str, Any]:
    """The configuration of a run that is resumed; empty if there is none, which resuming will say."""
    from tailrank.runs.config import RunConfig
    from tailrank.runs.folder import CONFIG

    path = Path(folder) / CONFIG
    return RunConfig.read(path).flat() if path.is_file() else {}


def _go(
    start: Callable[[Any], dict[str, Any]],
    about: dict[str, Any],
    where: str,
    shown: tuple[str, tuple[str, ...]],
    notes: list[str],
) -> dict[str, Any]:
    """Start or resume a run with what is shown of it (progress, loggers); a signal ends it with one line."""
    from tailrank.runs import progress as view
    from tailrank.runs.loggers import Logged
    from tailrank.runs.run import Interrupted

    try:
        with (
            collected(notes),
            view.show_progress(shown[0], about.get("episodes")) as bar,
            Logged(shown[1], about, Path(where).absolute()) as log,
        ):
            result = start(view.combine_reports(bar, log))
            log.finish(result)
    except Interrupted as error:
        raise Failure(str(error), error.exit_code) from None
    return result


def _config(
    source: str | None, episodes: int | None, file: str | None, given: dict[str, Any], notes: list[str]
) -> tuple[RunConfig, Any]:
    from tailrank.envs import ENVIRONMENTS, SIMULATORS
    from tailrank.learning.learn import SMOOTH
    from tailrank.runs.build import check_trusted, environment, with_episodes
    from tailrank.runs.config import RunConfig, read_toml

    values: dict[str, Any] = read_toml(file) if file else {}
    if is_flat(values):
        values, shown = tables_of(without_defaults(values))
    else:
        shown = {}
    for name in PAIRS:
        if name in given:
            given[name] = pairs(given[name], PAIRS[name])
    for name in ("cap", "rank"):
        if name in given:
            given[name] = value(given[name])
    said, own = tables_of(given | ({"environment": source} if source else {}))
    settings = dict(values.get("environment", {}).get("settings", {})) | said["environment"].pop("settings", {})
    tables = {name: dict(values.get(name, {})) | table for name, table in said.items()}
    where, run = tables["environment"], tables["run"]
    if not where.get("name"):
        raise Failure("SOURCE: must be given, as an argument or as environment in --config")
    if episodes is not None and "iterations" in given:
        raise Failure("--iterations and --episodes: give one of them")
    if "horizon" in given and where["name"] in (*ENVIRONMENTS, *SIMULATORS):
        settings["horizon"] = where.pop("horizon")
    if settings:
        where["settings"] = settings
    if episodes is not None:
        run["iterations"] = 1
    elif run.get("episodes") is not None:
        run.setdefault("iterations", run["episodes"])
    elif run.get("iterations") is None:
        raise Failure("--iterations or --episodes: must be given")
    learner = tables["learner"]
    if not file and where["name"] not in (*ENVIRONMENTS, *SIMULATORS) and "rewards" not in where:
        plain = not set(learner) - {"tau"}
        played = _only_played(where, notes, plain)
        if not played and learner.get("model") == "auto":
            del learner["model"]  # the default for states that can be counted
        elif played and plain:
            learner["algorithm"] = SMOOTH
        elif played:
            where["rewards"] = "learned"
    config = RunConfig.from_dict(tables, shown | own)
    if file:
        named = (source, given.get("algorithm"))
        trusted = (*given.get("imports", ()), *(str(x or "").rpartition(":")[0] for x in named))
        check_trusted(config, (*trusted, *([given["cluster"]] if given.get("cluster") else [])))
    with collected(notes):
        env = known(lambda: environment(config), where["name"], (*ENVIRONMENTS, *SIMULATORS))
    return config if episodes is None else with_episodes(config, episodes, env), env
