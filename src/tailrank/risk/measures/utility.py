"""The expected utility of the return, E U(R), for a piecewise linear U."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import BestPolicy, BudgetEngine, Measure
from tailrank.risk.measures.reduction import Reduction


@dataclass(frozen=True)
class Utility(Measure):
    """E U(X), U through the points (x, u) and straight on beyond the first and the last of them.

    U must not fall: brackets need it, and nobody prefers to earn less.

    >>> Utility(((0, 0), (1, 1), (2, 1))).of([0, 1, 2])
    0.6666666666666666
    """

    points: tuple[tuple[float, float], ...]
    name: ClassVar[str] = "utility"

    def __post_init__(self) -> None:
        pairs = tuple(self.points)
        if len(pairs) < 2 or any(not isinstance(p, Sequence) or len(p) != 2 for p in pairs):
            raise InputError(f"points: at least two pairs (return, utility) are needed, found {self.points!r:.60}")
        points = tuple((checks.number(x, "points"), checks.number(u, "points")) for x, u in pairs)
        for (x, u), (y, v) in pairwise(points):
            if y <= x:
                raise InputError(f"points: returns must increase, found {x:g} before {y:g}")
            if v < u:
                raise InputError(f"points: a utility must not fall, found {u:g} at {x:g} and {v:g} at {y:g}")
            if v - u > checks.LARGEST_RETURN * (y - x):
                raise InputError(
                    f"points: a utility must not rise from {u:g} at {x:g} to {v:g} at {y:g}, it is too steep"
                )
        object.__setattr__(self, "points", points)

    def utility(self, x: np.ndarray) -> np.ndarray:
        """U(x), for x [n]."""
        at, u = np.array(self.points).T
        first, last = (u[1] - u[0]) / (at[1] - at[0]), (u[-1] - u[-2]) / (at[-1] - at[-2])
        inside = np.interp(x, at, u)
        return np.asarray(inside + first * np.minimum(x - at[0], 0.0) + last * np.maximum(x - at[-1], 0.0))

    def of_law(self, law: ReturnLaw) -> float:
        """E U(X)."""
        return float(law.probs @ self.utility(law.values))

    def reduction(self, low: float, high: float) -> Reduction:
        """U itself; its largest slope is one between two points."""
        slope = max((v - u) / (y - x) for (x, u), (y, v) in pairwise(self.points))
        return Reduction("utility", self.utility, slope or 1.0, 0.0, lambda b, v: v)

    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """Terminal reward U(-b), from the budget 0: what is left is minus what was earned."""
        table = engine.table(lambda b: self.utility(-b), 0.0)
        value = float(table.values[0])
        return BestPolicy(table.policy(0), value, value, 0.0)
