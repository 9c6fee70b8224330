"""A plan from a log of states, with bounds: what `learn_logs` does once the log is read.

Three policies are bounded; delta is divided among them. One plan comes from all episodes, and its bound holds for every
plan at once (`counts.every_law`), so it may be chosen in any way (`candidates`). The next comes from some of the
episodes, drawn at random, and is judged by the others (`split`). It is returned where only it is sure to improve on the
log's own; and where the first one had to be bent for that, if it is worth more by the counts of all episodes. The last
is a step from the behaviour, judged alike (`tilted`). Where no plan is sure, the step may be, but a plan usually earns
more: the step is returned only if that is asked for, else a note says that it is there.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.envs.logs.log import EpisodeLog
from tailrank.episodes.streams import Streams
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.behaviour import Behaviour
from tailrank.learning.offline.budgets import budgets_for
from tailrank.learning.offline.candidates import (
    CAUTION,
    FEWEST,
    WHOLE,
    CautiousPlan,
    Planner,
    best_caution,
    cautions_from,
    preferred,
)
from tailrank.learning.offline.coverage import Coverage, action_shares, coverage_of, seen_pairs, usual_actions
from tailrank.learning.offline.dynamics import held_out
from tailrank.learning.offline.split import APART, TILTED, SplitTask, split_plan
from tailrank.learning.offline.stages import once
from tailrank.planning.pessimistic.goals import Goal
from tailrank.planning.pessimistic.model import RecordedModel
from tailrank.policies.tables import ClonedPolicy, Policy

OFTEN = 2
"""Times that a fallback's actions were taken in their state: a single record shows little."""
ALL, CAREFUL, CLONE = "all episodes", "actions taken more than once", "behaviour"
CLONED = "the policy that is returned acts as whoever made the log did: by the state alone, as often as in the log"
STEPPED = "the policy that is returned acts as whoever made the log did, but takes more often what leads to more"
SURE = "a step from the behaviour is sure to improve, at least {:.6g}; fallback=step returns it in place of the plan"
Watch = Callable[[str, float], None]
"""Told what is being done and the share of it that is done."""


@dataclass(frozen=True, eq=False)
class FiniteTask:
    """What is wanted, as `learn_logs` has it. rewards, ends: what rewards and returns lie in; closed: the log has
    every state that can be met; tilting: a step from the behaviour may be returned."""

    goal: Goal
    delta: float
    discount: float
    rewards: tuple[float, float]
    ends: tuple[float, float]
    dynamics: str
    closed: bool
    budgets: int | None
    caution: float | None
    fallback: str
    diagnose: bool
    tilting: bool


@dataclass(frozen=True, eq=False)
class FiniteResult:
    """A policy, what is known of it, and how outcomes were counted. bounds: all, by name; lines: what was
    assumed; notes: what should be known."""

    policy: Policy
    lower: float
    upper: float
    promise: float
    improved: bool
    how: counting.Counting
    bounds: dict[str, float]
    coverage: Coverage
    diagnostics: dict[str, Any]
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Chosen:
    name: str
    plan: CautiousPlan
    model: RecordedModel
    counts: counting.LogCounts


def learn_finite(
    log: EpisodeLog,
    task: FiniteTask,
    behaviour: Behaviour,
    streams: Streams,
    stages: MutableMapping[str, Any],
    told: Watch,
) -> FiniteResult:
    """The policy of a log of states. stages: what was done before; told: as `learn_logs` has it."""
    goal, asked = task.goal, behaviour.high
    likelihood = held_out(log, streams.oracle(0))
    auto = task.dynamics == "auto"
    by_step = task.dynamics == "by-step" or (auto and likelihood["by_step"] > likelihood["same"])
    # Where the records choose between two models, each of which may be right, both pay.
    each = 0.5 * task.delta * (0.5 if auto else 1.0)
    low, up = budgets_for(log, task.rewards, task.discount, task.budgets)
    how = counting.Counting(by_step, task.closed)
    order = streams.environment(0).permutation(log.episodes)
    counts = counting.count(log, low, how, order)
    balls = counting.every_law(counts, each)
    planner = Planner(goal, _allowed(log), usual_actions(log))
    if task.caution is None:
        rng = streams.planner(0)
        crossed = once(stages, "cross-fitted", lambda: planner.cross_fitted(log, low, how, rng, told))
        cautions = cautions_from(best_caution(crossed))
    else:
        crossed, cautions = [], (task.caution,)
    wanted = cautions[0]
    cautions = tuple(c for c in cautions if str(c) == stages.get("caution", str(c)))
    plan = planner.best_above(asked, balls, counts, cautions, wanted, _part(told, "plans", log.horizon))
    once(stages, "caution", lambda: str(plan.caution))

    def bound() -> float:
        model_up = balls if up is low else counting.every_law(counting.count(log, up, how, order), each)
        return goal.upper(model_up, planner.allowed, _part(told, "upper bound", log.horizon))

    upper = once(stages, "upper", bound)
    chosen, bounds = _Chosen(ALL, plan, balls, counts), {ALL: plan.lower} | stages.get("split", {})
    split = None
    if "split" not in stages and log.episodes >= FEWEST:
        more = (how, each, task.delta, task.caution, task.tilting, task.budgets)
        splitting = SplitTask(planner, task.rewards, task.ends, task.discount, *more)
        split = split_plan(log, streams.planner(1).permutation(log.episodes), splitting, streams.planner(2))
    told("held-out episodes", 1.0)
    if split is not None:
        bounds |= split.bounds
        both = preferred([plan.promise, split.by_all], [plan.lower, split.plan.lower], asked)
        better = split.plan.lower > asked and (plan.lower <= asked or (plan.bent and both == 1))
        stepping = task.fallback == "step" and plan.lower <= asked and split.bounds.get(TILTED, -np.inf) > asked
        if better:
            chosen = _Chosen(APART, split.plan, split.model, split.counts)
        elif not stepping:
            stages["split"] = split.bounds  # otherwise its plan is needed again
    improved = chosen.plan.lower > asked
    if not improved:
        careful = Planner(goal, _often(log, planner.allowed), planner.usual)
        plan = careful.best_above(np.inf, balls, counts, (wanted,), wanted)
        chosen = _Chosen(CAREFUL, plan, balls, counts)
        bounds[CAREFUL] = plan.lower
    coverage, diagnostics = coverage_of(log, counts, chosen.model, chosen.plan, goal, each if task.diagnose else None)
    told("diagnostics", 1.0)
    worth = np.mean(crossed, axis=0).tolist() if crossed else []
    diagnostics |= {
        "held_out_likelihood": likelihood,
        "returned": chosen.name,
        "caution": None if chosen.plan.caution == WHOLE else chosen.plan.caution,
        "cross_fitted": {f"{c:g}": value for c, value in zip(CAUTION, worth, strict=False)},
    }
    policy = goal.policy(chosen.model, chosen.plan.actions, planner.usual, chosen.plan.budget)
    found = FiniteResult(
        policy, chosen.plan.lower, upper, chosen.plan.promise, improved, how, bounds, coverage, diagnostics
    )
    surely = bounds.get(TILTED, -np.inf)
    if not improved and surely > asked and task.fallback == "step" and split is not None and split.tilted:
        return _drawn(found, split.tilted, surely, split.promised, TILTED, STEPPED, improved=True)
    if not improved and surely > asked:
        return replace(found, notes=(SURE.format(surely),))
    if not improved and task.fallback == "behaviour":
        clone = ClonedPolicy(action_shares(log), log.horizon)
        return _drawn(found, clone, behaviour.low, behaviour.cvar, CLONE, CLONED, improved=False)
    return found


def _drawn(
    found: FiniteResult, policy: ClonedPolicy, lower: float, promise: float, name: str, line: str, *, improved: bool
) -> FiniteResult:
    """The result with a policy that draws its actions in place of the plan, of which nothing more is said."""
    return replace(
        found,
        policy=policy,
        lower=lower,
        promise=promise,
        improved=improved,
        coverage=replace(found.coverage, rare=None, unseen=None),
        diagnostics=found.diagnostics | {"returned": name, "costly_pairs": [], "caution": None},
        lines=(line,),
    )


def _allowed(log: EpisodeLog) -> tuple[np.ndarray, ...]:
    pairs = len(log.states) * len(log.actions)
    mask = np.ones(pairs, dtype=bool) if log.admissible is None else log.admissible.ravel()
    return (mask,) * log.horizon


def _often(log: EpisodeLog, allowed: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Actions taken at least OFTEN times in their state, and the one taken most."""
    seen = seen_pairs(log)
    mask = (seen >= OFTEN) | (seen == seen.max(axis=1, keepdims=True))
    return tuple(mask.ravel() & one for one in allowed)


def _part(told: Watch, name: str, steps: int) -> Callable[[int], None]:
    return lambda h: told(name, (steps - h) / steps)


def checked_caution(caution: float | None) -> float | None:
    """Nats of doubt, or inf; None: to be chosen."""
    return caution if caution is None or caution == WHOLE else checks.not_negative(caution, "caution")
