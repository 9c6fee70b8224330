"""`learn_logs`: a policy with a good CVaR from a table of past episodes, and a bound on its CVaR that holds.

Logs of states are planned with by `finite`, which has the bounds; logs of observation vectors by `modelled`, or through
a decoder as logs of states (`observed`).

What is assumed: episodes are independent of each other; the next state and the reward depend on state and action (and,
unless the dynamics are the same at every step, on the step) alone; no reward lies outside the range that is given, or
else outside that of the log. Whoever made the log may have acted on anything that is in it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tailrank import checks
from tailrank.envs.logs.log import EpisodeLog, Label
from tailrank.envs.logs.read import read_log
from tailrank.episodes.streams import Streams
from tailrank.learning.offline.behaviour import behaviour_of
from tailrank.learning.offline.clone import CLONED, softmax_clone
from tailrank.learning.offline.counts import Counting
from tailrank.learning.offline.coverage import Coverage
from tailrank.learning.offline.finite import CLONE, FiniteTask, Watch, checked_caution, learn_finite
from tailrank.learning.offline.learned import LearnedFromLogs
from tailrank.learning.offline.limits import return_limits, reward_limits
from tailrank.learning.offline.modelled import learn_modelled, seen_latents
from tailrank.learning.offline.models import MODELS
from tailrank.learning.offline.observed import CLASS, decoded, observation_policy
from tailrank.learning.offline.stages import Keeper, fingerprint
from tailrank.planning.pessimistic.goals import goal_of
from tailrank.policies.tables import BudgetPolicy
from tailrank.risk.measures.base import Measure, a_measure
from tailrank.risk.measures.cvar import CVaR

DYNAMICS = ("auto", "same", "by-step")
STATES = ("seen", "unseen")
"""Whether every state that can be met is in the log, or there may be others, of which the worst is feared."""
FALLBACKS = ("plan", "behaviour", "step")


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
    than once, the log's own "behaviour", or a "step" from it that is. seed: of the halves. diagnose: whether to compute
    bounds for other numbers of episodes too. keeper: where stages are kept, so that a call can go on after it was
    stopped.

    >>> log = {"episode": [0, 1, 2, 3], "state": [0] * 4, "action": [0, 0, 1, 1], "reward": [1, 1, 0, 5]}
    >>> learned = learn_logs(log, tau=0.5)
    >>> learned.status, learned.behaviour.cvar
    ('not improved', 0.5)
    """
    began = time.perf_counter()
    measure = CVaR(tau) if objective is None else a_measure(objective)
    goal, tau, delta = goal_of(measure), getattr(measure, "tau", tau), checks.inside(delta, "delta", "(0, 1)")
    checks.one_of(dynamics, "dynamics", DYNAMICS)
    checks.one_of(fallback, "fallback", FALLBACKS)
    checks.one_of(model, "model", MODELS)
    listed = () if isinstance(states, str) else checks.different(states, "states")
    if isinstance(states, str):
        checks.one_of(states, "states", STATES)
    discount = checks.discount_factor(discount)
    log = (
        frame
        if isinstance(frame, EpisodeLog)
        else read_log(frame, columns=columns, horizon=horizon, states=listed, actions=actions)
    )
    raw, streams, decoder, gained = log, Streams(checks.whole(seed, "seed", least=0)), None, dict[str, float]()
    if fallback == "step" and (log.probability is None or log.observation is not None):
        raise checks.InputError("fallback = step: needs states and the column 'probability'")
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
        fallback,
        seed,
    )
    stages = {} if keeper is None else keeper(fingerprint(log, *settings))
    if log.observation is not None:
        checks.inside(discount, "discount with observation vectors", "[1, 1]")
        log, decoder = decoded(log, checks.whole(rank, "rank", least=2), streams.oracle(1))
        found, gained = learn_modelled(raw, decoder, measure, delta, ends, model, streams, stages)
        told("models of observations", 1.0)
        if found is not None:
            status = "improved" if found.lower > behaviour.high else "not improved"
            learned = LearnedFromLogs(
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
                assumptions=(found.label, *_assumptions(None, rewards, assumed, True)),
                notes=log.notes,
            )
            return _cloned(learned, raw, fallback, streams)
    task = FiniteTask(
        goal=goal,
        delta=delta,
        discount=discount,
        rewards=rewards,
        ends=ends,
        dynamics=dynamics,
        closed=states != "unseen",
        budgets=None if budgets is None else checks.whole(budgets, "budgets", least=2),
        caution=checked_caution(caution),
        fallback=fallback if decoder is None else "plan",
        diagnose=diagnose,
        tilting=decoder is None,
    )
    made = learn_finite(log, task, behaviour, streams, stages, told)
    policy, assumptions = made.policy, _assumptions(made.how, rewards, assumed, bool(listed)) + made.lines
    if decoder is not None:
        assumptions = (CLASS, *assumptions)
        if isinstance(policy, BudgetPolicy):
            policy = observation_policy(policy, decoder, len(log.actions))
    worst, best = (measure.of([end]) for end in ends)
    learned = LearnedFromLogs(
        policy=policy,
        tau=tau,
        delta=delta,
        lower=max(made.lower, worst),
        upper=min(made.upper, best),
        promise=made.promise,
        behaviour=behaviour,
        coverage=made.coverage,
        status="improved" if made.improved else "not improved",
        episodes=log.episodes,
        transitions=log.transitions,
        seconds=time.perf_counter() - began,
        states=log.states,
        actions=log.actions,
        measure=measure,
        bounds=made.bounds,
        diagnostics=made.diagnostics | {"held_out_gains": gained},
        assumptions=assumptions,
        notes=log.notes + made.notes,
    )
    return learned if decoder is None else _cloned(learned, raw, fallback, streams)


def _cloned(learned: LearnedFromLogs, log: EpisodeLog, fallback: str, streams: Streams) -> LearnedFromLogs:
    """The result with a clone of whoever made a log of observations, where nothing is sure to improve and that is
    wanted."""
    if learned.status == "improved" or fallback != "behaviour":
        return learned
    return replace(
        learned,
        policy=softmax_clone(log, streams.oracle(6)),
        lower=learned.behaviour.low,
        promise=learned.behaviour.cvar,
        diagnostics=learned.diagnostics | {"returned": CLONE},
        assumptions=(*learned.assumptions, CLONED),
    )


def _assumptions(how: Counting | None, rewards: tuple[float, float], assumed: bool, listed: bool) -> tuple[str, ...]:
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


def _silent(name: str, share: float) -> None:
    """Tell nobody."""
