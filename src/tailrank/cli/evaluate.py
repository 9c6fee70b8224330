"""The command `tailrank evaluate`: a saved policy in an MDP, or the plan of a run in the run's own environment."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrank.cli.errors import Command, Failure
from tailrank.cli.options import collected, print_json, read_source, reading_options

if TYPE_CHECKING:
    import numpy as np

    from tailrank.envs import Source
    from tailrank.models.mdp import FiniteMDP
    from tailrank.planning.evaluate import Estimate
    from tailrank.policies.tables import Policy

FEW = 20
"""Episodes in the tail below which a bootstrap is not to be trusted."""


@click.command(cls=Command)
@click.argument("policy")
@click.argument("source", required=False)
@reading_options
@click.option(
    "--tau",
    "taus",
    type=float,
    multiple=True,
    show_default="0.1, or that of the run",
    metavar="T",
    help="Tail fraction in (0, 1]; may be given several times.",
)
@click.option("--episodes", type=int, metavar="N", help="Play N episodes instead of the exact evaluation.")
@click.option("--width", type=float, metavar="W", help="Play until the interval for CVaR is no wider than W.")
@click.option("--max-episodes", type=int, metavar="N", help="Most episodes for --width.  [default: 100000]")
@click.option("--confidence", type=float, default=0.95, show_default=True, metavar="P", help="Of each interval.")
@click.option(
    "--method",
    default="auto",
    show_default=True,
    metavar="auto|beta|thomas|dkw|brown|bca|percentile",
    help="Of the interval for CVaR.",
)
@click.option("--bounds", type=float, nargs=2, metavar="LOW HIGH", help="Range of the return, where it is not known.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the episodes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def evaluate(
    policy: str, source: str | None, taus: tuple[float, ...], seed: int, as_json: bool, **options: Any
) -> None:
    """What the saved POLICY earns in the MDP of SOURCE, or what a run has learned.

    POLICY is a file and SOURCE as for solve, or POLICY is the folder of a run (of train), played in its environment.
    """
    from tailrank.runs.policy_files.storage import load

    of_playing = ("episodes", "width", "max_episodes", "confidence", "method", "bounds")
    wanted = {name: options.pop(name) for name in of_playing}
    notes: list[str] = []
    with collected(notes):
        if os.path.isdir(policy):
            trusted = options.pop("imports")
            if source or any(value not in (None, "auto", ()) for value in options.values()):
                raise Failure(f"{policy}: is a run, which has its own environment; no SOURCE and no option for it")
            task = of_run(policy, taus, seed, trusted)
        elif source is None:
            raise Failure(f"SOURCE: must be given to evaluate a policy file ({policy} is no folder of a run)")
        else:
            stored = load(policy)
            task = saved(stored.policy, read_source(source, options), taus, seed)
        results, said = measure(task, **wanted)
    notes[:0] = said
    if as_json:
        print_json({"results": results, "notes": notes}, notes, quiet=False)
        return
    from tailrank.cli import terminal

    terminal.evaluated(results, notes)


@dataclass(frozen=True)
class EvaluationTask:
    """What is to be measured: `policy` in `env` by playing; `exact` gives a policy and an MDP for doing without."""

    policy: Any
    env: Any
    exact: Callable[[], tuple[Any, Any]] | None
    taus: tuple[float, ...]
    rng: np.random.Generator
    discount: float | None = None
    notes: tuple[str, ...] = ()


def saved(policy: Policy, read: Source, taus: Sequence[float], seed: int) -> EvaluationTask:
    """A saved policy in the MDP that was read."""
    import numpy as np

    from tailrank.checks import whole
    from tailrank.planning.evaluate import fitting_mdp

    mdp = fitting_mdp(policy, read.mdp)
    _check_fits(policy, mdp, read.name)
    rng = np.random.default_rng(whole(seed, "seed", least=0))
    return EvaluationTask(policy, mdp, lambda: (policy, mdp), tuple(taus) or (0.1,), rng, notes=tuple(read.notes))


def of_run(folder: str, taus: Sequence[float], seed: int, imports: Sequence[str] = ()) -> EvaluationTask:
    """The plan of the run in `folder`, to be played in episodes that nobody has seen.

    imports: packages that its configuration may have imported. Random numbers are keyed by (seed of the run,
    evaluation, 0, 0, seed): training has shorter keys.
    """
    from tailrank.checks import InputError, whole
    from tailrank.episodes.streams import Streams
    from tailrank.models.mdp import FiniteMDP
    from tailrank.runs import build
    from tailrank.runs import folder as files
    from tailrank.runs.config import RunConfig
    from tailrank.runs.policy_files.storage import load

    out = Path(folder)
    if not (out / files.CONFIG).is_file():
        raise InputError(f"{out}: holds no run ({files.CONFIG} is missing)")
    config = RunConfig.read(out / files.CONFIG)
    if not (out / files.PLAN).is_file():
        raise InputError(f"{out}: holds no plan yet; finish the run with: tailrank train --resume {out}")
    build.check_trusted(config, imports)
    policy, env = load(out / files.PLAN).policy, build.environment(config)
    levels, rng = tuple(taus) or (config.tau,), Streams(config.seed).evaluation(0, 0, whole(seed, "seed", least=0))
    manifest, notes = files.read_manifest(out), tuple(getattr(env, "notes", ()))
    if manifest.get("status") != "finished":
        notes = (f"the run is not finished; finish it with: tailrank train --resume {out}", *notes)
    if hasattr(env, "n_features"):
        return EvaluationTask(policy, env, None, levels, rng, config.discount, notes)
    if isinstance(env, FiniteMDP):
        return EvaluationTask(policy, env, lambda: (policy, env), levels, rng, notes=notes)
    from tailrank.episodes.rollout import Decoded
    from tailrank.learning.train import raw_truth

    parts = build.setup(config, env)
    before = manifest.get("environment")
    if before is not None and before != parts.digest:
        raise InputError(f"{out}: {config.environment} has changed since the run; evaluate its plan file instead")
    if env.sampler is not None:
        notes += ("exact values are those of rewards rounded up to the grid; episodes have the rewards as they are",)
    if parts.learner.decoder:
        return EvaluationTask(Decoded(policy, env.group), env, lambda: (policy, env.truth), levels, rng, notes=notes)
    return EvaluationTask(policy, env, lambda: (policy, raw_truth(env)), levels, rng, notes=notes)


def measure(
    task: EvaluationTask, *, episodes: int | None, width: float | None, **options: Any
) -> tuple[list[Any], list[str]]:
    """Results as plain data, one for each tau, and notes."""
    from tailrank.planning.evaluate import evaluate_all

    notes = list(task.notes)
    if width is None and options["max_episodes"] is not None:
        raise Failure("--max-episodes: is for --width; --episodes plays a fixed number")
    if episodes is None and width is None:
        if task.exact is None:
            raise Failure(f"--episodes or --width: must be given, {task.env.name} is only known by playing")
        found = evaluate_all(*task.exact(), task.taus, method=options["method"], confidence=options["confidence"])
    else:
        limits = {name: value for name, value in options.items() if value is not None}
        found = evaluate_all(
            task.policy,
            task.env,
            task.taus,
            episodes=episodes,
            width=width,
            rng=task.rng,
            discount=task.discount,
            **limits,
        )
    if any(one.cvar_interval.approximate for one in found):
        text = "the intervals for CVaR and the mean are bootstraps, so their confidence is approximate"
        asked = options["method"] != "auto"
        notes.append(text if asked else f"{text}; --bounds LOW HIGH, the range of the return, gives ones that hold")
        tail = min(one.tau * one.episodes for one in found)
        if tail < FEW:
            notes.append(f"only {tail:g} episodes in the tail: the bootstrap is not to be trusted there")
    return [as_dict(one) for one in found], notes


def as_dict(one: Estimate) -> dict[str, object]:
    """The numbers; ends that are not known are None."""
    names = ("tau", "cvar", "lower", "upper", "var", "mean", "confidence", "episodes", "method", "status")
    result = {name: getattr(one, name) for name in names}
    for name, found in (("var", one.var_interval), ("mean", one.mean_interval)):
        result |= {f"{name}_lower": found.lower, f"{name}_upper": found.upper, f"{name}_method": found.method}
    return {k: None if isinstance(v, float) and math.isinf(v) else v for k, v in result.items()}


def _check_fits(policy: Policy, mdp: FiniteMDP, name: str) -> None:
    """Raise unless the tables of `policy` have the steps, states and actions of the MDP."""
    table = getattr(policy, "first", getattr(policy, "actions", None))
    shape = table.shape[:2] if table is not None else ()
    if shape != (mdp.horizon, mdp.n_states):
        found = " and ".join(f"{n} {what}" for n, what in zip(shape, ("steps", "states"), strict=False))
        raise Failure(f"policy: has {found}, {name} has {mdp.horizon} steps and {mdp.n_states} states")
    if int(policy.actions.max()) >= mdp.n_actions:  # type: ignore[attr-defined]
        raise Failure(f"policy: plays action {policy.actions.max()}, {name} has {mdp.n_actions} actions")  # type: ignore[attr-defined]
