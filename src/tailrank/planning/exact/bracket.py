"""Brackets on CVaR* when rewards do not lie on a grid: refine until they are narrow enough.

A pass at some spacing runs two inductions. Rewards rounded *up* give an upper bound on CVaR*. The policy
that is optimal for rewards rounded to the *nearest* grid point is evaluated in the true MDP, which gives a
lower bound whose error is of second order, so its grid may be coarser. Each pass also tells the next one
which starting budgets can still be the best; larger ones are left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from tailrank._system.parallel import run_together
from tailrank.checks import InputError
from tailrank.models.grid import LARGEST_LEVEL, ROUNDING_SLACK
from tailrank.planning.exact import induction
from tailrank.planning.exact.context import SolveContext
from tailrank.planning.exact.curve import Curve, InductionRequest, require_memory
from tailrank.planning.exact.limits import Limits, OutOfTime, unlimited
from tailrank.planning.exact.return_law import LISTED_LIMIT, Evaluation, return_law
from tailrank.policies.tables import BudgetPolicy

FIRST_CELLS = 512
"""Budgets on the first, coarse grid of a bracketed solve."""

FEWEST_CELLS = 16
"""Budgets on it where time is short."""

LAW_PRODUCTS = 20.0
"""What an outcome costs in the law of a rounded return, in products of an induction."""

PRODUCTS_A_SECOND = 3e8
"""A cautious guess at the speed of an induction, to tell beforehand whether a pass ends in time."""


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
    problem: SolveContext, levels: tuple[float, ...], limits: Limits, unit: float | None
) -> tuple[list[Bracket], Found, str]:
    """A bracket for each level, what the last whole pass found, and why refinement stopped early (or nothing).

    The first pass is run whatever it takes: without it there is no bracket.
    """
    brackets = [Bracket(tau) for tau in levels]
    spacing = unit if unit is not None else _first_spacing(problem, limits)
    if problem.reach / spacing > LARGEST_LEVEL:
        raise InputError(
            f"unit = {spacing:g}: is too small for rewards and returns that spread over {problem.reach:g}; "
            f"at most {LARGEST_LEVEL} units are possible"
        )
    jobs = _jobs(problem, spacing, None)
    for job in jobs:
        require_memory(job, job.bytes, limits.bytes)
    started = time.perf_counter()
    found = _pass(problem, jobs, brackets, None, unlimited)
    while unit is None and (excess := _excess(problem, brackets, limits)) > 1.0:
        took = time.perf_counter() - started
        finer, why = _refine(problem, found, spacing, (jobs, took), excess, limits)
        if finer is None:
            return brackets, found, _too_wide(excess, why)
        jobs, started = _jobs(problem, finer, found), time.perf_counter()
        try:
            found = _pass(problem, jobs, brackets, found, limits.check)
        except OutOfTime:
            excess = _excess(problem, brackets, limits)
            return brackets, found, _too_wide(excess, f"a pass was broken off at {_limit('time', limits)}")
        spacing = finer
    return brackets, found, ""


def _excess(problem: SolveContext, brackets: list[Bracket], limits: Limits) -> float:
    """How many times as wide as allowed the widest bracket is."""
    return max((b.upper - b.lower) / max(limits.allowed(b.lower, b.upper, problem.width), 1e-300) for b in brackets)


def _first_spacing(problem: SolveContext, limits: Limits) -> float:
    """The spacing of the first pass: `FIRST_CELLS`, or fewer where these would take most of the time."""
    cells = FIRST_CELLS
    while cells > FEWEST_CELLS:
        if _work(_jobs(problem, (problem.reach or 1.0) / cells, None)) / PRODUCTS_A_SECOND <= 0.5 * limits.seconds:
            break
        cells //= 2
    return (problem.reach or 1.0) / cells


def _work(jobs: tuple[InductionRequest, InductionRequest]) -> float:
    """The cost of a pass in products: its inductions, and the law of the policy."""
    bound, policy = (job.layout.products for job in jobs)
    return bound + policy + LAW_PRODUCTS * policy / jobs[1].mdp.n_actions


@dataclass(frozen=True)
class Found:
    """What a pass hands to the next: the optimistic curve so far, the largest budget (above the grid's offset) that
    may still be the best one, the law of the risk-neutral policy, and whether laws may be short enough to list."""

    curve: Curve
    most: float
    neutral: Evaluation
    listed_limit: int


CAUTION = 2.0
"""How much longer than in proportion a pass may take: large tables are slower than small ones."""

COARSER = 4
"""Spacing of the policy's grid over that of the bound's: the policy's error is of second order."""


def _jobs(problem: SolveContext, spacing: float, found: Found | None) -> tuple[InductionRequest, InductionRequest]:
    """The two inductions of a pass: rewards rounded up (bound), rewards rounded to the nearest (policy)."""
    mdp = problem.mdp
    up, nearest = problem.grid(spacing, "up"), problem.grid(spacing * (COARSER if found else 1), "nearest")
    stop = _stop(problem, spacing)
    offset = float(sum(up.origin[stop:], start=Fraction(0)))
    terminal = np.ceil((problem.high[stop] - offset) / spacing - ROUNDING_SLACK)
    terminal = np.where(problem.met[stop], terminal, 0.0)
    most = None if found is None else math.ceil(min(found.most / spacing, 4.0 * LARGEST_LEVEL)) + 1
    bound = induction.layout(mdp, up, problem.met[: stop + 1], terminal, narrow=True, most=most)
    return InductionRequest(mdp, up, bound, keep_actions=False, most=most), InductionRequest(
        mdp, nearest, induction.layout(mdp, nearest, problem.met), keep_actions=True, neutral=problem.ties
    )


def _stop(problem: SolveContext, spacing: float) -> int:
    """Where to stop rounding up step by step and grant the most that is left: the cheaper of the two errors."""
    H = problem.mdp.horizon
    left = np.where(problem.met, problem.high - problem.low, 0.0).max(axis=1)
    return 1 + int(np.argmin((left + 0.5 * spacing * np.arange(H + 1))[1:]))


def _pass(
    problem: SolveContext,
    jobs: tuple[InductionRequest, InductionRequest],
    brackets: list[Bracket],
    found: Found | None,
    check: Callable[[], None],
) -> Found:
    """Run both inductions and tighten every bracket; `check` may end it early, with upper bounds tightened or not."""
    optimistic, _ = jobs[0].run(problem.mean_policy.actions, check)
    rounding = problem.rounding
    slack = ROUNDING_SLACK * (jobs[0].grid.horizon + 1) * float(jobs[0].grid.unit) + rounding
    optimistic = replace(optimistic, budget=optimistic.budget + slack, above=optimistic.above + slack)
    for bracket in brackets:
        bracket.upper = min(bracket.upper, problem.mean + rounding)
        if bracket.tau < 1.0:
            bracket.upper = max(bracket.lower, min(bracket.upper, float(optimistic.objective(bracket.tau).max())))
    curve, policy = jobs[1].run(problem.mean_policy.actions, check)
    limit = LISTED_LIMIT if found is None else found.listed_limit
    plays = [policy.with_budget(curve.index[curve.best(b.tau)]) for b in brackets]  # type: ignore[union-attr]
    neutral, *laws = run_together(
        [partial(return_law, play, problem.mdp, jobs[1].grid, limit, check) for play in (problem.mean_policy, *plays)]
    )
    most = -np.inf
    for bracket, play, evaluation in zip(brackets, plays, laws, strict=True):
        tau = bracket.tau
        limit = limit if evaluation.exact else 0
        if neutral.cvar(tau) > evaluation.cvar(tau):
            # From the largest budget on, the tables hold the risk-neutral actions throughout.
            play, evaluation = policy.with_budget(curve.index[-1]), neutral  # type: ignore[union-attr]
        if evaluation.cvar(tau) > bracket.lower:
            bracket.lower, bracket.found = evaluation.cvar(tau), (play, evaluation)
        bracket.upper = max(bracket.upper, bracket.lower)
        if tau < 1.0:
            # The maximum may lie between two budgets, the first of which reaches the lower bound and the second not.
            reaching = np.flatnonzero(optimistic.objective(tau) >= bracket.lower)
            last = int(reaching[-1]) + 1 if reaching.size else 0
            most = max(most, float(optimistic.above[min(last, optimistic.above.size - 1)]))
    most = most if np.isfinite(most) else float(optimistic.above[-1])
    return Found(found.curve.refined(optimistic) if found else optimistic, most, neutral, limit)


def _refine(
    problem: SolveContext,
    found: Found,
    spacing: float,
    last: tuple[tuple[InductionRequest, InductionRequest], float],
    excess: float,
    limits: Limits,
) -> tuple[float | None, str]:
    """The next spacing, or None and why there is none. last: the jobs of the last pass, and the seconds it took."""
    if problem.reach / spacing > LARGEST_LEVEL / 2:
        return None, (
            f"rewards spread over {problem.reach:.3g}, and floating-point numbers have no digits left for a "
            "finer grid; raise tolerance=..."
        )
    finer = max(spacing * min(0.5, max(0.8 / excess, 1 / 64)), problem.reach / LARGEST_LEVEL)
    while True:
        jobs = _jobs(problem, finer, found)
        growth = spacing / finer
        # The last pass may have spent its time compiling: what is cheap by any measure is not refused for that.
        work = _work(jobs)
        expected = min(CAUTION * last[1] * work / max(_work(last[0]), 1.0), work / PRODUCTS_A_SECOND)
        if max(job.bytes for job in jobs) <= limits.bytes and expected <= limits.left():
            return finer, ""
        if growth < 1.5:
            break
        finer = spacing / max(1.4, growth / 2)
    what = "memory" if max(job.bytes for job in jobs) > limits.bytes else "time"
    return None, f"a finer grid would exceed {_limit(what, limits)}"


def _too_wide(excess: float, why: str) -> str:
    return f"the bracket is {excess:.3g} times as wide as the tolerance: {why}" if excess > 1.0 else ""


def _limit(what: str, limits: Limits) -> str:
    amount, option = (
        (f"{limits.bytes / 2**30:.3g} GB", "memory") if what == "memory" else (f"{limits.seconds:g} s", "seconds")
    )
    return f"the {what} limit of {amount}; raise {option}=... or tolerance=..."
