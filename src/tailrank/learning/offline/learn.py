"""`learn_logs`: a policy with a good CVaR from a table of past episodes, and a bound on its CVaR that holds.

Two plans are made; delta is divided between them. The second is returned where only it is sure to improve. One comes
from all episodes, and its bound holds for every plan at once (`counts.every_law`). The other comes from one half
of the episodes, drawn at random, and is judged by the other half (`counts.fixed`, and by importance weights where the
log has the probabilities of its actions): half of the data, but no price for many outcomes. `upper` holds for every
policy on the same event as the first bound.

What is assumed: episodes are independent of each other; the next state and the reward depend on state and action (and,
unless the dynamics are the same at every step, on the step) alone; no reward lies outside the range that is given, or
else outside that of the log. Whoever made the log may have acted on anything that is in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.logs.log import EpisodeLog, Label
from tailrank.envs.logs.read import read_log
from tailrank.episodes.streams import Streams
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.behaviour import Behaviour, behaviour_of
from tailrank.learning.offline.budgets import Budgets, budgets_for
from tailrank.learning.offline.candidates import CAUTION, CautiousPlan, boldest_above
from tailrank.learning.offline.coverage import Coverage, coverage_of, seen_pairs, usual_actions
from tailrank.learning.offline.dynamics import held_out
from tailrank.learning.offline.half import HalfTask, half_plan
from tailrank.learning.offline.observed import CLASS, decoded, observation_policy
from tailrank.planning.pessimistic.induction import best_budget, least_shortfall, policy_of
from tailrank.planning.pessimistic.model import RecordedModel
from tailrank.policies.names import own_names
from tailrank.policies.observed import ObservationPolicy
from tailrank.policies.result import Result, number
from tailrank.policies.tables import BudgetPolicy

DYNAMICS = ("auto", "same", "by-step")
STATES = ("seen", "unseen")
"""Whether every state that can be met is in the log, or there may be others, of which the worst is feared."""
OFTEN = 10
"""Times that a fallback's actions were taken in their state."""
Watch = Callable[[str, float], None]
"""Told what is being done and the share of it that is done."""


@dataclass(frozen=True, eq=False, repr=False)
class LearnedFromLogs(Result):
    """A policy from records, and what can be said of its CVaR with probability 1 - delta.

    lower: CVaR_tau of `policy` is at least this. upper: that of no policy is above this. promise: its CVaR if the
    counts were the truth. behaviour: that of whoever made the log. status: "improved" if lower is above
    behaviour.high, else "not improved", and then `policy` takes only actions that were taken often in their state.
    bounds: every bound that was computed, by name. assumptions, notes: lines for the user.
    """

    policy: BudgetPolicy | ObservationPolicy
    tau: float
    delta: float
    lower: float
    upper: float
    promise: float
    behaviour: Behaviour
    coverage: Coverage
    status: str
    episodes: int
    transitions: int
    seconds: float
    states: tuple[Label, ...]
    actions: tuple[Label, ...]
    bounds: dict[str, float] = field(default_factory=dict)
    diagnostics: dict[str, Any] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return f"Policy from {self.episodes} recorded episodes for the CVaR at tau = {self.tau:g} ({self.status})"

    @property
    def facts(self) -> dict[str, str]:
        """The bounds, and what whoever made the records earned."""
        b = self.behaviour
        return {
            "CVaR at least": f"{number(self.lower)} with probability {1 - self.delta:g}",
            "model promises": f"CVaR {number(self.promise)}",
            "no policy above": number(self.upper),
            "records' own": f"CVaR {number(b.cvar)} in {number(b.low)} .. {number(b.high)}, mean {number(b.mean)}",
        }

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was assumed, and what should be known."""
        return (*self.assumptions, *self.notes)

    @property
    def labels(self) -> tuple[Sequence[object], Sequence[object]]:
        """Names of the states and of the actions."""
        return self.states, self.actions

    def about(self) -> dict[str, Any]:
        """What a policy file keeps beside the policy."""
        own = {"states": own_names(self.states), "actions": own_names(self.actions)}
        return {"logs": self.as_dict(), "tau": self.tau} | {name: labels for name, labels in own.items() if labels}

    def as_dict(self) -> dict[str, Any]:
        """The numbers, as the command line prints them."""
        b = self.behaviour
        return {
            "status": self.status,
            "tau": self.tau,
            "delta": self.delta,
            "episodes": self.episodes,
            "transitions": self.transitions,
            "lower": self.lower,
            "upper": self.upper,
            "promise": self.promise,
            "behaviour": {"cvar": b.cvar, "low": b.low, "high": b.high, "mean": b.mean},
            "seconds": self.seconds,
        }


def learn_logs(
    frame: Any,
    tau: float = 0.1,
    delta: float = 0.05,
    horizon: int | None = None,
    *,
    discount: float = 1.0,
    reward_range: tuple[float, float] | None = None,
    return_range: tuple[float, float] | None = None,
    dynamics: str = "auto",
    states: str | Sequence[Label] = "seen",
    columns: Mapping[str, str] | None = None,
    actions: Sequence[Label] = (),
    rank: int = 10,
    budgets: int | None = None,
    caution: float | None = None,
    seed: int = 0,
    diagnose: bool = True,
    watch: Watch | None = None,
) -> LearnedFromLogs:
    """A policy from past episodes, with bounds on its CVaR_tau that hold with probability 1 - delta.

    frame: a data frame, the name of a file (.csv, .parquet, ..) or a Minari data set, or an `EpisodeLog`. horizon: H,
    the longest episode if not given. reward_range: what every reward lies in; that of the log if not given, which is
    then an assumption. return_range: what every return lies in, if that is narrower. dynamics: "same" at every step,
    "by-step", or "auto", which looks at held-out likelihood. states: all there are, or "seen" (an assumption: every
    state is in the log), or "unseen" (there may be others, where all is lost). columns: names of columns that are not
    the usual ones. actions: all there are. rank: the most latent states behind observation vectors. budgets: at the
    first step. caution: the part of every margin that the plan is made with, in (0, 1]; 1 gives the best bound, and by
    default the boldest plan that is sure to improve is taken. seed: of the halves. diagnose: whether to compute bounds
    for other numbers of episodes too.

    >>> log = {"episode": [0, 1, 2, 3], "state": [0] * 4, "action": [0, 0, 1, 1], "reward": [1, 1, 0, 5]}
    >>> learned = learn_logs(log, tau=0.5)
    >>> learned.status, learned.behaviour.cvar
    ('not improved', 0.5)
    """
    began = time.perf_counter()
    tau, delta = checks.tail_level(tau), checks.inside(delta, "delta", "(0, 1)")
    checks.one_of(dynamics, "dynamics", DYNAMICS)
    listed = () if isinstance(states, str) else tuple(states)
    if isinstance(states, str):
        checks.one_of(states, "states", STATES)
    discount = checks.discount_factor(discount)
    log = (
        frame
        if isinstance(frame, EpisodeLog)
        else read_log(frame, columns=columns, horizon=horizon, states=listed, actions=actions)
    )
    streams, decoder = Streams(checks.whole(seed, "seed", least=0)), None
    if log.observation is not None:
        checks.inside(discount, "discount with observation vectors", "[1, 1]")
        log, decoder = decoded(log, checks.whole(rank, "rank", least=2), streams.oracle(1))
    rewards, assumed = reward_limits(log, reward_range)
    ends = return_limits(log, rewards, discount, return_range)
    likelihood = held_out(log, streams.oracle(0))
    by_step = dynamics == "by-step" or (dynamics == "auto" and likelihood["by_step"] > likelihood["same"])
    # Where the records choose between two models, each of which may be right, both pay.
    each = delta * (0.5 if dynamics == "auto" else 1.0)
    low, up = budgets_for(
        log, rewards, discount, None if budgets is None else checks.whole(budgets, "budgets", least=2)
    )
    order = streams.environment(0).permutation(log.episodes)
    how = counting.Counting(by_step, states != "unseen")
    counts = counting.count(log, low, how, order)
    usual = usual_actions(log)
    allowed = _allowed(log)
    told = watch or _silent

    model, counted = counting.every_law(counts, 0.5 * each), counting.plain(counts)
    behaviour = behaviour_of(log, tau, delta, ends, discount)
    cautions = CAUTION if caution is None else (checks.inside(caution, "caution", "(0, 1]"),)
    plan = boldest_above(
        behaviour.high, model, counted, allowed, usual, tau, cautions, _part(told, "plans", log.horizon)
    )
    upper = _upper(
        log, counts, model, up, how, order, 0.5 * each, allowed, tau, _part(told, "upper bound", log.horizon)
    )
    chosen = _Chosen("all episodes", plan, model, counts)
    bounds = {chosen.name: plan.lower}
    task = HalfTask(rewards, discount, how, tau, 0.5 * each, allowed, usual, behaviour.high, cautions, budgets)
    half = half_plan(log, task, streams.planner(0))
    told("other half", 1.0)
    if half is not None:
        bounds |= half.bounds
        if half.plan.lower > behaviour.high >= plan.lower:
            chosen = _Chosen("half of the episodes", half.plan, half.model, half.counts)
    status = "improved" if chosen.plan.lower > behaviour.high else "not improved"
    if status == "not improved":
        plan = boldest_above(np.inf, model, counted, _often(log, allowed), usual, tau, cautions[:1])
        chosen = _Chosen("actions taken often", plan, model, counts)
        bounds[chosen.name] = plan.lower
    coverage, diagnostics = coverage_of(log, counts, chosen.model, chosen.plan, tau, 0.5 * each if diagnose else None)
    told("diagnostics", 1.0)
    policy: BudgetPolicy | ObservationPolicy = policy_of(
        chosen.model, chosen.plan.tables.actions, usual, chosen.plan.budget
    )
    if decoder is not None and isinstance(policy, BudgetPolicy):
        policy = observation_policy(policy, decoder, len(log.actions))
    return LearnedFromLogs(
        policy=policy,
        tau=tau,
        delta=delta,
        lower=max(chosen.plan.lower, ends[0]),
        upper=min(upper, ends[1]),
        promise=chosen.plan.promise,
        behaviour=behaviour,
        coverage=coverage,
        status=status,
        episodes=log.episodes,
        transitions=log.transitions,
        seconds=time.perf_counter() - began,
        states=log.states,
        actions=log.actions,
        bounds=bounds,
        diagnostics=diagnostics | {"held_out_likelihood": likelihood, "returned": chosen.name},
        assumptions=(*((CLASS,) if decoder is not None else ()), *_assumptions(how, rewards, assumed, bool(listed))),
        notes=log.notes,
    )


@dataclass(frozen=True, eq=False)
class _Chosen:
    name: str
    plan: CautiousPlan
    model: RecordedModel
    counts: counting.LogCounts


def reward_limits(log: EpisodeLog, given: tuple[float, float] | None) -> tuple[tuple[float, float], bool]:
    """What rewards lie in, and whether that is only assumed. It holds 0 where an episode may end early."""
    low, high = (float(log.reward.min()), float(log.reward.max())) if given is None else map(float, given)
    if given is not None:
        for end in given:
            checks.number(end, "reward_range")
        bad = np.flatnonzero((log.reward < low) | (log.reward > high))
        if low > high or bad.size:
            found = f"{log.reward[bad[0]]:g} in entry {bad[0]}" if bad.size else "its ends the wrong way round"
            raise InputError(f"reward_range = {low:g} {high:g}: must hold every reward of the log, found {found}")
    if bool((log.next_state == len(log.states)).any()):
        low, high = min(low, 0.0), max(high, 0.0)
    return (low, high), given is None


def return_limits(
    log: EpisodeLog, rewards: tuple[float, float], discount: float, given: tuple[float, float] | None
) -> tuple[float, float]:
    """What returns lie in: what H rewards can add up to, or what the user says."""
    scale = float((discount ** np.arange(log.horizon)).sum())
    low, high = rewards[0] * scale, rewards[1] * scale
    if given is None:
        return low, high
    low, high = max(low, checks.number(given[0], "return_range")), min(high, checks.number(given[1], "return_range"))
    found = log.returns(discount)[log.whole]
    if low > high or (found.size and (found.min() < low - 1e-9 or found.max() > high + 1e-9)):
        raise InputError(f"return_range = {given[0]:g} {given[1]:g}: must hold every return of the log")
    return low, high


def _upper(
    log: EpisodeLog,
    counts: counting.LogCounts,
    model: RecordedModel,
    up: Budgets,
    how: counting.Counting,
    order: np.ndarray,
    delta: float,
    allowed: tuple[np.ndarray, ...],
    tau: float,
    watch: Callable[[int], None],
) -> float:
    """What no policy's CVaR is above: on the same balls, with rewards rounded up where they are rounded."""
    if up is not counts.budgets:
        model = counting.every_law(counting.count(log, up, how, order), delta)
    return best_budget(model, least_shortfall(model, allowed, watch), tau)[1]


def _allowed(log: EpisodeLog) -> tuple[np.ndarray, ...]:
    pairs = len(log.states) * len(log.actions)
    mask = np.ones(pairs, dtype=bool) if log.admissible is None else log.admissible.ravel()
    return (mask,) * log.horizon


def _often(log: EpisodeLog, allowed: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Actions taken at least OFTEN times in their state, and the one taken most."""
    seen = seen_pairs(log)
    mask = (seen >= OFTEN) | (seen == seen.max(axis=1, keepdims=True))
    return tuple(mask.ravel() & one for one in allowed)


def _assumptions(how: counting.Counting, rewards: tuple[float, float], assumed: bool, listed: bool) -> tuple[str, ...]:
    lines = ["episodes are independent; the next state and the reward depend on state and action alone"]
    lines[0] += ", differently at every step" if how.by_step else ", in the same way at every step"
    if how.closed and not listed:
        lines.append("every state that can be met is in the log; --states unseen says otherwise")
    if assumed:
        lines.append(
            f"no reward lies outside [{rewards[0]:g}, {rewards[1]:g}], those of the log; --reward-range says otherwise"
        )
    return tuple(lines)


def _part(told: Watch, name: str, steps: int) -> Callable[[int], None]:
    return lambda h: told(name, (steps - h) / steps)


def _silent(name: str, share: float) -> None:
    """Tell nobody."""
