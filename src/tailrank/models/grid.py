"""Budgets as integers: the common unit of rewards, and the grid that rewards are rounded to.

A budget is what is still to be earned. On a grid it is an integer i, worth `offset + i * unit`, and a
reward moves it down by a whole number of units, so budget arithmetic is exact. When all rewards of all
steps differ by whole multiples of one rational unit (found here, also for 0.1 and 1/3 given in floats),
the grid loses nothing. Otherwise rewards are rounded: *up* makes every return at least as large, so the
optimum on the grid is an upper bound on CVaR* (the paper's U(r), Section 5); *down* gives lower bounds; *nearest* is
the unbiased choice to act on.

Rewards are counted from an origin (one reward a step), so a grid costs only the spread of the rewards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

Rounding = Literal["exact", "up", "nearest", "down"]

RELATIVE_NOISE = 16 * np.finfo(np.float64).eps
"""Two numbers this close are taken for the same number blurred by floating-point arithmetic."""

ROUNDING_SLACK = 1e-9
"""ceil(0.3 / 0.1) is 4 in floats: a reward this close (in units) to a grid point lies on it."""

LARGEST_LEVEL = 2**40
"""Units between the least and the most that an episode can earn: with more no table would fit."""

FAITHFUL = Fraction(1, 10**12)
"""How far a reward may be moved to a simple fraction, relative to the spread of the rewards beside it."""


@dataclass(frozen=True, eq=False)
class BudgetGrid:
    """Integers for rewards and budgets.

    unit: spacing in reward units. origin [H]: the (discounted) reward of each step that counts as zero.
    """

    unit: Fraction
    origin: tuple[Fraction, ...]
    rounding: Rounding
    discount: float = 1.0

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.origin)

    @cached_property
    def offset(self) -> Fraction:
        """The return of an episode whose rewards are all at their origin."""
        return sum(self.origin, Fraction(0))

    def units(self, h: int, reward: np.ndarray) -> np.ndarray:
        """Whole units [n] (int64) that the discounted rewards [n] of step h take off a budget."""
        with np.errstate(over="ignore"):
            x = (np.asarray(reward, dtype=np.float64) - float(self.origin[h])) / float(self.unit)
        # Rewards beyond belong to states that are never met.
        x = np.clip(x, -2.0 * LARGEST_LEVEL, 2.0 * LARGEST_LEVEL)
        if self.rounding == "up":
            return np.ceil(x - ROUNDING_SLACK).astype(np.int64)
        if self.rounding == "down":
            return np.floor(x + ROUNDING_SLACK).astype(np.int64)
        return np.floor(x + 0.5).astype(np.int64)

    def value(self, index: np.ndarray | int) -> np.ndarray:
        """What budgets with these indices are worth, in reward units."""
        scale = math.lcm(self.unit.denominator, self.offset.denominator)
        step, base = int(self.unit * scale), int(self.offset * scale)
        i = np.asarray(index, dtype=np.int64)
        largest = int(np.abs(i).max(initial=0))
        if max(largest * step + abs(base), step, scale) < 2**53:
            return np.asarray((i * step + base) / scale)
        return i * float(self.unit) + float(self.offset)


def exact_grid(rewards: list[np.ndarray], horizon: int, discount: float) -> BudgetGrid | None:
    """The coarsest grid on which every reward of every step lies, or None when there is none.

    rewards: the distinct undiscounted rewards of each step (one array if they are the same at all steps).
    """
    origin: list[Fraction] = []
    unit, width = Fraction(0), Fraction(0)
    seen: dict[bytes, tuple[Fraction, Fraction]] = {}
    if len(rewards) == 1 and discount == 1.0:
        found = _origin_and_unit(np.unique(rewards[0]), Fraction(0), Fraction(horizon))
        return found and BudgetGrid(found[1] or Fraction(1), (found[0],) * horizon, "exact", discount)
    for h in range(horizon):
        values = np.unique(rewards[h if len(rewards) > 1 else 0] * discount**h)
        key = values.tobytes()
        if key not in seen:
            found = _origin_and_unit(values, unit, Fraction(1))
            if found is None:
                return None
            seen[key] = found
        start, unit_here = seen[key]
        origin.append(start)
        unit = _gcd(unit, unit_here)
        width += Fraction(float(values[-1] - values[0]))
        if unit and width / unit > LARGEST_LEVEL:
            return None
    return BudgetGrid(unit or Fraction(1), tuple(origin), "exact", discount)


def rounded_grid(unit: float, origin: np.ndarray, discount: float, rounding: Rounding) -> BudgetGrid:
    """A grid of the given spacing on which the (discounted) rewards `origin` [H] are free of rounding."""
    return BudgetGrid(Fraction(unit), tuple(Fraction(float(x)) for x in origin), rounding, discount)


def _origin_and_unit(values: np.ndarray, unit: Fraction, steps: Fraction) -> tuple[Fraction, Fraction] | None:
    spread = Fraction(float(values[-1])) - Fraction(float(values[0]))
    start = as_fraction(float(values[0]), FAITHFUL * spread)
    for value in values[1:]:
        unit = _gcd(unit, as_fraction(float(value), FAITHFUL * spread) - start)
        if unit and steps * spread / unit > LARGEST_LEVEL:
            return None
    return start, unit


def as_fraction(x: float, most: Fraction | None = None) -> Fraction:
    """The rational number that `x` stands for: its decimal if that is short, else the simplest nearby.

    most: how far away that may be, where less than the rounding of x itself matters.

    >>> as_fraction(0.1), as_fraction(1 / 3), as_fraction(0.1 + 0.2)
    (Fraction(1, 10), Fraction(1, 3), Fraction(3, 10))
    """
    text = repr(x)
    digits = text.lstrip("-").split("e")[0].replace(".", "").strip("0")
    if len(digits) <= 12:
        return Fraction(text)
    exact = Fraction(x)
    blur = abs(exact) * Fraction(float(RELATIVE_NOISE))
    blur = blur if most is None else min(blur, most)
    if blur == 0:
        return exact
    simple = _simplest_between(exact - blur, exact + blur)
    # Every number has some fraction as near as this; only one that is far simpler than chance would have it is meant.
    return simple if 1000 * blur * simple.denominator**2 <= 1 else exact


def _simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the smallest denominator in [low, high] (continued fractions)."""
    if low <= 0 <= high:
        return Fraction(0)
    if high < 0:
        return -_simplest_between(-high, -low)
    whole = math.ceil(low)
    if whole <= high:
        return Fraction(whole)
    rest = _simplest_between(1 / (high - (whole - 1)), 1 / (low - (whole - 1)))
    return (whole - 1) + 1 / rest


def _gcd(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)
