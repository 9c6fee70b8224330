"""The mean and the tail together: kappa E R + (1 - kappa) CVaR_tau(R).

For each b the best policy has the least E(b - R)^+ - kappa tau / (1 - kappa) E R: the induction of CVaR with the mean
collected along the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tailrank import checks
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import BestPolicy, BudgetEngine, Measure
from tailrank.risk.measures.cvar import tail_objective
from tailrank.risk.measures.reduction import Reduction, certainty


@dataclass(frozen=True)
class MeanCVaR(Measure):
    """weight times the mean and (1 - weight) times CVaR_tau.

    >>> MeanCVaR(0.5, weight=0.5).of([-1, 0, 1, 2])
    0.0
    """

    tau: float
    weight: float = 0.5
    name: ClassVar[str] = "mean-cvar"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", checks.tail_level(self.tau))
        object.__setattr__(self, "weight", checks.inside(self.weight, "weight", "[0, 1]"))

    def of_law(self, law: ReturnLaw) -> float:
        """weight E X + (1 - weight) CVaR_tau(X)."""
        return self.weight * law.mean + (1.0 - self.weight) * law.cvar(self.tau)

    def reduction(self, low: float, high: float) -> Reduction:
        """u(t) = weight t - (1 - weight) t^- / tau."""
        rest = (1.0 - self.weight) / self.tau
        return certainty(lambda t: self.weight * t + rest * np.minimum(t, 0.0), self.weight + rest)

    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """One induction on shortfalls and means, then the best budget."""
        if self.weight == 1.0:
            return engine.mean()
        table = engine.tails(self.weight * self.tau / (1.0 - self.weight))
        tail = tail_objective(table.budgets, table.shortfall, self.tau)
        objective = self.weight * table.means + (1.0 - self.weight) * tail
        i = int(np.argmax(objective))
        return BestPolicy(table.policy(i), float(objective[i]), float(objective[i]), float(table.budgets[i]))
