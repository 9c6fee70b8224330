"""The best policy for a risk measure, with bounds on what any policy is worth.

- Measures without budgets: one answer for rewards of any kind.
- Rewards on one grid: the measure's own search on that grid, and the law of its policy.
- Other rewards: rounded up, the best value is an upper bound (measures are monotone). The policy that is best for
  rewards rounded to the nearest grid point is evaluated in the true MDP: its returns are listed, or known but for
  rounding, and then moved down by all that rounding may hide. The grid is refined until the two are close.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tailrank.checks import InputError
from tailrank.models.grid import LARGEST_LEVEL, ROUNDING_SLACK, BudgetGrid
from tailrank.planning.exact import induction
from tailrank.planning.exact.bracket import FIRST_CELLS, PRODUCTS_A_SECOND
from tailrank.planning.exact.context import SolveContext
from tailrank.planning.exact.limits import Limits, OutOfTime, unlimited
from tailrank.planning.exact.return_law import Evaluation, return_law
from tailrank.planning.objectives.engine import GridEngine, MarkovEngine
from tailrank.planning.objectives.markov import reward_sums
from tailrank.planning.plan import Plan, Reference, Status
from tailrank.policies.tables import BudgetPolicy, Policy
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import BestPolicy, Measure

NEGLIGIBLE = 1e-10
"""A bracket this narrow, relative to the range of values, is rounding."""
FINER = 4.0
CHEAP = 1e7
"""Products of an induction that takes no time to speak of."""


@dataclass(frozen=True)
class Optimum:
    """A policy, the bounds on the best value, and how its law is found."""

    policy: Policy
    lower: float
    upper: float
    grid: BudgetGrid | None
    evaluation: Evaluation | None = None
    budget: float | None = None
    note: str = ""


def plan_for(
    problem: SolveContext, measure: Measure, taus: tuple[float, ...], limits: Limits, unit: float | None = None
) -> tuple[Plan, ...]:
    """The plan for `measure`, once for each level at which its CVaR is to be told."""
    span = value_span(problem, measure)
    if not measure.budgets:
        found = _without_budgets(problem, measure, limits, span)
    else:
        on_grid = _on_lattice(problem, measure, limits, span) if unit is None else None
        found = on_grid or _refined(problem, measure, limits, span, unit)
    status: Status = "exact" if found.upper - found.lower <= NEGLIGIBLE * (span + abs(found.lower)) else "bracketed"
    upper = found.lower if status == "exact" else found.upper
    law_of = partial(_law_of, problem, found.policy, found.grid)
    first = Plan(
        tau=taus[0],
        criterion=measure.name,
        policy=found.policy,
        budget=found.budget,
        value=found.lower,
        lower=found.lower,
        upper=upper,
        risk_neutral=_reference(problem, taus[0], found.grid),
        compute_law=law_of if found.evaluation is None else partial(_same, found.evaluation),
        budget_curve=None,
        status=status,
        seconds=0.0,
        notes=(found.note,) if found.note else (),
        objective=measure,
    )
    others = [replace(first, tau=tau, risk_neutral=replace(first.risk_neutral, tau=tau)) for tau in taus[1:]]
    return (first, *others)


def value_span(problem: SolveContext, measure: Measure) -> float:
    """How far apart the measure of the largest and of the least return are; for measures without budgets, at most."""
    if not measure.budgets:
        low, high = (float(x[0]) for x in reward_sums(problem.original))
        return high - low
    starts = problem.mdp.start > 0
    low, high = float(problem.low[0][starts].min()), float(problem.high[0][starts].max())
    return measure.of([high]) - measure.of([low])


def _reference(problem: SolveContext, tau: float, grid: BudgetGrid | None) -> Reference:
    return Reference(
        lambda: (problem.mean_policy, problem.mean), tau, lambda: _law_of(problem, problem.mean_policy, grid)
    )


def _same(evaluation: Evaluation) -> Evaluation:
    return evaluation


def _law_of(problem: SolveContext, policy: Policy, grid: BudgetGrid | None) -> Evaluation:
    """The return law, on the given grid, the rewards' own one, or a fine one."""
    grid = grid or problem.lattice() or problem.grid((problem.reach or 1.0) / (8 * FIRST_CELLS), "nearest")
    return return_law(policy, problem.mdp, grid)


def _without_budgets(problem: SolveContext, measure: Measure, limits: Limits, span: float) -> Optimum:
    engine = MarkovEngine(problem, limits, span)
    answer = measure.plan(engine)  # type: ignore[arg-type]
    return Optimum(answer.policy, answer.value, answer.upper, None)


def _on_lattice(problem: SolveContext, measure: Measure, limits: Limits, span: float) -> Optimum | None:
    """The optimum on the grid on which all rewards lie, if there is one that is not too fine."""
    grid = problem.lattice()
    if grid is None:
        return None
    work = induction.layout(problem.mdp, grid, problem.met)
    affordable = PRODUCTS_A_SECOND * (limits.seconds if problem.mdp.discount == 1.0 else 0.1)
    if work.value_bytes * 4 + work.entries * 2 > limits.bytes or work.products > affordable:
        return None
    # The first call may spend its time compiling: what is cheap by any measure is not broken off for that.
    check = unlimited if work.products <= CHEAP else limits.check
    engine = GridEngine(problem, limits, span, grid, check=check)
    try:
        answer = measure.plan(engine)
    except OutOfTime:
        return None
    evaluation = return_law(answer.policy, problem.mdp, grid)
    value = measure.of_law(evaluation.law)
    return Optimum(answer.policy, value, max(answer.upper, value), grid, evaluation, answer.budget)


def _refined(problem: SolveContext, measure: Measure, limits: Limits, span: float, unit: float | None) -> Optimum:
    """The optimum between bounds, on finer and finer grids."""
    spacing = unit if unit is not None else (problem.reach or 1.0) / FIRST_CELLS
    best: Optimum | None = None
    upper, check = np.inf, unlimited
    while True:
        began = time.perf_counter()
        try:
            found = _pass(problem, measure, limits, span, spacing, check)
        except (OutOfTime, InputError) as error:  # of the time limit, of the memory limit
            if best is None and isinstance(error, OutOfTime):
                raise InputError(
                    f"objective = {measure}: returns differ too little, or too much, for a grid; take off the rewards "
                    "what all returns have in common"
                ) from None
            if best is None:
                raise
            what = "time" if isinstance(error, OutOfTime) else "memory"
            return replace(best, note=_note(best, limits, span, what))
        upper = min(upper, found.upper)
        best = found if best is None or found.lower > best.lower else best
        best = replace(best, upper=max(upper, best.lower))
        # Where all returns are worth the same, a relative tolerance is zero: what is left is rounding.
        allowed = max(limits.allowed(best.lower, best.upper, span), NEGLIGIBLE * (span + abs(best.lower)), 1e-300)
        if unit is not None or best.upper - best.lower <= allowed:
            return best
        took, check = time.perf_counter() - began, limits.check
        factor = min(FINER**3, max(2.0, 1.5 * (best.upper - best.lower) / allowed))
        if problem.reach / spacing * factor > LARGEST_LEVEL / 2 or took * factor > 4.0 * max(limits.left(), 0.0):
            return replace(best, note=_note(best, limits, span, "time"))
        spacing /= factor


def _note(best: Optimum, limits: Limits, span: float, what: str) -> str:
    excess = (best.upper - best.lower) / max(limits.allowed(best.lower, best.upper, span), 1e-300)
    return (
        f"the bracket is {excess:.3g} times as wide as the tolerance: the {what} limit was reached; "
        f"raise {'memory' if what == 'memory' else 'seconds'}=... or tolerance=..."
    )


def _pass(
    problem: SolveContext,
    measure: Measure,
    limits: Limits,
    span: float,
    spacing: float,
    check: Callable[[], None],
) -> Optimum:
    """Bounds and a policy from grids of one spacing."""
    up, nearest = problem.grid(spacing, "up"), problem.grid(spacing, "nearest")
    lift = ROUNDING_SLACK * (up.horizon + 1) * spacing + problem.rounding
    above = measure.plan(GridEngine(problem, limits, span, up, lift, check))
    answer: BestPolicy = measure.plan(GridEngine(problem, limits, span, nearest, 0.0, check))
    evaluation = return_law(answer.policy, problem.mdp, nearest)
    law = evaluation.law
    if not evaluation.exact:
        law = ReturnLaw.of(law.values - hidden(problem, nearest), law.probs)
    budget = answer.budget if isinstance(answer.policy, BudgetPolicy) else None
    lower = measure.of_law(law)
    return Optimum(answer.policy, lower, max(above.upper, lower), nearest, evaluation, budget)


def hidden(problem: SolveContext, grid: BudgetGrid) -> float:
    """How far a return may be below the mean of all that round to the same."""
    total = problem.rounding
    for h in range(problem.mdp.horizon):
        met = np.repeat(problem.met[h], problem.mdp.rows_of_states(h))
        reward = problem.mdp.scaled_rewards(h)[met]
        error = reward - float(grid.origin[h]) - grid.units(h, reward) * float(grid.unit)
        total += float(error.max() - error.min())
    return total
