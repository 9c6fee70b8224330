"""The value at risk: the return that is reached with probability 1 - tau.

    VaR_tau(R) = max{ c : P(R >= c) >= 1 - tau }          (the upper tau-quantile)

P(R >= c) is the target probability, so one induction gives it for every c at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tailrank import checks
from tailrank.risk.law import LEVEL_TOLERANCE, ReturnLaw
from tailrank.risk.measures.base import BestPolicy, BudgetEngine, Measure
from tailrank.risk.measures.target import reached


@dataclass(frozen=True)
class VaR(Measure):
    """The upper tau-quantile: the largest c that is reached with probability at least 1 - tau.

    >>> VaR(0.5).of([1, 2, 3, 4])
    3.0
    """

    tau: float
    name: ClassVar[str] = "var"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", checks.inside(self.tau, "tau", "(0, 1)"))

    def of_law(self, law: ReturnLaw) -> float:
        """The largest value that is reached with probability at least 1 - tau."""
        below = np.concatenate([[0.0], law.cumulative[:-1]])
        return float(law.values[np.flatnonzero(below <= self.tau + LEVEL_TOLERANCE)[-1]])

    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """The largest target whose best probability is at least 1 - tau."""
        table = engine.table(reached, engine.low, engine.high)
        i = int(np.flatnonzero(table.values >= 1.0 - self.tau - LEVEL_TOLERANCE)[-1])
        value = float(table.budgets[i])
        return BestPolicy(table.policy(i), value, value, value)
