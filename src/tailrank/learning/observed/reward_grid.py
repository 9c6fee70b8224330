"""The grid of a simulator's rewards: declared, or found in the first episodes.

Rewards are whole units above the least reward. Zero lies on the grid, because an episode that is over earns
nothing more. When the pilot's rewards share a unit that is not too fine, that is the unit; otherwise the range is
cut into `levels` steps and rewards are rounded to the nearest. Returns that are reported are never rounded. Episodes
whose rewards are all the same need one step only, from 0 to that reward. A reward outside a grid that was found makes a
new one of all episodes so far (`remember`): in the tail that is the event that matters.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.episodes.replay import Replay
from tailrank.episodes.rollout import Observed
from tailrank.models.grid import BudgetGrid, as_fraction, exact_grid

WIDER = 0.25
"""The range that was seen is widened by this share of itself on both sides."""
FINEST = 100
DECLARED = "declared"
"""Where a grid comes from that nothing but what was declared can change."""


@dataclass(frozen=True)
class RewardGrid:
    """Rewards low + j unit for j = 0..top; `zero` is the j of a reward of 0. source says where it comes from."""

    low: float
    unit: float
    top: int
    zero: int
    source: str

    @classmethod
    def of(
        cls,
        simulator: Simulator,
        declared: tuple[float, float] | None,
        rewards: np.ndarray,
        lengths: np.ndarray,
        levels: int,
    ) -> RewardGrid:
        """The grid for a simulator, from what is declared (by the caller, or by it) or from a pilot's rewards."""
        seen = rewards[np.arange(rewards.shape[1]) < lengths[:, None]]
        declared = getattr(simulator, "reward_range", None) if declared is None else declared
        if declared is not None:
            low, high = checks.span(declared, "reward_range")
            if low == high:
                raise InputError(f"reward_range = {low:g} {high:g}: the first must be below the second")
            source = DECLARED
        else:
            low, high = float(seen.min()), float(seen.max())
            source = f"{len(rewards)} episodes"
            if low == high:
                return cls(min(low, 0.0), abs(low) or 1.0, 1, int(low < 0.0), source)
            low, high = low - WIDER * (high - low), high + WIDER * (high - low)
        low, high = min(low, 0.0), max(high, 0.0)
        unit = _shared_unit(seen, high - low) or (high - low) / levels
        below = math.ceil(round(-low / unit, 9))
        top = below + math.ceil(round(high / unit, 9))
        return cls(-below * unit, unit, top, below, source)

    def holds(self, rewards: np.ndarray, lengths: np.ndarray) -> bool:
        """Whether all rewards [n, H] of episodes of these lengths [n] lie on the grid."""
        units = np.floor((rewards - self.low) / self.unit + 0.5)
        played = np.arange(rewards.shape[1]) < lengths[:, None]
        return bool((~played | ((units >= 0) & (units <= self.top))).all())

    def units(self, rewards: np.ndarray, lengths: np.ndarray, place: Callable[[int], str] = str) -> np.ndarray:
        """Rewards [n, H] in units; steps after the end of an episode get `zero`. place: the name of an episode."""
        units = np.floor((rewards - self.low) / self.unit + 0.5).astype(np.int64)  # as BudgetGrid rounds
        bad = np.argwhere((units < 0) | (units > self.top))
        if bad.size:
            (i, h), high = bad[0], self.low + self.top * self.unit
            raise InputError(
                f"{place(i)}: reward = {rewards[i, h]:g} at step {h}: lies outside {self.low:g} to {high:g}"
                f" ({self.source}); declare a wider reward_range, or none"
            )
        return np.where(np.arange(rewards.shape[1]) < lengths[:, None], units, self.zero)

    def value(self, units: float, horizon: int) -> float:
        """A return of this many units over H steps, in the units of rewards."""
        return units * self.unit + horizon * self.low

    def usual(self, replay: Replay) -> np.ndarray:
        """The usual (median) reward of each step in units, [H]."""
        result = np.full(replay.horizon, self.zero)
        for h in range(replay.horizon):
            alive = replay.alive(h)
            if alive.size:
                result[h] = int(np.median(replay.units[alive[-500:], h]))
        return result

    def budget_grid(self, horizon: int) -> BudgetGrid:
        """The same as a grid of budgets."""
        return BudgetGrid(as_fraction(self.unit), (as_fraction(self.low),) * horizon, "nearest")


def _shared_unit(seen: np.ndarray, spread: float) -> float | None:
    """The unit that few distinct rewards share with 0, if it is not too fine."""
    values = np.unique(seen)
    if not 1 < values.size <= FINEST:
        return None
    grid = exact_grid([np.union1d(values, [0.0])], 1, 1.0)
    if grid is None or grid.unit == Fraction(0) or spread / float(grid.unit) > FINEST:
        return None
    return float(grid.unit)


def remember(replay: Replay, grid: RewardGrid, played: Observed, simulator: Simulator, levels: int) -> RewardGrid:
    """Add played episodes to the replay; the grid of its rewards, a new one where the old one does not hold them."""
    if played.features is None:
        raise InputError("features: were not kept")
    if grid.source != DECLARED and not grid.holds(played.rewards, played.lengths):
        before = grid
        rewards, lengths = (
            np.concatenate([getattr(replay, name), getattr(played, name)]) for name in ("rewards", "lengths")
        )
        grid = RewardGrid.of(simulator, None, rewards, lengths, levels)
        replay.measure(grid.units(replay.rewards, replay.lengths))
        warnings.warn(
            f"{simulator.name}: a reward outside {before.low:g} to {before.low + before.top * before.unit:g} after "
            f"{len(lengths)} episodes; the range is now {grid.low:g} to {grid.low + grid.top * grid.unit:g}",
            stacklevel=3,
        )
    replay.add(
        played.features[:, :-1],
        np.maximum(played.actions, 0),
        grid.units(played.rewards, played.lengths, lambda i: f"{simulator.name}, seed {played.seeds[i]}"),
        played.lengths,
        played.rewards,
    )
    return grid
