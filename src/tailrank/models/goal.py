"""What planners on budgets in whole units minimise where the objective is not CVaR.

V_H(c) = c^+ is CVaR's. Any objective with a reduction (`risk/measures/reduction.py`) has V_H(c) = -u(-c) instead,
divided by the largest slope of u, so that bonuses keep their scale. Such a V_H is neither constant below zero nor of
slope one above, so tables have one width at all steps and hold every budget that can be left: index i stands for the
budget i - `below`, and an episode that starts at i >= `most` never leaves the table, because it earns
at most `most` units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.risk.measures.base import Measure
from tailrank.risk.measures.reduction import Reduction


@dataclass(frozen=True)
class UnitGoal:
    """terminal [W]: V_H at each index, in units. starts [n]: indices to start at; budgets [n]: what they are.

    low, unit: a return is low + unit times the units earned.
    """

    reduction: Reduction
    terminal: np.ndarray
    starts: np.ndarray
    budgets: np.ndarray
    below: int
    low: float
    unit: float

    @classmethod
    def of(cls, measure: Measure, low: float, unit: float, most: int) -> UnitGoal:
        """The goal where 0..most units are earned."""
        found = measure.reduction(low, low + unit * most)
        earned = np.arange(most + 1)
        if found.start is None:
            left = unit * np.arange(-most, most + 1)
            starts, budgets = most + earned, low + unit * earned
        else:
            left = found.start - (low + unit * earned[::-1])
            starts, budgets = np.array([most]), np.array([found.start])
        return cls(found, found.cost(left) / unit, starts, budgets, most, low, unit)

    def best(self, curve: np.ndarray) -> tuple[int, float]:
        """The index to start at, by the values V_0 [W], and what is promised there in units."""
        promised = self.promises(self.starts, curve[self.starts])
        best = int(np.argmax(promised))
        return int(self.starts[best]), float(promised[best])

    def promises(self, starts: np.ndarray, values: np.ndarray) -> np.ndarray:
        """What is promised from indices starts [n] whose V_0 is values [n], as units above `low`."""
        budgets = self.budgets[np.asarray(starts) - self.starts[0]]
        return np.asarray((self.reduction.value(budgets, self.unit * values) - self.low) / self.unit)

    def spread(self, left: int) -> float:
        """The most by which V_H may differ where so many units are still open."""
        return float((self.terminal - self.terminal[np.maximum(np.arange(self.terminal.size) - left, 0)]).max())
