"""`learn_logs`: a policy with a good CVaR from a table of past episodes, and a bound on its CVaR that holds.

Two plans are made; delta is divided between them. The second is returned where only it is sure to improve. One comes
from all episodes, and its bound holds for every plan at once (`counts.every_law`), so it may be chosen in any way
(`candidates`). The other comes from one half of the episodes, drawn at random, and is judged by the other half
(`counts.fixed`, and by importance weights where the log has the probabilities of its actions): half of the data, but no
price for many outcomes. `upper` holds for every policy on the same event as the first bound.

What is assumed: episodes are independent of each other; the next state and the reward depend on state and action (and,
unless the dynamics are the same at every step, on the step) alone; no reward lies outside the range that is given, or
else outside that of the log. Whoever made the log may have acted on anything that is in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.envs.logs.log import EpisodeLog, Label
from tailrank.envs.logs.read import read_log
from tailrank.episodes.streams import Streams
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.behaviour import behaviour_of
from tailrank.learning.offline.budgets import budgets_for
from tailrank.learning.offline.candidates import CAUTION, MIDDLE, WHOLE, CautiousPlan, Planner, best_caution
from tailrank.learning.offline.coverage import Coverage, action_shares, coverage_of, seen_pairs, usual_actions
from tailrank.learning.offline.dynamics import held_out
from tailrank.learning.offline.half import HalfTask, half_plan
from tailrank.learning.offline.learned import LearnedFromLogs
from tailrank.learning.offline.limits import return_limits, reward_limits
from tailrank.learning.offline.modelled import LABEL, learn_modelled, seen_latents
from tailrank.learning.offline.models import MODELS
from tailrank.learning.offline.observed import CLASS, decoded, observation_policy
from tailrank.learning.offline.stages import Keeper, fingerprint, once
from tailrank.planning.pessimistic.goals import goal_of
from tailrank.planning.pessimistic.model import RecordedModel
from tailrank.policies.tables import BudgetPolicy, ClonedPolicy, Policy
from tailrank.risk.measures.base import Measure
from tailrank.risk.measures.cvar import CVaR

DYNAMICS = ("auto", "same", "by-step")
STATES = ("seen", "unseen")
"""Whether every state that can be met is in the log, or there may be others, of which the worst is feared."""
FALLBACKS = ("plan", "behaviour")
OFTEN = 2
"""Times that a fallback's actions were taken in their state: a single record shows little."""
CLONED = "the policy that is returned acts as whoever made the log did: by the state alone, as often as in the log"
Watch = Callable[[str, float], None]
"""Told what is being done and the share of it that is done."""


def learn_logs(
    frame: Any,
    tau: float = 0.1,
    delta: float = 0.05,
    horizon: int | None = None,
    *,
    objective: Measure | None = None,
    discount: float = 1.0,
    reward_range: tuple[float, float] | None = None,
    return_range: tuple[float, float] | None = None,
    dynamics: str = "auto",
    states: str | Sequence[Label] = "seen",
    columns: Mapping[str, str] | None = None,
    actions: Sequence[Label] = (),
    model: str = "auto",
    rank: int = 10,
    budgets: int | None = None,
    caution: float | None = None,
    fallback: str = "plan",
    seed: int = 0,
    diagnose: bool = True,
    watch: Watch | None = None,
    keeper: Keeper | None = None,
) -> LearnedFromLogs:
    """A policy from past episodes, with bounds on its CVaR_tau that hold with probability 1 - delta.

    frame: a data frame, the name of a file (.csv, .parquet, ..) or a Minari data set, or an `EpisodeLog`. horizon: H,
    the longest episode if not given. reward_range: what every reward lies in; that of the log if not given, which is
    then an assumption. return_range: what every return lies in, if that is narrower. dynamics: "same" at every step,
    "by-step", or "auto", which looks at held-out likelihood. states: all there are, or "seen" (an assumption: every
    state is in the log), or "unseen" (there may be others, where all is lost). columns: names of columns that are not
    the usual ones. actions: all there are. model: of observation vectors, "block" (latent states, with bounds),
    "lowrank", "kernel", or by held-out likelihood. rank: the most latent states. budgets: at the
    first step. caution: nats of doubt about every pair that the plan is made with; inf gives the best bound, and by
    default it is chosen by cross-fitting. objective: a `Measure` that is an OCE or an expected utility, in place of
    CVaR_tau. fallback: what is returned where no plan is sure to improve, the "plan" of actions that were taken more
    than once, or the log's own "behaviour". seed: of the halves. diagnose: whether to compute bounds
    for other numbers of episodes too. keeper: where stages are kept, so that a call can go on after it was stopped.

    >>> log = {"episode": [0, 1, 2, 3], "state": [0] * 4, "action": [0, 0, 1, 1], "reward": [1, 1, 0, 5]}
    >>> learned = learn_logs(log, tau=0.5)
    >>> learned.status, learned.behaviour.cvar
    ('not improved', 0.5)
    """
    began = time.perf_counter()
    measure, delta = objective or CVaR(tau), checks.inside(delta, "delta", "(0, 1)")
    goal = goal_of(measure)
    checks.one_of(dynamics, "dynamics", DYNAMICS)
    checks.one_of(fallback, "fallback", FALLBACKS)
    checks.one_of(model, "model", MODELS)
    listed = () if isinstance(states, str) else tuple(states)
    if isinstance(states, str):
        checks.one_of(states, "states", STATES)
    discount = checks.discount_factor(discount)
    log = (
        frame
        if isinstance(frame, EpisodeLog)
        else read_log(frame, columns=columns, horizon=horizon, states=listed, actions=actions)
    )
    streams, decoder, gained = Streams(checks.whole(seed, "seed", least=0)), None, dict[str, float]()
    rewards, assumed = reward_limits(log, reward_range)
    ends = return_limits(log, rewards, discount, return_range)
    behaviour, told = behaviour_of(log, measure, delta, ends, discount), watch or _silent
    settings = (
        str(measure),
        delta,
        discount,
        rewards,
        ends,
        dynamics,
        str(states),
        model,
        rank,
        budgets,
        caution,
        seed,
    )
    stages = {} if keeper is None else keeper(fingerprint(log, *settings))
    if log.observation is not None:
        checks.inside(discount, "discount with observation vectors", "[1, 1]")
        if fallback == "behaviour":
            raise checks.InputError("fallback = behaviour: needs states, with observation vectors there is the plan")
        raw = log
        log, decoder = decoded(log, checks.whole(rank, "rank", least=2), streams.oracle(1))
        found, gained = learn_modelled(raw, decoder, measure, delta, ends, model, streams, stages)
        told("models of observations", 1.0)
        if found is not None:
            status = "improved" if found.lower > behaviour.high else "not improved"
            return LearnedFromLogs(
                policy=found.plan.policy,
                tau=tau,
                delta=delta,
                lower=found.lower,
                upper=ends[1],
                promise=found.promise,
                behaviour=behaviour,
                coverage=Coverage(*seen_latents(log.state, log.action, len(log.states), len(log.actions))),
                status=status,
                episodes=log.episodes,
                transitions=log.transitions,
                seconds=time.perf_counter() - began,
                states=log.states,
                actions=log.actions,
                measure=measure,
                bounds=found.bounds,
                diagnostics=found.diagnostics | {"held_out_gains": gained, "returned": found.plan.model},
                assumptions=(LABEL.format(found.plan.model), *_assumptions(None, rewards, assumed, True)),
                notes=log.notes,
            )
    likelihood = held_out(log, streams.oracle(0))
    by_step = dynamics == "by-step" or (dynamics == "auto" and likelihood["by_step"] > likelihood["same"])
    # Where the records choose between two models, each of which may be right, both pay.
    each = 0.5 * delta * (0.5 if dynamics == "auto" else 1.0)
    low, up = budgets_for(
        log, rewards, discount, None if budgets is None else checks.whole(budgets, "budgets", least=2)
    )
    how = counting.Counting(by_step, states != "unseen")
    order = streams.environment(0).permutation(log.episodes)
    counts = counting.count(log, low, how, order)
    balls = counting.every_law(counts, each)
    planner = Planner(goal, _allowed(log), usual_actions(log))
    halves = log.halves(streams.planner(0))
    if caution is None:
        crossed = dict(once(stages, "cross-fitted", lambda: list(planner.cross_fitted(halves, low, how).items())))
        cautions = tuple(c for c in (*CAUTION, WHOLE) if c >= best_caution(crossed))
    else:
        crossed, cautions = {}, (caution if caution == WHOLE else checks.positive(caution, "caution"),)
    told("cross-fitting", 1.0)
    cautions = tuple(c for c in cautions if str(c) == stages.get("caution", str(c)))
    plan = planner.boldest_above(behaviour.high, balls, counts, cautions, _part(told, "plans", log.horizon))
    once(stages, "caution", lambda: str(plan.caution))

    def bound() -> float:
        model_up = balls if up is low else counting.every_law(counting.count(log, up, how, order), each)
        return goal.upper(model_up, planner.allowed, _part(told, "upper bound", log.horizon))

    upper = once(stages, "upper", bound)
    chosen = _Chosen("all episodes", plan, balls, counts)
    bounds = {chosen.name: plan.lower}
    among = (MIDDLE, WHOLE) if caution is None else cautions  # the half that judges may not choose
    bounds |= stages.get("half", {})
    half = None
    if "half" not in stages:
        half = half_plan(halves, HalfTask(planner, rewards, discount, how, each, behaviour.high, among, budgets))
    told("other half", 1.0)
    if half is not None:
        bounds |= half.bounds
        if not half.plan.lower > behaviour.high >= plan.lower:
            stages["half"] = half.bounds  # otherwise its plan is needed again
        if half.plan.lower > behaviour.high >= plan.lower:
            chosen = _Chosen("half of the episodes", half.plan, half.model, half.counts)
    status = "improved" if chosen.plan.lower > behaviour.high else "not improved"
    if status == "not improved":
        careful = Planner(goal, _often(log, planner.allowed), planner.usual)
        plan = careful.boldest_above(np.inf, balls, counts, cautions[:1])
        chosen = _Chosen("actions taken more than once", plan, balls, counts)
        bounds[chosen.name] = plan.lower
    coverage, diagnostics = coverage_of(log, counts, chosen.model, chosen.plan, goal, each if diagnose else None)
    told("diagnostics", 1.0)
    assumptions = (*((CLASS,) if decoder is not None else ()), *_assumptions(how, rewards, assumed, bool(listed)))
    policy: Policy = goal.policy(chosen.model, chosen.plan.tables.actions, planner.usual, chosen.plan.budget)
    lower, promise = chosen.plan.lower, chosen.plan.promise
    if status == "not improved" and fallback == "behaviour":
        policy, lower, promise = ClonedPolicy(action_shares(log), log.horizon), behaviour.low, behaviour.cvar
        chosen, assumptions = _Chosen("behaviour", chosen.plan, balls, counts), (*assumptions, CLONED)
    elif decoder is not None and isinstance(policy, BudgetPolicy):
        policy = observation_policy(policy, decoder, len(log.actions))
    worst, best = (measure.of([end]) for end in ends)
    return LearnedFromLogs(
        policy=policy,
        tau=getattr(measure, "tau", tau),
        delta=delta,
        lower=max(lower, worst),
        upper=min(upper, best),
        promise=promise,
        behaviour=behaviour,
        coverage=coverage,
        status=status,
        episodes=log.episodes,
        transitions=log.transitions,
        seconds=time.perf_counter() - began,
        states=log.states,
        actions=log.actions,
        measure=measure,
        bounds=bounds,
        diagnostics=diagnostics
        | {
            "held_out_likelihood": likelihood,
            "held_out_gains": gained,
            "returned": chosen.name,
            "caution": None if chosen.plan.caution == WHOLE else chosen.plan.caution,
            "cross_fitted": {f"{c:g}": value for c, value in crossed.items()},
        },
        assumptions=assumptions,
        notes=log.notes,
    )


@dataclass(frozen=True, eq=False)
class _Chosen:
    name: str
    plan: CautiousPlan
    model: RecordedModel
    counts: counting.LogCounts


def _allowed(log: EpisodeLog) -> tuple[np.ndarray, ...]:
    pairs = len(log.states) * len(log.actions)
    mask = np.ones(pairs, dtype=bool) if log.admissible is None else log.admissible.ravel()
    return (mask,) * log.horizon


def _often(log: EpisodeLog, allowed: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Actions taken at least OFTEN times in their state, and the one taken most."""
    seen = seen_pairs(log)
    mask = (seen >= OFTEN) | (seen == seen.max(axis=1, keepdims=True))
    return tuple(mask.ravel() & one for one in allowed)


def _assumptions(
    how: counting.Counting | None, rewards: tuple[float, float], assumed: bool, listed: bool
) -> tuple[str, ...]:
    lines = ["episodes are independent"]
    if how is not None:
        lines[0] += "; the next state and the reward depend on state and action alone"
        lines[0] += ", differently at every step" if how.by_step else ", in the same way at every step"
    if how is not None and how.closed and not listed:
        lines.append("every state that can be met is in the log; states=unseen says otherwise")
    if assumed:
        lines.append(
            f"no reward lies outside [{rewards[0]:g}, {rewards[1]:g}], those of the log; "
            "reward_range=... says otherwise"
        )
    return tuple(lines)


def _part(told: Watch, name: str, steps: int) -> Callable[[int], None]:
    return lambda h: told(name, (steps - h) / steps)


def _silent(name: str, share: float) -> None:
    """Tell nobody."""
