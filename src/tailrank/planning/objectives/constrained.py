"""The best mean subject to a floor under the tail, or to a cap on the chance of falling below a target.

    max E R  subject to  CVaR_tau(R) >= k            (`Floor`)
    max E R  subject to  P(R < c) <= p               (`Cap`)

The best answer may be a mixture of two plans, one of which is drawn once, at the start. `multiplier` is the price of
the bound: what the mean gains for each unit by which the bound is loosened. No policy exceeds `upper`;
`upper - mean` is the duality gap. Where no policy obeys the bound, the answer is the policy that comes nearest to it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact.context import SolveContext
from tailrank.planning.exact.limits import Limits
from tailrank.planning.exact.return_law import return_law
from tailrank.planning.objectives.engine import GridEngine
from tailrank.planning.objectives.trade import TradeOff
from tailrank.policies.tables import BudgetPolicy, MixedPolicy
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.target import Target

MOST = 60
"""Inductions for one bound."""


@dataclass(frozen=True)
class Floor:
    """CVaR_tau of the return must be at least `least`."""

    tau: float
    least: float

    def __post_init__(self) -> None:
        checks.tail_level(self.tau)
        checks.number(self.least, "the floor")

    def __str__(self) -> str:
        """As on the command line."""
        return f"cvar:{self.tau:g}>={self.least:g}"

    def measure(self, law: ReturnLaw) -> float:
        """What is bounded."""
        return law.cvar(self.tau)


@dataclass(frozen=True)
class Cap:
    """The probability of a return below `target` must be at most `most`."""

    target: float
    most: float

    def __post_init__(self) -> None:
        checks.number(self.target, "the target")
        checks.inside(self.most, "the probability", "[0, 1]")

    def __str__(self) -> str:
        """As on the command line."""
        return f"below:{self.target:g}<={self.most:g}"

    def measure(self, law: ReturnLaw) -> float:
        """What is bounded."""
        return 1.0 - Target(self.target).of_law(law)


@dataclass(frozen=True)
class ConstrainedPlan:
    """The plan: `first` is played with probability `share`, `second` otherwise; drawn once, at the start.

    mean, bounded: of the mixture (its CVaR, or its chance of falling short). upper: no policy that obeys the bound has
    a larger mean. feasible: whether any policy obeys it; if none does, the plan is that which comes nearest. exact:
    whether `bounded` and `law` are; if not, rewards were rounded, and `bounded` is certain (`off_grid.py`). undecided:
    whether rounding hides if any policy obeys the bound.
    """

    subject_to: Floor | Cap
    first: BudgetPolicy
    second: BudgetPolicy
    share: float
    mean: float
    bounded: float
    upper: float
    multiplier: float
    feasible: bool
    law: ReturnLaw
    seconds: float
    exact: bool = True
    undecided: bool = False

    @property
    def policy(self) -> BudgetPolicy | MixedPolicy:
        """What is played: one policy, or a mixture that draws one of two at the start of every episode."""
        return self.first if self.share >= 1.0 else MixedPolicy(self.first, self.second, self.share)

    @property
    def gap(self) -> float:
        """The duality gap."""
        return max(self.upper - self.mean, 0.0)

    def as_dict(self) -> dict[str, object]:
        """The numbers, as the command line prints them."""
        return {
            "subject_to": str(self.subject_to),
            "feasible": self.feasible,
            "mean": self.mean,
            "bounded": self.bounded,
            "upper": self.upper,
            "gap": self.gap,
            "multiplier": self.multiplier if self.feasible else None,
            "share": self.share,
            "budget": [p.start_budget for p in (self.first, self.second)],
        }


def parse_bound(text: str) -> Floor | Cap:
    """`cvar:TAU>=K` or `below:C<=P` as a bound."""
    for sign, kind, name in ((">=", Floor, "cvar:"), ("<=", Cap, "below:")):
        left, found, right = text.replace(" ", "").partition(sign)
        if found and left.startswith(name):
            return kind(checks.number(left.removeprefix(name), name[:-1]), checks.number(right, "the bound"))
    raise InputError(
        f"subject to {text!r:.40}: must be cvar:TAU>=K or below:C<=P, such as cvar:0.1>=2 or below:10<=0.05"
    )


def exact_engine(mdp: FiniteMDP, memory: int = 4 * 2**30, seconds: float = 60.0) -> GridEngine:
    """An engine on the grid of the rewards; raises where they lie on none."""
    problem = SolveContext.of(mdp)
    grid = problem.lattice()
    if grid is None:
        raise InputError("rewards: lie on no common grid, which the efficient frontier needs; round them first")
    limits = Limits((1e-9, 0.0), memory, seconds, time.perf_counter())
    return GridEngine(problem, limits, problem.width, grid)


def on_grid(engine: GridEngine, subject_to: Floor | Cap) -> ConstrainedPlan:
    """The plan where all rewards lie on the grid of the engine (or are taken to)."""
    return _floored(engine, subject_to) if isinstance(subject_to, Floor) else _capped(engine, subject_to)


def _plan(
    engine: GridEngine,
    bound: Floor | Cap,
    policies: tuple[BudgetPolicy, BudgetPolicy],
    share: float,
    upper: float,
    multiplier: float,
    feasible: bool,
) -> ConstrainedPlan:
    mdp, grid = engine.problem.mdp, engine.grid
    laws = [return_law(policy, mdp, grid).law for policy in policies]
    law = ReturnLaw.of(
        np.concatenate([x.values for x in laws]),
        np.concatenate([share * laws[0].probs, (1.0 - share) * laws[1].probs]),
    )
    seconds = time.perf_counter() - engine.limits.began
    upper = max(upper, law.mean) if feasible else law.mean
    return ConstrainedPlan(
        bound, *policies, share, law.mean, bound.measure(law), upper, multiplier, feasible, law, seconds
    )


def _floored(engine: GridEngine, bound: Floor) -> ConstrainedPlan:
    trade = TradeOff(engine, bound.tau)
    slack = 1e-12 * (abs(bound.least) + engine.high - engine.low)
    if trade.best_cvar < bound.least - slack:
        i = int(np.argmax(trade.budgets - trade.shortfalls[0] / bound.tau))
        policy = trade._policy(0, i)
        return _plan(engine, bound, (policy, policy), 1.0, 0.0, np.inf, feasible=False)
    least = min(bound.least, trade.best_cvar)
    for _ in range(MOST):
        gap = trade.upper(least)[0] - trade.lower(least)[0]
        if gap <= 1e-10 * (engine.high - engine.low) or not engine.may_go_on() or not trade.narrow(least):
            break
    found = trade.mixture(least)
    if found is None:
        raise InputError(f"{bound}: the best CVaR is {trade.best_cvar:.9g}, too near to the bound to tell")
    price = bound.tau / found.weight if found.weight > 0.0 and np.isfinite(found.weight) else 0.0
    price = price if found.share < 1.0 or found.mean < engine.problem.mean - slack else 0.0
    return _plan(engine, bound, (found.first, found.second), found.share, trade.upper(least)[0], price, feasible=True)


def _capped(engine: GridEngine, bound: Cap) -> ConstrainedPlan:
    """Lagrangian rewards R + multiplier 1{R >= c}; each new multiplier is the slope between the two policies around."""
    c, mdp = bound.target, engine.problem.mdp

    def point(policy: BudgetPolicy) -> tuple[float, float, BudgetPolicy]:
        law = return_law(policy, mdp, engine.grid).law
        return bound.measure(law), law.mean, policy

    def reward(multiplier: float) -> BudgetPolicy:
        return engine.table(lambda b: np.where(b <= 0.0, multiplier, 0.0) - b, c).policy(0)

    safe = point(engine.table(lambda b: np.where(b <= 0.0, 1.0, 0.0), c).policy(0))
    if safe[0] > bound.most + 1e-12:
        return _plan(engine, bound, (safe[2], safe[2]), 1.0, 0.0, np.inf, feasible=False)
    bold = point(reward(0.0))
    if bold[0] <= bound.most + 1e-12:
        return _plan(engine, bound, (bold[2], bold[2]), 1.0, bold[1], 0.0, feasible=True)
    upper, multiplier = bold[1], 0.0
    for _ in range(MOST):
        multiplier = (bold[1] - safe[1]) / (bold[0] - safe[0])
        middle = point(reward(multiplier))
        lagrangian = middle[1] - multiplier * (middle[0] - bound.most)
        upper = min(upper, lagrangian)
        on_line = safe[1] - multiplier * (safe[0] - bound.most)
        if lagrangian <= on_line + 1e-11 * (engine.high - engine.low):
            break
        safe, bold = (middle, bold) if middle[0] <= bound.most else (safe, middle)
    share = (bold[0] - bound.most) / (bold[0] - safe[0])
    return _plan(engine, bound, (safe[2], bold[2]), share, upper, multiplier, feasible=True)
