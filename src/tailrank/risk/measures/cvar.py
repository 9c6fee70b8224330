"""CVaR_tau: the mean of the worst tau-fraction of the return.

CVaR_tau(R) = max_b { b - E(b - R)^+ / tau }          (u(t) = -t^- / tau)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tailrank import checks
from tailrank.risk.law import ReturnLaw, best_budget
from tailrank.risk.measures.base import BestPolicy, BudgetEngine, Measure
from tailrank.risk.measures.reduction import Reduction, certainty


@dataclass(frozen=True)
class CVaR(Measure):
    """The mean of the worst tau-fraction; tau = 1 is the mean.

    >>> CVaR(0.5).of([-1, 0, 1, 2])
    -0.5
    """

    tau: float
    name: ClassVar[str] = "cvar"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", checks.tail_level(self.tau))

    def of_law(self, law: ReturnLaw) -> float:
        """The mean of the worst tau-fraction of a law."""
        return law.cvar(self.tau)

    def reduction(self, low: float, high: float) -> Reduction:
        """u(t) = -t^- / tau."""
        return certainty(lambda t: np.minimum(t, 0.0) / self.tau, 1.0 / self.tau)

    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """One induction on shortfalls; of the best budgets one with the best mean."""
        table = engine.tails()
        i = best_budget(table.budgets, table.shortfall, self.tau, table.means)
        value = float(table.budgets[i] - table.shortfall[i] / self.tau)
        return BestPolicy(table.policy(i), value, value, float(table.budgets[i]))


def tail_objective(budgets: np.ndarray, shortfall: np.ndarray, tau: float) -> np.ndarray:
    """b - E(b - R)^+ / tau at every budget, [C]."""
    with np.errstate(over="ignore"):
        return np.asarray(budgets - shortfall / tau)
