"""The chance to reach a target: P(R >= c)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tailrank import checks
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import BestPolicy, BudgetEngine, Measure
from tailrank.risk.measures.reduction import Reduction

NEAR = 16 * np.finfo(np.float64).eps
"""How far below the target a return may be, relative to it, and still reach it: 0.3 reaches 0.1 + 0.2.
But never so far that two values of a law would not be told apart."""


@dataclass(frozen=True)
class Target(Measure):
    """The probability that the return is at least `at`.

    >>> Target(2).of([1, 2, 3, 4])
    0.75
    """

    at: float
    name: ClassVar[str] = "target"

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", checks.number(self.at, "at"))

    def of_law(self, law: ReturnLaw) -> float:
        """P(X >= at)."""
        near = min(NEAR * abs(self.at), 0.5 * float(np.diff(law.values).min(initial=np.inf)))
        return min(1.0, float(law.probs[law.values >= self.at - near].sum()))

    def reduction(self, low: float, high: float) -> Reduction:
        """1 from the target on, in place of a slope 1 over all returns."""
        near = self.at - NEAR * abs(self.at)

        def met(t: np.ndarray) -> np.ndarray:
            return np.where(t >= near, 1.0, 0.0)

        return Reduction("target", met, 1.0 / max(high - low, 1e-300), 0.0, lambda b, v: v, jumps=True)

    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """Terminal reward 1 where the budget is used up, from the budget `at`."""
        table = engine.table(reached, self.at)
        value = min(1.0, float(table.values[0]))
        return BestPolicy(table.policy(0), value, value, self.at)


def reached(budget: np.ndarray) -> np.ndarray:
    """1 where what was to be earned has been earned, [n]."""
    return np.where(budget <= 0.0, 1.0, 0.0)
