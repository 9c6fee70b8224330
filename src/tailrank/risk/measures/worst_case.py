"""The worst case: the least return that has positive probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import BestPolicy, BudgetEngine, Measure


@dataclass(frozen=True)
class WorstCase(Measure):
    """The least value of a law: the limit of CVaR as tau, and of the entropic measure as 1 / beta, go to zero.

    >>> WorstCase().of([3, 1, 2])
    1.0
    """

    name: ClassVar[str] = "worst"
    budgets: ClassVar[bool] = False

    def of_law(self, law: ReturnLaw) -> float:
        """The least value."""
        return float(law.values[0])

    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """The induction on the minimum over outcomes."""
        return engine.worst()
