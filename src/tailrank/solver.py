"""`solve`: the policy with the best CVaR in a known finite MDP, with certified bounds.

If all rewards lie on one budget grid the answer is exact. Otherwise two inductions bracket it: rewards
rounded up give an upper bound on CVaR*, and the policy that is optimal for rewards rounded to the nearest
grid point, evaluated in the true MDP, gives a lower bound. The grid is refined until the bracket is as
narrow as asked, or until memory or time runs out; then the plan says so.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import overload

import numpy as np

from tailrank import bellman, checks
from tailrank.checks import InputError, NotConverged
from tailrank.evaluation import LISTED_LIMIT, Evaluation, return_law
from tailrank.grid import ROUNDING_SLACK, BudgetGrid, exact_grid, rounded_grid
from tailrank.mdp import FiniteMDP
from tailrank.plan import Plan, Reference, Status
from tailrank.planners.exact import Curve, Job, require_memory
from tailrank.planners.risk_neutral import risk_neutral
from tailrank.policy import BudgetPolicy, MarkovPolicy, Policy
from tailrank.rivals import replan

CRITERIA = ("cvar", "mean", "iterated", "chow")
PRODUCTS_A_SECOND = 5e8
"""A cautious guess at the speed of an induction, to tell beforehand whether it ends in time."""
FIRST_CELLS = 512
"""Budgets on the first, coarse grid of a bracketed solve."""


@overload
def solve(
    mdp: FiniteMDP,
    tau: float = ...,
    *,
    criterion: str = ...,
    tolerance: float | str = ...,
    unit: float | None = ...,
    memory: float | str = ...,
    seconds: float = ...,
) -> Plan: ...
@overload
def solve(
    mdp: FiniteMDP,
    tau: Sequence[float],
    *,
    criterion: str = ...,
    tolerance: float | str = ...,
    unit: float | None = ...,
    memory: float | str = ...,
    seconds: float = ...,
) -> tuple[Plan, ...]: ...
def solve(
    mdp: FiniteMDP,
    tau: float | Sequence[float] = 0.1,
    *,
    criterion: str = "cvar",
    tolerance: float | str = "1%",
    unit: float | None = None,
    memory: float | str = "4GB",
    seconds: float = 60.0,
) -> Plan | tuple[Plan, ...]:
    """The plan for `tau` (or a tuple of plans, for several, at the cost of one).

    criterion: "cvar" (the best static CVaR), or for comparison "mean", "iterated" (nested CVaR) or "chow"
    (Chow et al. 2015, whose own value overestimates).
    tolerance: the widest bracket allowed when the answer is not exact, in reward units or as "1%" of |CVaR|.
    unit: a fixed grid spacing in place of the automatic one. memory, seconds: limits on refinement.

    >>> from tailrank import FiniteMDP, solve
    >>> mdp = FiniteMDP.from_rows([0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 0.9, 0.1], [1, 2, -5], horizon=1)
    >>> plan = solve(mdp, tau=0.2)
    >>> plan.cvar, plan.risk_neutral.cvar
    (1.0, -1.5)
    """
    began = time.perf_counter()
    levels = checks.tail_levels(tau)
    checks.one_of(criterion, "criterion", CRITERIA)
    limits = Limits(tolerance_of(tolerance), bytes_of(memory), checks.number(seconds, "seconds"), began)
    problem = Problem.of(mdp)
    fixed = None if unit is None else checks.number(unit, "unit")
    if fixed is not None and fixed <= 0:
        raise InputError(f"unit = {unit}: must be positive")
    plans = _plan_cvar(problem, levels, limits, fixed)
    unfinished = {line for p in plans for line in p.notes}
    if criterion != "cvar":
        plans = replan(criterion, problem.mdp, plans)
    finished = time.perf_counter() - began
    plans = tuple(replace(p, seconds=finished) for p in plans)
    for line in unfinished:
        warnings.warn(line, NotConverged, stacklevel=2)
    return plans[0] if np.ndim(tau) == 0 else plans


@dataclass(frozen=True)
class Limits:
    """When to stop refining: tolerance is (absolute, relative to |CVaR|), one of them zero."""

    tolerance: tuple[float, float]
    bytes: int
    seconds: float
    began: float

    def allowed(self, lower: float, upper: float) -> float:
        """The widest bracket allowed around a CVaR in [lower, upper]."""
        nearest_to_zero = 0.0 if lower <= 0 <= upper else min(abs(lower), abs(upper))
        return max(self.tolerance[0], self.tolerance[1] * nearest_to_zero)

    def left(self) -> float:
        """Seconds left."""
        return self.seconds - (time.perf_counter() - self.began)


@dataclass(frozen=True)
class Problem:
    """An MDP with what every pass over it shares."""

    mdp: FiniteMDP
    met: np.ndarray
    mean_policy: MarkovPolicy
    mean: float
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, mdp: FiniteMDP) -> Problem:
        """Reachable states, the risk-neutral policy, and the range of returns, for `mdp`."""
        mdp = mdp.merged()
        policy, values = risk_neutral(mdp)
        low, high = bellman.return_ranges(mdp)
        return cls(mdp, bellman.reachable(mdp), policy, float(mdp.start @ values[0]), low, high)

    @property
    def width(self) -> float:
        """Largest minus smallest possible return."""
        states = self.mdp.start > 0
        return float(self.high[0][states].max() - self.low[0][states].min())

    def lattice(self) -> BudgetGrid | None:
        """The grid on which the rewards lie, if there is one."""
        mdp = self.mdp
        rewards = []
        for b in range(mdp.n_blocks):
            met = self.met[b] if mdp.n_blocks > 1 else self.met[:-1].any(axis=0)
            ptr, _, _, reward = mdp.rows(b)
            rewards.append(reward[np.repeat(met, np.diff(ptr[:: mdp.n_actions]))])
        return exact_grid(rewards, mdp.horizon, mdp.discount)

    def grid(self, unit: float, rounding: str) -> BudgetGrid:
        """A grid of this spacing on which the most frequent reward is free of rounding."""
        values, where = np.unique(self.mdp.reward, return_inverse=True)
        usual = values[np.argmax(np.bincount(where, weights=self.mdp.prob))]
        return rounded_grid(unit, float(usual), self.mdp.horizon, self.mdp.discount, rounding)  # type: ignore[arg-type]


def _plan_cvar(problem: Problem, levels: tuple[float, ...], limits: Limits, unit: float | None) -> tuple[Plan, ...]:
    lattice = problem.lattice() if unit is None else None
    if lattice is not None:
        job = Job(problem.mdp, lattice, bellman.layout(problem.mdp, lattice, problem.met), keep_actions=True)
        if job.bytes <= limits.bytes and job.layout.products <= _affordable(problem.mdp, limits):
            return _exact_plans(problem, levels, job)
    return _bracketed_plans(problem, levels, limits, unit)


def _affordable(mdp: FiniteMDP, limits: Limits) -> float:
    """Products an exact induction may take: an exact grid of a discounted MDP is never asked for, only cheap."""
    return PRODUCTS_A_SECOND * (limits.seconds if mdp.discount == 1.0 else 0.1)


def _exact_plans(problem: Problem, levels: tuple[float, ...], job: Job) -> tuple[Plan, ...]:
    curve, policy = job.run(problem.mean_policy.actions)
    plays = [policy.with_budget(curve.index[curve.best(tau)]) for tau in levels]  # type: ignore[union-attr]
    laws = bellman.together(
        [partial(return_law, play, problem.mdp, job.grid) for play in (problem.mean_policy, *plays)]
    )
    plans = []
    for tau, play, evaluation in zip(levels, plays, laws[1:], strict=True):
        value = evaluation.cvar(tau)
        plans.append(_plan(problem, tau, play, evaluation, laws[0], curve, (value, value), "exact", ()))
    return tuple(plans)


def _plan(
    problem: Problem, tau: float, policy: Policy, evaluation: Evaluation, neutral: Evaluation, curve: Curve,
    bounds: tuple[float, float], status: Status, notes: tuple[str, ...],
) -> Plan:  # fmt: skip
    return Plan(
        tau=tau,
        criterion="cvar",
        policy=policy,
        budget=policy.start_budget if isinstance(policy, BudgetPolicy) else None,
        cvar=evaluation.cvar(tau),
        lower=bounds[0],
        upper=bounds[1],
        var=evaluation.var(tau),
        mean=evaluation.mean,
        risk_neutral=Reference(problem.mean_policy, problem.mean, neutral.cvar(tau)),
        evaluation=evaluation,
        curve=curve,
        status=status,
        seconds=0.0,
        notes=notes,
    )


@dataclass
class Bracket:
    """The best bounds so far at one tau."""

    tau: float
    lower: float = -np.inf
    upper: float = np.inf
    policy: BudgetPolicy | None = None
    evaluation: Evaluation | None = None


def _bracketed_plans(
    problem: Problem, levels: tuple[float, ...], limits: Limits, unit: float | None
) -> tuple[Plan, ...]:
    brackets = [Bracket(tau) for tau in levels]
    spacing = unit if unit is not None else (problem.width or 1.0) / FIRST_CELLS
    found: Found | None = None
    note = ""
    while True:
        started = time.perf_counter()
        jobs = _jobs(problem, spacing, found)
        for job in jobs:
            require_memory(job, limits.bytes)
        found = _pass(problem, jobs, brackets, found)
        took = time.perf_counter() - started
        excess = max((b.upper - b.lower) / max(limits.allowed(b.lower, b.upper), 1e-300) for b in brackets)
        if unit is not None or excess <= 1.0:
            break
        spacing, note = _refine(problem, found, spacing, excess, took, limits)
        if note:
            break
    notes = (note,) if note else ()
    return tuple(
        _plan(
            problem, b.tau, b.policy, b.evaluation, found.neutral, found.curve, (b.lower, b.upper),  # type: ignore[arg-type]
            "bracketed", notes,
        )
        for b in brackets
    )  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What a pass hands to the next: the optimistic curve so far, the largest budget that may still be the
    best one, the law of the risk-neutral policy, and whether laws may be short enough to list."""

    curve: Curve
    most: float
    neutral: Evaluation
    listed_limit: int


COARSER = 4
"""Spacing of the policy's grid over that of the bound's: the policy's error is of second order."""


def _jobs(problem: Problem, spacing: float, found: Found | None) -> tuple[Job, Job]:
    """The two inductions of a pass: rewards rounded up (bound), rewards rounded to the nearest (policy)."""
    mdp = problem.mdp
    up, nearest = problem.grid(spacing, "up"), problem.grid(spacing * (COARSER if found else 1), "nearest")
    stop = _stop(problem, spacing)
    offset = float(sum(up.origin[stop:], start=Fraction(0)))
    terminal = np.ceil((problem.high[stop] - offset) / spacing - ROUNDING_SLACK)
    most = None if found is None else math.ceil((found.most - float(up.offset)) / spacing) + 1
    bound = bellman.layout(mdp, up, problem.met[: stop + 1], terminal, narrow=True, most=most)
    return Job(mdp, up, bound, keep_actions=False), Job(
        mdp, nearest, bellman.layout(mdp, nearest, problem.met), keep_actions=True
    )


def _stop(problem: Problem, spacing: float) -> int:
    """Where to stop rounding up step by step and grant the most that is left: the cheaper of the two errors."""
    H = problem.mdp.horizon
    left = np.where(problem.met, problem.high - problem.low, 0.0).max(axis=1)
    return 1 + int(np.argmin((left + 0.5 * spacing * np.arange(H + 1))[1:]))


def _pass(problem: Problem, jobs: tuple[Job, Job], brackets: list[Bracket], found: Found | None) -> Found:
    """Run both inductions and tighten every bracket."""
    optimistic, _ = jobs[0].run(problem.mean_policy.actions)
    curve, policy = jobs[1].run(problem.mean_policy.actions)
    limit = LISTED_LIMIT if found is None else found.listed_limit
    plays = [policy.with_budget(curve.index[curve.best(b.tau)]) for b in brackets]  # type: ignore[union-attr]
    neutral, *laws = bellman.together(
        [partial(return_law, play, problem.mdp, jobs[1].grid, limit) for play in (problem.mean_policy, *plays)]
    )
    slack = ROUNDING_SLACK * (jobs[0].grid.horizon + 1) * float(jobs[0].grid.unit)
    most = -np.inf
    for bracket, play, evaluation in zip(brackets, plays, laws, strict=True):
        tau = bracket.tau
        objective = optimistic.objective(tau) + slack
        bracket.upper = min(bracket.upper, float(objective.max()), problem.mean)
        limit = limit if evaluation.exact else 0
        if neutral.cvar(tau) > evaluation.cvar(tau):
            # From the largest budget on, the tables hold the risk-neutral actions throughout.
            play, evaluation = policy.with_budget(curve.index[-1]), neutral  # type: ignore[union-attr]
        if evaluation.cvar(tau) > bracket.lower:
            bracket.lower, bracket.policy, bracket.evaluation = evaluation.cvar(tau), play, evaluation
        bracket.upper = max(bracket.upper, bracket.lower)
        if tau < 1.0:
            most = max(most, float(optimistic.budget[objective >= bracket.lower].max(initial=-np.inf)))
    most = max(most, float(optimistic.budget[0])) if np.isfinite(most) else float(optimistic.budget[-1])
    return Found(found.curve.refined(optimistic) if found else optimistic, most, neutral, limit)


def _refine(
    problem: Problem, found: Found, spacing: float, excess: float, took: float, limits: Limits
) -> tuple[float, str]:
    """The next spacing, or why there is none."""
    finer = spacing * min(0.5, max(0.8 / excess, 1 / 64))
    while True:
        jobs = _jobs(problem, finer, found)
        growth = spacing / finer
        if max(job.bytes for job in jobs) <= limits.bytes and took * growth <= limits.left():
            return finer, ""
        if growth < 1.5:
            break
        finer = spacing / max(1.4, growth / 2)
    what = "memory" if max(job.bytes for job in jobs) > limits.bytes else "time"
    amount = f"{limits.bytes / 2**30:.3g} GB" if what == "memory" else f"{limits.seconds:g} s"
    return spacing, (
        f"the bracket is {excess:.3g} times as wide as the tolerance: "
        f"the {what} limit of {amount} was reached; "
        f"raise --{'memory' if what == 'memory' else 'seconds'} or --tolerance"
    )


def tolerance_of(tolerance: float | str) -> tuple[float, float]:
    """(absolute, relative) from a number or a percentage such as "1%"."""
    text = str(tolerance).strip()
    relative = text.endswith("%")
    value = checks.number(text.removesuffix("%"), "tolerance") / (100 if relative else 1)
    if value <= 0:
        raise InputError(f"tolerance = {tolerance}: must be positive")
    return (0.0, value) if relative else (value, 0.0)


def bytes_of(memory: float | str) -> int:
    """Bytes from a number or a text such as "500MB"."""
    text = str(memory).strip().upper().removesuffix("B")
    scale = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}.get(text[-1:], 0)
    value = checks.number(text[:-1] if scale else text, "memory") * (scale or 1)
    if value <= 0:
        raise InputError(f"memory = {memory}: must be positive")
    return int(value)
