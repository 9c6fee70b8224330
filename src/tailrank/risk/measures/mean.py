"""The mean: E R."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import BestPolicy, BudgetEngine, Measure


@dataclass(frozen=True)
class Mean(Measure):
    """The expected return.

    >>> Mean().of([1, 2, 6])
    3.0
    """

    name: ClassVar[str] = "mean"
    budgets: ClassVar[bool] = False

    def of_law(self, law: ReturnLaw) -> float:
        """E X."""
        return law.mean

    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """The risk-neutral induction."""
        return engine.mean()
