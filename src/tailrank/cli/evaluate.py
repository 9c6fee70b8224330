"""The command `tailrank evaluate`: a saved policy in an MDP, or the plan of a run in the run's own environment."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrank.cli.errors import Command, Failure
from tailrank.cli.objective_options import measures_of, objective_options
from tailrank.cli.options import collected, print_json, read_source, reading_options

if TYPE_CHECKING:
    import numpy as np

    from tailrank.envs import Source
    from tailrank.models.mdp import FiniteMDP
    from tailrank.planning.evaluate import Estimate
    from tailrank.policies.tables import Policy
    from tailrank.risk.measures.base import Measure
    from tailrank.runs.policy_files.storage import Stored

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
@objective_options
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
@click.option("--logs", metavar="FILE", help="Judge by these records instead (off-policy): a table of episodes.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the episodes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def evaluate(
    policy: str, source: str | None, taus: tuple[float, ...], seed: int, as_json: bool, **options: Any
) -> None:
    """What the saved POLICY earns in the MDP of SOURCE, or what a run has learned.

    POLICY is a file and SOURCE as for solve, or POLICY is the folder of a run (of train), played in its environment, or
    of learn-logs, with a SOURCE. With --logs the policy is judged by records that it was not learned from.
    """
    from tailrank.envs.mdp_files.formats import suffixes
    from tailrank.policies.shapes import on_states
    from tailrank.runs.log_runs import is_log_run
    from tailrank.runs.policy_files.storage import load

    of_playing = ("episodes", "width", "max_episodes", "confidence", "method", "bounds")
    wanted = {name: options.pop(name) for name in of_playing}
    measures = measures_of(options, taus or (0.1,), options["imports"]) or ()
    notes: list[str] = []
    logs = options.pop("logs")
    if logs is not None:
        _by_records(policy, source, logs, taus, seed, as_json, wanted, options)
        return
    with collected(notes):
        if is_log_run(policy):
            task = of_log_run(policy, source, taus, seed, options)
        elif os.path.isdir(policy):
            trusted = options.pop("imports")
            if source or any(value not in (None, "auto", ()) for value in options.values()):
                raise Failure(f"{policy}: is a run, which has its own environment; no SOURCE and no option for it")
            task = of_run(policy, taus, seed, trusted)
        elif policy.lower().endswith(suffixes()):
            raise Failure(
                f"{policy}: holds an MDP, not a policy; make one with: tailrank solve {policy} --save x.policy"
            )
        elif source is None:
            raise Failure(f"SOURCE: must be given to evaluate a policy file ({policy} is no folder of a run)")
        else:
            stored = load(policy)
            if on_states(stored.policy):
                task = saved(stored.policy, read_source(source, options), taus or _own(stored.tau), seed)
            else:
                task = observed(stored, source, taus, seed, options)
        results, said = measure(task, measures, **wanted)
    notes[:0] = said
    if as_json:
        print_json({"results": results, "notes": notes}, notes, quiet=False)
        return
    from tailrank.cli import terminal

    terminal.evaluated(results, notes)


def _by_records(
    policy: str,
    source: str | None,
    logs: str,
    taus: tuple[float, ...],
    seed: int,
    as_json: bool,
    wanted: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Off-policy evaluation; refuses what it has no use for."""
    from tailrank.cli.evaluate_logs import off_policy

    unused = [name for name in ("episodes", "width", "max_episodes") if wanted[name] is not None]
    unused += [name for name, value in options.items() if value not in (None, "auto", ())]
    if source is not None or unused or wanted["method"] != "auto":
        what = source or f"--{(unused or ['method'])[0].replace('_', '-')}"
        raise Failure(f"{what}: has no meaning with --logs, which plays nothing")
    off_policy(policy, logs, taus, wanted["confidence"], seed, wanted["bounds"] or None, as_json)


def of_log_run(
    folder: str, source: str | None, taus: Sequence[float], seed: int, options: dict[str, Any]
) -> EvaluationTask:
    """The plan that was learned from records, in the MDP of `source`: states are matched by name or number."""
    from tailrank.cli.evaluate_logs import horizon_of_plan, in_model

    if source is None:
        raise Failure(f"{folder}: holds a plan from records; give a known MDP as SOURCE, or other records with --logs")
    if options["horizon"] is None and source.endswith((".csv", ".csv.gz", ".npz")):
        options = options | {"horizon": horizon_of_plan(folder)}
    read = read_source(source, options)
    policy, said, tau = in_model(folder, read)
    task = saved(policy, read, tuple(taus) or (tau,), seed)
    return replace(task, notes=(*task.notes, *said))


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


def _own(tau: float | None) -> tuple[float, ...]:
    return () if tau is None else (tau,)


def observed(stored: Stored, source: str, taus: Sequence[float], seed: int, options: dict[str, Any]) -> EvaluationTask:
    """A saved policy on observations in the environment that the user names."""
    import numpy as np

    from tailrank.checks import whole
    from tailrank.envs.sources import make

    env = make(source, kind="observations", horizon=options["horizon"], imports=options["imports"])
    rng = np.random.default_rng(whole(seed, "seed", least=0))
    levels = tuple(taus) or _own(stored.tau) or (0.1,)
    return EvaluationTask(stored.policy, env, None, levels, rng, options["discount"], tuple(getattr(env, "notes", ())))


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
        return EvaluationTask(policy, env, None, levels, rng, config.environment.discount, notes)
    if isinstance(env, FiniteMDP):
        return EvaluationTask(policy, env, lambda: (policy, env), levels, rng, notes=notes)
    from tailrank.envs.built_in.single_states import raw_truth
    from tailrank.episodes.rollout import Decoded

    before = manifest.get("environment")
    if before is not None and before != build.digest_of(config, env):
        name = config.environment.name
        raise InputError(f"{out}: {name} has changed since the run; evaluate its plan file instead")
    if env.sampler is not None:
        return EvaluationTask(Decoded(policy, env.group), env, None, levels, rng, notes=notes)
    if config.make_learner().sees_groups(env):
        return EvaluationTask(Decoded(policy, env.group), env, lambda: (policy, env.truth), levels, rng, notes=notes)
    return EvaluationTask(policy, env, lambda: (policy, raw_truth(env)), levels, rng, notes=notes)


def measure(
    task: EvaluationTask,
    measures: Sequence[Measure] = (),
    *,
    episodes: int | None,
    width: float | None,
    **options: Any,
) -> tuple[list[Any], list[str]]:
    """Results as plain data, one for each tau, and notes; with the values of `measures`, one or one for each tau."""
    from tailrank.planning.evaluate import evaluate_all

    notes = list(task.notes)
    if width is None and options["max_episodes"] is not None:
        raise Failure("--max-episodes: is for --width; --episodes plays a fixed number")
    if episodes is None and width is None:
        if task.exact is None:
            real = getattr(task.env, "real", None) is not None
            why = "has rewards that no grid holds" if real else "is only known by playing"
            raise Failure(f"--episodes or --width: must be given, {task.env.name} {why}")
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
    results = [as_dict(one) for one in found]
    for i, row in enumerate(results if measures else ()):
        row |= _value(measures[min(i, len(measures) - 1)], found[i], task, options["confidence"])
    return results, notes


def _value(measure: Measure, one: Estimate, task: EvaluationTask, confidence: float) -> dict[str, object]:
    """What the policy is worth by a measure, with an interval."""
    from tailrank.planning.objectives.judge import value_of_policy, value_of_returns

    if one.episodes == 0 and task.exact is not None:
        value, between = value_of_policy(measure, *task.exact())
    else:
        value, between = value_of_returns(measure, one.law, one.episodes, confidence, task.rng)
    ends = {"value_lower": between.lower, "value_upper": between.upper, "value_method": between.method}
    return {"objective": str(measure), "value": value} | ends


def as_dict(one: Estimate) -> dict[str, object]:
    """The numbers; ends that are not known are None."""
    names = ("tau", "cvar", "lower", "upper", "var", "mean", "confidence", "episodes", "method", "status")
    result = {name: getattr(one, name) for name in names}
    for name, found in (("var", one.var_interval), ("mean", one.mean_interval)):
        result |= {f"{name}_lower": found.lower, f"{name}_upper": found.upper, f"{name}_method": found.method}
    return {k: None if isinstance(v, float) and math.isinf(v) else v for k, v in result.items()}


def _check_fits(policy: Policy, mdp: FiniteMDP, name: str) -> None:
    """Raise unless the tables of `policy` have the steps, states and actions of the MDP."""
    from tailrank.policies.shapes import table_shape
    from tailrank.policies.tables import ClonedPolicy

    shape: tuple[int, ...] = table_shape(policy) or ()
    if shape != (mdp.horizon, mdp.n_states):
        found = " and ".join(f"{n} {what}" for n, what in zip(shape, ("steps", "states"), strict=False))
        raise Failure(f"policy: has {found}, {name} has {mdp.horizon} steps and {mdp.n_states} states")
    most = policy.law.shape[1] - 1 if isinstance(policy, ClonedPolicy) else int(policy.actions.max())  # type: ignore[attr-defined]
    if most >= mdp.n_actions:
        raise Failure(f"policy: plays action {most}, {name} has {mdp.n_actions} actions")
