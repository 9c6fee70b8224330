"""Bounds on the tail where rewards lie on no common grid: a plan that surely obeys the bound, and what none exceeds.

- Rewards rounded up: whoever obeys the bound in the true problem obeys it there and earns no less. So the best mean
  there is an upper bound, and where no policy obeys the bound, none does in the true problem.
- Rewards rounded to the nearest grid point give a plan. Its return law in the true problem is listed, or known but for
  what rounding hides, and then `bounded` is a certain bound: on its CVaR from below, on its chance from above. The plan
  is made for a bound that is a little tighter, by a part of what rounding hides, or by all of it.

The grid is refined until the two are close. Where rounding hides whether any policy obeys the bound, that is said.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from tailrank.models.grid import LARGEST_LEVEL, ROUNDING_SLACK
from tailrank.planning.exact.bracket import FIRST_CELLS
from tailrank.planning.exact.context import SolveContext
from tailrank.planning.exact.evaluation import Evaluation, mixed
from tailrank.planning.exact.limits import Limits
from tailrank.planning.exact.return_law import return_law
from tailrank.planning.objectives import constrained
from tailrank.planning.objectives.constrained import Cap, ConstrainedPlan, Floor
from tailrank.planning.objectives.engine import GridEngine
from tailrank.planning.objectives.optimise import FINER, hidden
from tailrank.planning.objectives.trade import TradeOff

NARROWINGS = 8
TIGHTER = (0.0, 0.25, 1.0)
"""Parts of what rounding hides by which the bound is tightened, tried in turn."""
SHARES = (0.5, 1.0, 2.0)
"""Multipliers at which the upper bound is looked for, as shares of the plan's own."""


def bracketed(problem: SolveContext, bound: Floor | Cap, limits: Limits) -> ConstrainedPlan:
    """The best plan that surely obeys the bound, with an upper bound on the mean of any that does."""
    spacing, best, upper = (problem.reach or 1.0) / FIRST_CELLS, None, np.inf
    while True:
        began = time.perf_counter()
        up, near = problem.grid(spacing, "up"), problem.grid(spacing, "nearest")
        lift = ROUNDING_SLACK * (up.horizon + 1) * spacing + problem.rounding
        above = GridEngine(problem, limits, problem.width, up, lift)
        plans = list(_certain(GridEngine(problem, limits, problem.width, near), bound))
        obeying = [plan for plan in plans if plan.feasible]
        price = max((plan.multiplier for plan in obeying), default=0.0)
        most = _most(above, bound, price if np.isfinite(price) else 0.0)
        if most is None:
            return replace(plans[0], feasible=False, undecided=False, upper=plans[0].mean)
        upper = min(upper, most)
        found = max(obeying, key=lambda plan: plan.mean, default=plans[-1])
        if best is None or (found.feasible, found.mean) > (best.feasible, best.mean):
            best = found
        seconds = time.perf_counter() - limits.began
        best = replace(best, upper=max(upper, best.mean), undecided=not best.feasible, seconds=seconds)
        enough = best.feasible and best.gap <= limits.allowed(best.mean, best.upper, problem.width)
        took = time.perf_counter() - began
        if enough or FINER * took > limits.left() or problem.reach / spacing * FINER > LARGEST_LEVEL / 2:
            return best
        spacing /= FINER


def _certain(engine: GridEngine, bound: Floor | Cap) -> Iterator[ConstrainedPlan]:
    """Plans on a rounded grid, for ever tighter bounds; each says what is certain of it in the true problem."""
    off = hidden(engine.problem, engine.grid)
    for part in TIGHTER:
        plan = constrained.on_grid(engine, _tightened(bound, part * off))
        law = _law(engine, plan)
        if isinstance(bound, Floor):
            bounded = law.cvar(bound.tau)
            obeys = bounded >= bound.least - 1e-12 * (abs(bound.least) + engine.high - engine.low)
        else:
            bounded = bound.measure(law.law) if law.exact else Cap(bound.target + off, bound.most).measure(law.law)
            obeys = bounded <= bound.most + 1e-12
        yield replace(plan, subject_to=bound, mean=law.mean, bounded=bounded, law=law.law, feasible=obeys, exact=False)
        if obeys:
            return


def _tightened(bound: Floor | Cap, by: float) -> Floor | Cap:
    if isinstance(bound, Floor):
        return replace(bound, least=bound.least + by)
    return replace(bound, target=bound.target + by)


def _law(engine: GridEngine, plan: ConstrainedPlan) -> Evaluation:
    laws = [return_law(policy, engine.problem.mdp, engine.grid) for policy in (plan.first, plan.second)]
    return mixed(laws[0], laws[1], plan.share)


def _most(engine: GridEngine, bound: Floor | Cap, price: float) -> float | None:
    """No policy that obeys the bound has a larger mean, on a grid whose rewards are rounded up; None: none obeys it."""
    mean = engine.problem.mean
    if isinstance(bound, Floor):
        trade = TradeOff(engine, bound.tau)
        if trade.best_cvar < bound.least:
            return None
        for _ in range(NARROWINGS):
            if not engine.may_go_on() or not trade.narrow(bound.least):
                break
        return min(mean, trade.upper(bound.least)[0] + engine.lift)
    c, room = bound.target, 1.0 - bound.most
    reach = engine.table(lambda b: np.where(b <= 0.0, 1.0, 0.0), c)
    if float(reach.values[0]) < room - 1e-12:
        return None
    for share in SHARES if price > 0.0 else ():
        paid = share * price
        table = engine.table(partial(_rewarded, paid), c)
        mean = min(mean, float(table.values[0]) + c - paid * room)
    return mean


def _rewarded(paid: float, left: np.ndarray) -> np.ndarray:
    """What was earned beyond the target, and `paid` where it was reached, for budgets `left` [n]."""
    return np.where(left <= 0.0, paid, 0.0) - left
