"""The budgets that a plan covers: the returns that were seen from any step on, and somewhat more.

Rewards are counted from the most common one (or the median), so that a reward which is always paid costs nothing. Where
few different rewards share a unit that is not too fine, budgets are multiples of it and nothing is rounded.
"""

from __future__ import annotations

import numpy as np

from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.models.grid import exact_grid
from tailrank.policies.kernel import BudgetScale

WIDER = 0.1
"""The range of returns is widened by this share of itself on both sides."""
FEW = 50
"""Different rewards for which a shared unit is looked for."""
FINER = 4
"""A shared unit may take this many times the budgets that were asked for, if nobody says more."""

SMALL = 1e-3
"""Rewards that are all smaller are counted in another power of ten."""


def budget_scale(
    played: PlayedEpisodes, budgets: int, exact: bool = True, finer: int = FINER, drift: np.ndarray | None = None
) -> BudgetScale:
    """About `budgets` budgets over all returns from a step on that were seen; more where rewards share a fine unit.

    exact: whether such a unit is looked for; finer: it may take so many times the budgets. drift [T]:
    what the reward of each transition changes by with the step; then budgets cover what it would pay at any step.
    """
    values, counts = np.unique(played.rewards, return_counts=True)
    often = int(np.argmax(counts))
    origin = float(values[often]) if 2 * counts[often] > played.steps else float(np.median(played.rewards))
    above = played.to_go() - origin * (played.horizon - played.step_numbers())
    # A cut-off episode has nothing to come; one that ended early has -origin times the steps that it did not play.
    if drift is not None:
        above = np.concatenate([above, *(above + drift * (h - played.step_numbers()) for h in (0, played.horizon - 1))])
    low, high = min(float(above.min()), 0.0), max(float(above.max()), 0.0)
    spread = (high - low) or max(abs(origin), 1.0)
    low, high = low - WIDER * spread, high + WIDER * spread
    # Where episodes end early, what their end is worth moves by the origin with every step.
    finest = (high - low) / (finer * budgets)
    shared = _shared_unit(np.append(values - origin, origin), finest) if exact else None
    unit = shared or (high - low) / (budgets - 1)
    first = int(np.floor(low / unit))
    return BudgetScale(unit, float(first), int(np.ceil(high / unit)) - first + 1, origin)


def covers(scale: BudgetScale, played: PlayedEpisodes) -> bool:
    """Whether all returns from a step on lie within the budgets."""
    place = scale.place(played.to_go(), played.horizon - played.step_numbers())
    return bool(place.min() >= 0.0 and place.max() <= scale.count - 1)


def _shared_unit(values: np.ndarray, finest: float) -> float | None:
    """The unit of which all the values are multiples, at least `finest`."""
    if not 1 < values.size <= FEW:
        return None
    # Rounded to nine digits, which must not round small rewards away.
    largest = float(np.abs(values).max())
    tens = 10.0 ** -np.floor(np.log10(largest)) if 0.0 < largest < SMALL else 1.0
    grid = exact_grid([np.union1d(np.round(values * tens, 9), [0.0])], 1, 1.0)
    return float(grid.unit) / tens if grid is not None and float(grid.unit) / tens >= finest else None
