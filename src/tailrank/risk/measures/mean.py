"""The mean: E R."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import BestPolicy, BudgetEngine, Measure
from tailrank.risk.measures.reduction import Reduction


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

    def reduction(self, low: float, high: float) -> Reduction:
        """The return is its own utility."""
        return Reduction("utility", lambda t: t, 1.0, 0.0, lambda b, v: v)

    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """The risk-neutral induction."""
        return engine.mean()
