"""Brackets on CVaR* when rewards do not lie on a grid: refine until they are narrow enough.

A pass at some spacing runs two inductions. Rewards rounded *up* give an upper bound on CVaR*. The policy
that is optimal for rewards rounded to the *nearest* grid point is evaluated in the true MDP, which gives a
lower bound whose error is of second order, so its grid may be coarser. Each pass also tells the next one
which starting budgets can still be the best; larger ones are left out.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from tailrank._system.parallel import together
from tailrank.checks import InputError
from tailrank.models.grid import LARGEST_LEVEL, ROUNDING_SLACK, BudgetGrid, Rounding, exact_grid, rounded_grid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.criteria.mean import risk_neutral
from tailrank.planning.exact import induction
from tailrank.planning.exact.curve import Curve, InductionRequest, require_memory
from tailrank.planning.exact.return_law import LISTED_LIMIT, Evaluation, return_law
from tailrank.policies.tables import BudgetPolicy, MarkovPolicy

FIRST_CELLS = 512
"""Budgets on the first, coarse grid of a bracketed solve."""

PRODUCTS_A_SECOND = 1e9
"""A cautious guess at the speed of an induction, to tell beforehand whether it ends in time."""


@dataclass(frozen=True)
class Limits:
    """When to stop refining: tolerance is (absolute, relative to |CVaR|), one of them zero.

    A CVaR near zero would make a relative tolerance impossible: it never asks for less than that fraction of
    a hundredth of the range of returns.
    """

    tolerance: tuple[float, float]
    bytes: int
    seconds: float
    began: float

    def allowed(self, lower: float, upper: float, width: float) -> float:
        """The widest bracket allowed around a CVaR in [lower, upper], for returns in a range of this width."""
        nearest_to_zero = 0.0 if lower <= 0 <= upper else min(abs(lower), abs(upper))
        return max(self.tolerance[0], self.tolerance[1] * max(nearest_to_zero, 0.01 * width))

    def left(self) -> float:
        """Seconds left."""
        return self.seconds - (time.perf_counter() - self.began)


@dataclass(frozen=True)
class SolveContext:
    """An MDP with what every pass over it shares."""

    mdp: FiniteMDP
    met: np.ndarray
    mean_policy: MarkovPolicy
    neutral: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, mdp: FiniteMDP) -> SolveContext:
        """Reachable states, the risk-neutral policy, and the range of returns, for `mdp`."""
        mdp = mdp.merged()
        policy, values = risk_neutral(mdp)
        low, high = induction.return_ranges(mdp)
        return cls(mdp, induction.reachable(mdp), policy, values, low, high)

    @property
    def mean(self) -> float:
        """The best mean; `neutral` [H + 1, S] has it from every step and state on."""
        return float(self.mdp.start @ self.neutral[0])

    @property
    def width(self) -> float:
        """Largest minus smallest possible return."""
        states = self.mdp.start > 0
        return float(self.high[0][states].max() - self.low[0][states].min())

    @cached_property
    def steps(self) -> tuple[np.ndarray, float, float]:
        """The usual reward of each step [H], how far any is from it, and the largest in size; all discounted.

        The usual one is the most frequent, unless a step pays nothing near it: then it is the nearest that the step
        pays, so that steps with very different rewards do not cost each other digits. Only of states that can be met.
        """
        mdp, origin = self.mdp, np.empty(self.mdp.horizon)
        values, where = np.unique(mdp.reward, return_inverse=True)
        usual = float(values[np.argmax(np.bincount(where, weights=mdp.prob))])
        reach = largest = 0.0
        known: dict[tuple[int, bytes], tuple[float, float]] = {}
        for h in range(mdp.horizon):
            key = (h if mdp.n_blocks > 1 else 0, self.met[h].tobytes())
            if key not in known:
                reward = mdp.rows(h)[3][np.repeat(self.met[h], mdp.rows_of_states(h))]
                known[key] = float(reward.min()), float(reward.max())
            low, high = known[key]
            factor = mdp.discount**h
            nearest = min(max(usual, low), high)
            own = usual if abs(usual - nearest) <= self.width else nearest
            origin[h] = own * factor
            reach = max(reach, abs(high - own) * factor, abs(own - low) * factor)
            largest = max(largest, abs(low), abs(high), abs(own))
        return origin, reach, largest

    @property
    def reach(self) -> float:
        """What a grid must cover: the width of returns, or of the rewards of a step where these cancel."""
        return max(self.width, self.steps[1])

    @property
    def rounding(self) -> float:
        """What floating-point arithmetic may add to, or take off, a return."""
        largest = max(self.steps[2], *(float(np.abs(x[self.met]).max()) for x in (self.low, self.high)))
        return 4.0 * float(np.finfo(np.float64).eps) * (self.mdp.horizon + 1) * largest

    def lattice(self) -> BudgetGrid | None:
        """The grid on which the rewards lie, if there is one."""
        mdp = self.mdp
        rewards = []
        for b in range(mdp.n_blocks):
            met = self.met[b] if mdp.n_blocks > 1 else self.met[:-1].any(axis=0)
            ptr, _, _, reward = mdp.rows(b)
            rewards.append(reward[np.repeat(met, np.diff(ptr[:: mdp.n_actions]))])
        return exact_grid(rewards, mdp.horizon, mdp.discount)

    def grid(self, unit: float, rounding: Rounding) -> BudgetGrid:
        """A grid of this spacing on which the usual reward of every step is free of rounding."""
        return rounded_grid(unit, self.steps[0], self.mdp.discount, rounding)


@dataclass
class Bracket:
    """The best bounds so far at one tau."""

    tau: float
    lower: float = -np.inf
    upper: float = np.inf
    found: tuple[BudgetPolicy, Evaluation] | None = None

    @property
    def best(self) -> tuple[BudgetPolicy, Evaluation]:
        """The policy that attains the lower bound, and its evaluation."""
        if self.found is None:
            raise RuntimeError("no pass has been run")
        return self.found


def refine_brackets(
    problem: SolveContext, levels: tuple[float, ...], limits: Limits, unit: float | None, undominated: bool = True
) -> tuple[list[Bracket], Found, str]:
    """A bracket for each level, what the last pass found, and why refinement stopped early (or nothing)."""
    brackets = [Bracket(tau) for tau in levels]
    spacing = unit if unit is not None else (problem.reach or 1.0) / FIRST_CELLS
    if problem.reach / spacing > LARGEST_LEVEL:
        raise InputError(
            f"unit = {spacing:g}: is too small for rewards and returns that spread over {problem.reach:g}; "
            f"at most {LARGEST_LEVEL} units are possible"
        )
    found: Found | None = None
    note = ""
    while True:
        started = time.perf_counter()
        jobs = _jobs(problem, spacing, found, undominated)
        for job in jobs:
            require_memory(job, limits.bytes)
        found = _pass(problem, jobs, brackets, found)
        took = time.perf_counter() - started
        excess = max(
            (b.upper - b.lower) / max(limits.allowed(b.lower, b.upper, problem.width), 1e-300) for b in brackets
        )
        if unit is not None or excess <= 1.0:
            break
        spacing, note = _refine(problem, found, spacing, excess, took, limits, undominated)
        if note:
            break
    return brackets, found, note


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


def _jobs(
    problem: SolveContext, spacing: float, found: Found | None, undominated: bool
) -> tuple[InductionRequest, InductionRequest]:
    """The two inductions of a pass: rewards rounded up (bound), rewards rounded to the nearest (policy)."""
    mdp = problem.mdp
    up, nearest = problem.grid(spacing, "up"), problem.grid(spacing * (COARSER if found else 1), "nearest")
    stop = _stop(problem, spacing)
    offset = float(sum(up.origin[stop:], start=Fraction(0)))
    terminal = np.ceil((problem.high[stop] - offset) / spacing - ROUNDING_SLACK)
    terminal = np.where(problem.met[stop], terminal, 0.0)
    most = None if found is None else math.ceil((found.most - float(up.offset)) / spacing) + 1
    bound = induction.layout(mdp, up, problem.met[: stop + 1], terminal, narrow=True, most=most)
    return InductionRequest(mdp, up, bound, keep_actions=False), InductionRequest(
        mdp,
        nearest,
        induction.layout(mdp, nearest, problem.met),
        keep_actions=True,
        neutral=problem.neutral if undominated else None,
    )


def _stop(problem: SolveContext, spacing: float) -> int:
    """Where to stop rounding up step by step and grant the most that is left: the cheaper of the two errors."""
    H = problem.mdp.horizon
    left = np.where(problem.met, problem.high - problem.low, 0.0).max(axis=1)
    return 1 + int(np.argmin((left + 0.5 * spacing * np.arange(H + 1))[1:]))


def _pass(
    problem: SolveContext, jobs: tuple[InductionRequest, InductionRequest], brackets: list[Bracket], found: Found | None
) -> Found:
    """Run both inductions and tighten every bracket."""
    optimistic, _ = jobs[0].run(problem.mean_policy.actions)
    rounding = problem.rounding
    slack = ROUNDING_SLACK * (jobs[0].grid.horizon + 1) * float(jobs[0].grid.unit) + rounding
    optimistic = replace(optimistic, budget=optimistic.budget + slack, above=optimistic.above + slack)
    curve, policy = jobs[1].run(problem.mean_policy.actions)
    limit = LISTED_LIMIT if found is None else found.listed_limit
    plays = [policy.with_budget(curve.index[curve.best(b.tau)]) for b in brackets]  # type: ignore[union-attr]
    neutral, *laws = together(
        [partial(return_law, play, problem.mdp, jobs[1].grid, limit) for play in (problem.mean_policy, *plays)]
    )
    most = -np.inf
    for bracket, play, evaluation in zip(brackets, plays, laws, strict=True):
        tau = bracket.tau
        objective = optimistic.objective(tau)
        bracket.upper = min(bracket.upper, float(objective.max()), problem.mean + rounding)
        limit = limit if evaluation.exact else 0
        if neutral.cvar(tau) > evaluation.cvar(tau):
            # From the largest budget on, the tables hold the risk-neutral actions throughout.
            play, evaluation = policy.with_budget(curve.index[-1]), neutral  # type: ignore[union-attr]
        if evaluation.cvar(tau) > bracket.lower:
            bracket.lower, bracket.found = evaluation.cvar(tau), (play, evaluation)
        bracket.upper = max(bracket.upper, bracket.lower)
        if tau < 1.0:
            most = max(most, float(optimistic.budget[objective >= bracket.lower].max(initial=-np.inf)))
    most = max(most, float(optimistic.budget[0])) if np.isfinite(most) else float(optimistic.budget[-1])
    return Found(found.curve.refined(optimistic) if found else optimistic, most, neutral, limit)


def _refine(
    problem: SolveContext,
    found: Found,
    spacing: float,
    excess: float,
    took: float,
    limits: Limits,
    undominated: bool,
) -> tuple[float, str]:
    """The next spacing, or why there is none."""
    if problem.reach / spacing > LARGEST_LEVEL / 2:
        return spacing, (
            f"the bracket is {excess:.3g} times as wide as the tolerance: rewards spread over {problem.reach:.3g}, "
            "and floating-point numbers have no digits left for a finer grid; raise --tolerance"
        )
    finer = max(spacing * min(0.5, max(0.8 / excess, 1 / 64)), problem.reach / LARGEST_LEVEL)
    while True:
        jobs = _jobs(problem, finer, found, undominated)
        growth = spacing / finer
        # The last pass may have spent its time compiling: what is cheap by any measure is not refused for that.
        expected = min(took * growth, sum(job.layout.products for job in jobs) / PRODUCTS_A_SECOND)
        if max(job.bytes for job in jobs) <= limits.bytes and expected <= limits.left():
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
