"""The entropic value at risk: the best lower bound on CVaR that exponential moments give.

    EVaR_tau(R) = sup over beta > 0 of { ERM_beta(R) + log(tau) / beta } <= CVaR_tau(R)

The supremum may be the limit beta -> infinity, the worst case. With t = 1 / beta the objective is concave in t for one
law, but not after the maximum over policies. ERM grows with t and t log(tau) falls, so on an interval [t1, t2] it is at
most ERM(t2) + t1 log(tau); intervals are halved until no such bound is much above the best value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from tailrank import checks
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import BestPolicy, BudgetEngine, Measure
from tailrank.risk.measures.entropic import entropic_value

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
COARSE = 16
"""Intervals of the first division."""


@dataclass(frozen=True)
class EVaR(Measure):
    """The entropic value at risk; tau = 1 is the mean.

    >>> round(EVaR(0.4).of([1, 2, 3, 4, 5]), 4)
    1.2942
    """

    tau: float
    name: ClassVar[str] = "evar"
    budgets: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", checks.tail_level(self.tau))

    def of_law(self, law: ReturnLaw) -> float:
        """The supremum over beta, by golden section on the concave function of 1 / beta."""
        if self.tau == 1.0:
            return law.mean
        worst, spread = float(law.values[0]), float(law.values[-1] - law.values[0])
        if spread == 0.0 or float(law.probs[0]) >= self.tau:
            return worst

        def objective(t: float) -> float:
            return entropic_value(law, 1.0 / t) + t * math.log(self.tau)

        return max(worst, _golden(objective, 0.0, 2.0 * spread / -math.log(self.tau))[1])

    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """Entropic plans at many beta; the best of them, and a bound over all beta."""
        worst, mean = engine.worst(), engine.mean()
        if self.tau == 1.0:
            return mean
        slope = -math.log(self.tau)
        best, known = worst, {0.0: worst.value}

        def solve(t: float) -> float:
            nonlocal best
            if t not in known:
                plan = engine.exponential(1.0 / t)
                known[t] = plan.value
                if plan.value - slope * t > best.value:
                    best = BestPolicy(plan.policy, plan.value - slope * t, plan.value - slope * t)
            return known[t]

        # Beyond, even the best mean is worth less than the worst case is.
        far = (mean.value - worst.value) / slope
        if far <= 0.0:
            return worst
        ends = [far * (i / COARSE) ** 2 for i in range(COARSE + 1)]
        values = [solve(t) - slope * t for t in ends]
        i = max(range(COARSE + 1), key=values.__getitem__)
        _golden(lambda t: solve(t) - slope * t, ends[max(i - 1, 0)], ends[min(i + 1, COARSE)])
        ends = sorted(known)
        while True:
            bounds = [known[b] - slope * a for a, b in pairwise(ends)]
            k = max(range(len(bounds)), key=bounds.__getitem__)
            upper = max(best.value, bounds[k])
            if upper - best.value <= engine.allowed(best.value) or not engine.may_go_on():
                return BestPolicy(best.policy, best.value, upper)
            middle = 0.5 * (ends[k] + ends[k + 1])
            solve(middle)
            ends.insert(k + 1, middle)


def _golden(objective: Callable[[float], float], low: float, high: float) -> tuple[Any, float]:
    """Where in (low, high) a concave function is largest, and its value there; 60 looks."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = objective(left), objective(right)
    for _ in range(60):
        if high - low <= 1e-12 * high:
            break
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = objective(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = objective(right)
    return (left, at_left) if at_left >= at_right else (right, at_right)
