"""The grid of budgets for a log: units that fit its rewards, or rewards rounded to the safe side.

The rewards of the log lie in a range that the user gives, or in that of the log. Where all of them are whole multiples
of one unit and these are few, nothing is rounded. Otherwise rewards are rounded down for a lower bound and up for an
upper one, by less than a unit a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.envs.logs.log import EpisodeLog
from tailrank.models.grid import BudgetGrid, Rounding, exact_grid, rounded_grid

MOST_DISTINCT = 2000
"""Rewards that a common unit is looked for."""
WORK = 2e9
"""Outcomes times budgets times steps that a plan may cost."""
FEWEST, MOST = 200, 2000
"""Budgets at the first step."""
ROOMY = 4
"""How many times as many budgets a grid may have that rounds nothing."""


@dataclass(frozen=True, eq=False)
class Budgets:
    """grid; widths [H + 1]: the most units that steps h.. pay; ended [H + 1]: the units of an ended episode."""

    grid: BudgetGrid
    widths: np.ndarray
    ended: np.ndarray

    def units(self, h: int, rewards: np.ndarray) -> np.ndarray:
        """Rewards [n] of step h in whole units above the origin, [n]."""
        return self.grid.units(h, rewards * self.grid.discount**h)


def budgets_for(
    log: EpisodeLog, reward_range: tuple[float, float], discount: float, count: int | None = None
) -> tuple[Budgets, Budgets]:
    """Budgets for lower and for upper bounds; the same where nothing is rounded. count: budgets at the first step."""
    low, high = reward_range
    distinct = np.unique(log.reward)
    least = automatic_count(log) if count is None else count
    if distinct.size <= MOST_DISTINCT:
        rewards = np.unique(np.concatenate([distinct, [low, high]]))
        grid = exact_grid([rewards], log.horizon, discount)
        if grid is not None:
            made = _budgets(grid, low, high)
            if made.widths[0] <= ROOMY * least:
                return made, made
    scale = discount ** np.arange(log.horizon)
    unit = max(float(((high - low) * scale).sum()) / least, np.finfo(np.float64).tiny)
    origin = np.floor(low * scale / unit + 1e-9) * unit
    down, up = (_budgets(_rounded(unit, origin, discount, way), low, high) for way in ("down", "up"))
    return down, up


def automatic_count(log: EpisodeLog) -> int:
    """As many budgets as a plan of reasonable cost can have."""
    outcomes = min(log.transitions, 4 * len(log.states) * len(log.actions) * 10)
    return int(np.clip(WORK / (outcomes * log.horizon + 1), FEWEST, MOST))


def _rounded(unit: float, origin: np.ndarray, discount: float, rounding: str) -> BudgetGrid:
    way: Rounding = "down" if rounding == "down" else "up"
    return rounded_grid(unit, origin, discount, way)


def _budgets(grid: BudgetGrid, low: float, high: float) -> Budgets:
    H, scale = grid.horizon, grid.discount ** np.arange(grid.horizon)
    most = np.array([int(grid.units(h, np.array([high * scale[h]]))[0]) for h in range(H)])
    nothing = np.array([int(grid.units(h, np.zeros(1))[0]) for h in range(H)])
    return Budgets(grid, _from_end(most), _from_end(nothing))


def _from_end(units: np.ndarray) -> np.ndarray:
    """Sums over steps h.., [H + 1], of units [H]."""
    return np.concatenate([np.cumsum(units[::-1])[::-1], [0]]).astype(np.int64)
