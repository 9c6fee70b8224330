"""Expected rewards on a grid: what the second table of an induction adds up."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np

from tailrank.models.grid import BudgetGrid
from tailrank.models.mdp import FiniteMDP


def origins_left(grid: BudgetGrid) -> np.ndarray:
    """What the grid's origin earns from each step on, [H + 1]."""
    return np.array([float(x) for x in accumulate(reversed(grid.origin), initial=Fraction(0))])[::-1]


@lru_cache(maxsize=8)
def _mean_rewards_once(mdp: FiniteMDP, origin: float) -> np.ndarray:
    return _mean_of_pairs(mdp.rows(0)[0], mdp.prob * (mdp.reward - origin))


def mean_rewards(mdp: FiniteMDP, grid: BudgetGrid, h: int) -> np.ndarray:
    """The expected (discounted) reward of each pair at step h, above the grid's origin, in reward units, [S A]."""
    origin = float(grid.origin[h])
    if mdp.same_every_step:
        return _mean_rewards_once(mdp, origin)
    ptr, _, prob, _ = mdp.rows(h)
    return _mean_of_pairs(ptr, prob * (mdp.scaled_rewards(h) - origin))


def _mean_of_pairs(ptr: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """The terms [n] added up by pairs, [S A]."""
    return np.bincount(np.repeat(np.arange(ptr.size - 1), np.diff(ptr)), weights=terms, minlength=ptr.size - 1)
