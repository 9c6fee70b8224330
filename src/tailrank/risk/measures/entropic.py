"""The entropic risk measure, a smooth way from the mean (beta -> 0) to the worst case (beta -> infinity).

    ERM_beta(R) = -log E exp(-beta R) / beta

It is time-consistent: the best policy looks at step and state alone, and no budget is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tailrank import checks
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import BestPolicy, BudgetEngine, Measure
from tailrank.risk.measures.reduction import Reduction

FULL = 1e-290
"""Sums that are larger have all their digits."""


@dataclass(frozen=True)
class Entropic(Measure):
    """-log E exp(-beta X) / beta, for beta > 0.

    >>> round(Entropic(1.0).of([1, 2, 3], [0.2, 0.3, 0.5]), 4)
    1.9728
    """

    beta: float
    name: ClassVar[str] = "entropic"
    budgets: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", checks.positive(self.beta, "beta"))

    def of_law(self, law: ReturnLaw) -> float:
        """-log E exp(-beta X) / beta."""
        return entropic_value(law, self.beta)

    def reduction(self, low: float, high: float) -> Reduction:
        """An expected utility counted from the least return, then the logarithm (see `risk/measures/reduction.py`)."""
        beta, least = self.beta, math.exp(-min(self.beta * (high - low), 700.0))

        def utility(t: np.ndarray) -> np.ndarray:
            return np.asarray(-np.expm1(-beta * np.maximum(t, 0.0)) / beta)

        def close(b: np.ndarray, v: np.ndarray) -> np.ndarray:
            return np.asarray(b - np.log(np.maximum(1.0 - beta * v, least)) / beta)

        return Reduction("OCE", utility, 1.0, low, close, loss=1.0 / least)

    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """The log-sum-exp backup."""
        return engine.exponential(self.beta)


def entropic_value(law: ReturnLaw, beta: float) -> float:
    """ERM_beta of a law; neither large nor small beta overflows or cancels."""
    low = float(law.values[0])
    with np.errstate(over="ignore", under="ignore"):
        gap = -beta * (law.values - low)
        if gap[-1] > -1.0:
            return low - math.log1p(float(law.probs @ np.expm1(gap))) / beta
        total = float(law.probs @ np.exp(gap))
        if total > FULL:
            return low - math.log(total) / beta
        # Products this small have lost digits.
        logs = np.log(law.probs[law.probs > 0.0]) + gap[law.probs > 0.0]
        return low - (float(logs.max()) + math.log(float(np.exp(logs - logs.max()).sum()))) / beta
