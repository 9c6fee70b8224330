"""Reward laws on a budget grid: what the paper assumes the learner knows.

A law is a probability vector over whole units j = 0..top of a grid whose unit is upsilon. Few different
laws serve many pairs, so pairs hold an index into a list of laws. Rewards that are not on the grid are
rounded up (the paper's U(r)): P(j) = P((j - 1) upsilon < r <= j upsilon).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.models.grid import BudgetGrid, as_fraction, exact_grid
from tailrank.models.mdp import FiniteMDP
from tailrank.models.ragged import owners

MOST_ENTRIES = 2**27
"""Probabilities in the table of the reward laws of all pairs."""


@dataclass(frozen=True)
class RewardLaw:
    """Laws of the reward in units, independent of the next state given (state, action).

    laws [L, n]: probability of j = 0..n-1 units. which [H, S, A]: the law of each pair at each step.
    """

    grid: BudgetGrid
    laws: np.ndarray
    which: np.ndarray

    def __post_init__(self) -> None:
        bad = np.flatnonzero(~(np.abs(self.laws.sum(axis=1) - 1.0) <= checks.PROBABILITY_TOLERANCE))
        if bad.size or (self.laws < 0).any():
            row = int(bad[0]) if bad.size else int(np.argwhere(self.laws < 0)[0, 0])
            raise InputError(f"laws[{row}] sums to {self.laws[row].sum():.9g} or is negative, expected a law")
        if self.which.min() < 0 or self.which.max() >= len(self.laws):
            raise InputError(
                f"which: must lie in 0..{len(self.laws) - 1}, found {self.which.min()}..{self.which.max()}"
            )

    @property
    def top(self) -> int:
        """The largest reward in units."""
        return int(self.laws.shape[1] - 1)

    @property
    def n_budgets(self) -> int:
        """Budgets 0..H top that can be left to earn."""
        return int(self.which.shape[0] * self.top + 1)

    @property
    def means(self) -> np.ndarray:
        """Mean of each law in units, [L]."""
        return self.laws @ np.arange(self.laws.shape[1])

    def charge(self, h: int, reward: np.ndarray, budgets: np.ndarray) -> np.ndarray:
        """Budgets [n] after the (undiscounted) rewards [n] of step h; a reward outside the range is an error."""
        spent = self.grid.units(h, reward * self.grid.discount**h)
        bad = np.flatnonzero((spent < 0) | (spent > self.top))
        if bad.size:
            low, high = (float(self.grid.origin[h]) + j * float(self.grid.unit) for j in (0, self.top))
            raise InputError(
                f"reward = {reward[bad[0]]:g} at step {h}: lies outside the declared range {low:g} to {high:g}; "
                "declare reward laws that cover it"
            )
        return np.maximum(budgets - spent, 0)

    @classmethod
    def from_mdp(cls, mdp: FiniteMDP, upsilon: float | None = None) -> RewardLaw:
        """The reward laws of an MDP: on their own lattice, or rounded up to multiples of `upsilon`."""
        grid = learning_grid(mdp, upsilon)
        shape = (mdp.horizon, mdp.n_states, mdp.n_actions)
        units = [grid.units(h, mdp.scaled_rewards(h)) for h in range(mdp.horizon)]
        top = max(int(u.max(initial=0)) for u in units)
        if math.prod(shape) * (top + 1) > MOST_ENTRIES:
            raise InputError(
                f"upsilon: rewards of up to {top} units of {float(grid.unit):g} need a table of "
                f"{math.prod(shape) * (top + 1):.3g} numbers, at most {MOST_ENTRIES:.3g} fit; give a larger spacing"
            )
        paid = np.unique(np.concatenate([[0], *units]))  # few of the units up to the top, where these are small
        pmf = np.zeros((*shape, paid.size))
        for h, u in enumerate(units):
            ptr, _, prob, _ = mdp.rows(h)
            np.add.at(pmf[h].reshape(-1, paid.size), (owners(ptr), np.searchsorted(paid, u)), prob)
        pmf[pmf.sum(axis=-1) == 0, 0] = 1.0
        rows, which = np.unique(pmf.reshape(-1, paid.size).round(15), axis=0, return_inverse=True)
        laws = np.zeros((len(rows), top + 1))
        laws[:, paid] = rows
        return cls(grid, laws / laws.sum(axis=1, keepdims=True), which.reshape(shape))

    @classmethod
    def from_cdfs(
        cls, cdfs: list[Callable[[np.ndarray], np.ndarray]], which: np.ndarray, upsilon: Fraction
    ) -> RewardLaw:
        """Rewards in [0, 1] with these distribution functions, rounded up to multiples of upsilon = 1 / m."""
        if upsilon <= 0 or upsilon.numerator != 1:
            raise InputError(f"upsilon = {upsilon}: must be 1 over a whole number, so that budgets stay on the grid")
        points = np.arange(upsilon.denominator + 1) / upsilon.denominator
        below = np.stack([np.asarray(cdf(points), dtype=np.float64) for cdf in cdfs])
        laws = np.diff(below, axis=1, prepend=0.0)
        return cls(BudgetGrid(upsilon, (Fraction(0),) * which.shape[0], "up"), laws, which)


def learning_grid(mdp: FiniteMDP, upsilon: float | None) -> BudgetGrid:
    """A grid on which every reward of the MDP is a non-negative number of units."""
    rewards = [mdp.rows(h)[3] for h in range(mdp.n_blocks)]
    if upsilon is None:
        grid = exact_grid(rewards, mdp.horizon, mdp.discount)
        if grid is None:
            raise InputError("upsilon: the rewards share no unit; give the spacing of the grid they are rounded up to")
        return grid
    lowest = [Fraction(float(mdp.scaled_rewards(h).min())) for h in range(mdp.horizon)]
    spacing = checks.number(upsilon, "upsilon")
    if spacing <= 0.0:
        raise InputError(f"upsilon = {upsilon}: must be positive")
    return BudgetGrid(as_fraction(spacing), tuple(lowest), "up", mdp.discount)


def dependence(mdp: FiniteMDP) -> float:
    """Largest difference between the joint law of (reward, next state) and the product of its marginals.

    Zero where the paper's assumption holds that they are independent given state and action.
    """
    return float(dependences(mdp).max(initial=0.0))


def dependences(mdp: FiniteMDP) -> np.ndarray:
    """That difference for every pair of every step block, [B S A]."""
    worst = np.zeros(mdp.ptr.size - 1)
    for b in range(mdp.n_blocks):
        ptr, next_state, prob, reward = mdp.rows(b)
        for k in np.flatnonzero(np.diff(ptr) > 1):
            rows = slice(ptr[k], ptr[k + 1])
            s, i = np.unique(next_state[rows], return_inverse=True)
            r, j = np.unique(reward[rows], return_inverse=True)
            joint = np.zeros((s.size, r.size))
            np.add.at(joint, (i, j), prob[rows])
            gap = np.abs(joint - joint.sum(1, keepdims=True) * joint.sum(0)).max()
            worst[b * (ptr.size - 1) + k] = gap
    return worst
