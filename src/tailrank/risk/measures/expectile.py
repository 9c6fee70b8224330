"""The expectile: the m for which gains above m, weighted by alpha, make up for losses below, weighted by 1 - alpha.

    E u(R - m) = 0,   u(t) = alpha t^+ - (1 - alpha) t^-

max over policies of E u(R - m) falls in m, so the best expectile is where it crosses zero: between two attainable
returns it is found by cutting the interval, with an induction from a single budget each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tailrank import checks
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import BestPolicy, BudgetEngine, Measure

CUTS = 60


@dataclass(frozen=True)
class Expectile(Measure):
    """The alpha-expectile, alpha in (0, 1); alpha = 1/2 is the mean.

    >>> round(Expectile(0.25).of([1, 2, 3, 4, 5]), 4)
    2.3333
    """

    alpha: float
    name: ClassVar[str] = "expectile"

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", checks.inside(self.alpha, "alpha", "(0, 1)"))

    def utility(self, t: np.ndarray) -> np.ndarray:
        """u(t), for t [n]."""
        return np.where(t > 0.0, self.alpha * t, (1.0 - self.alpha) * t)

    def of_law(self, law: ReturnLaw) -> float:
        """The zero of a piecewise linear function with kinks at the values."""
        x, p = law.values, law.probs
        below, mass = np.cumsum(p * (x - x[0])), np.cumsum(p)
        gains = self.alpha * ((below[-1] - below) - (1.0 - mass) * (x - x[0]))
        losses = (1.0 - self.alpha) * (mass * (x - x[0]) - below)
        i = int(np.flatnonzero(gains - losses >= 0.0)[-1])
        slope = self.alpha * (1.0 - mass[i]) + (1.0 - self.alpha) * mass[i]
        return float(x[i] + (gains[i] - losses[i]) / slope)

    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """All attainable returns at once, then the crossing between two of them."""

        def left(b: np.ndarray) -> np.ndarray:
            return self.utility(-b)

        table = engine.table(left, engine.low, engine.high)
        # The least return is always attained, whatever rounding says where all of them are nearly the same.
        i = int(np.flatnonzero(table.values >= -1e-13 * (engine.high - engine.low)).max(initial=0))
        policy, a, at_a = table.policy(i), float(table.budgets[i]), max(float(table.values[i]), 0.0)
        if i + 1 == table.budgets.size or at_a == 0.0:
            return BestPolicy(policy, a, a, a)
        # Between attainable returns the function is convex with slopes between -alpha and alpha - 1.
        slopes = sorted((self.alpha, 1.0 - self.alpha))
        b, at_b = float(table.budgets[i + 1]), float(table.values[i + 1])
        for _ in range(CUTS):
            b = min(b, a - (b - a) * at_a / (at_b - at_a)) if at_b < at_a else b
            sure = a + at_a / slopes[1]
            if b - a <= 1e-13 * (abs(a) + engine.high - engine.low) or sure >= b:
                break
            single = engine.table(left, sure)
            value = float(single.values[0])
            if value >= 0.0:
                policy, a, at_a = single.policy(0), sure, value
            at_b = float(engine.table(left, b).values[0])
            if at_b >= 0.0:
                policy, a, at_a = engine.table(left, b).policy(0), b, at_b
                break
        return BestPolicy(policy, a, max(a, b), a)
