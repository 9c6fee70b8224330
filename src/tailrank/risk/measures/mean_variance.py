"""Monotone mean-variance: the mean less c times the variance, made monotone where the square would turn.

    max_b { b + E u(R - b) },   u(t) = t - c t^2 for t <= 1 / (2 c), 1 / (4 c) above

As long as no outcome is further than 1 / (2 c) above the mean this is E R - c Var R.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tailrank import checks
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import Certainty


@dataclass(frozen=True)
class MeanVariance(Certainty):
    """The monotone mean-variance measure with risk aversion c > 0.

    >>> MeanVariance(0.1).of([1, 3])
    1.9
    """

    risk_aversion: float
    name: ClassVar[str] = "mean-variance"

    def __post_init__(self) -> None:
        object.__setattr__(self, "risk_aversion", checks.positive(self.risk_aversion, "risk aversion"))

    def utility(self, t: np.ndarray) -> np.ndarray:
        """u(t), for t [n]."""
        top = 0.5 / self.risk_aversion
        low = np.minimum(t, top)
        return np.asarray(low - self.risk_aversion * low**2)

    def bend(self) -> float:
        """-u'' below the top."""
        return 2.0 * self.risk_aversion

    def of_law(self, law: ReturnLaw) -> float:
        """The maximum over b: its slope falls in b, piecewise linearly with kinks at x - 1 / (2 c)."""
        c, x, p = self.risk_aversion, law.values - law.values[0], law.probs

        def objective(b: float) -> float:
            return b + float(p @ self.utility(x - b))

        # With k outcomes below the top the slope is zero at b = (their sum + (1 - mass) / (2 c)) / mass.
        mass, first = np.cumsum(p), np.cumsum(p * x)
        with np.errstate(over="ignore"):  # of a mass next to nothing: no maximum lies that far out
            places = (first + (1.0 - mass) * 0.5 / c) / mass
            best = max(objective(float(b)) for b in places[np.isfinite(places)])
        return float(law.values[0]) + best
