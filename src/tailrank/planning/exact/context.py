"""An MDP with what every pass of a solve over it shares: computed when first asked for, and once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tailrank.models.grid import BudgetGrid, Rounding, exact_grid, rounded_grid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.criteria.mean import risk_neutral
from tailrank.planning.exact import induction
from tailrank.policies.tables import MarkovPolicy


@dataclass(frozen=True)
class SolveContext:
    """An MDP with what every pass over it shares."""

    original: FiniteMDP
    undominated: bool = True

    @classmethod
    def of(cls, mdp: FiniteMDP, undominated: bool = True) -> SolveContext:
        """The context of `mdp`; what is asked for is computed then, once."""
        return cls(mdp, undominated)

    @cached_property
    def mdp(self) -> FiniteMDP:
        """The MDP with equal rows added up."""
        return self.original.merged()

    @cached_property
    def met(self) -> np.ndarray:
        """Whether a state can be met at a step, [H + 1, S]."""
        return induction.reachable(self.mdp)

    @cached_property
    def _risk_neutral(self) -> tuple[MarkovPolicy, np.ndarray]:
        return risk_neutral(self.mdp)

    @property
    def mean_policy(self) -> MarkovPolicy:
        """The policy with the best mean."""
        return self._risk_neutral[0]

    @property
    def neutral(self) -> np.ndarray:
        """The best means from every step and state on, [H + 1, S]."""
        return self._risk_neutral[1]

    @cached_property
    def _ranges(self) -> tuple[np.ndarray, np.ndarray]:
        return induction.return_ranges(self.mdp)

    @property
    def low(self) -> np.ndarray:
        """The least that can be earned from each step and state on, [H + 1, S]; `high` the most."""
        return self._ranges[0]

    @property
    def high(self) -> np.ndarray:  # noqa: D102
        return self._ranges[1]

    @property
    def mean(self) -> float:
        """The best mean."""
        return float(self.mdp.start @ self.neutral[0])

    @property
    def ties(self) -> np.ndarray | None:
        """The best means [H + 1, S] for an induction that breaks ties by the mean, None if it does not."""
        return self.neutral if self.undominated else None

    @property
    def width(self) -> float:
        """Largest minus smallest possible return."""
        states = self.mdp.start > 0
        return float(self.high[0][states].max() - self.low[0][states].min())

    @cached_property
    def steps(self) -> tuple[np.ndarray, float, float]:
        """The usual reward of each step [H], how far any is from it, and the largest in size; all discounted.

        The usual one is the most frequent, unless a step pays nothing near it: then it is the nearest that the step
        pays, so that steps with very different rewards do not cost each other digits. Only of states that can be met.
        """
        mdp, origin = self.mdp, np.empty(self.mdp.horizon)
        values, where = np.unique(mdp.reward, return_inverse=True)
        usual = float(values[np.argmax(np.bincount(where, weights=mdp.prob))])
        reach = largest = 0.0
        known: dict[tuple[int, bytes], tuple[float, float]] = {}
        for h in range(mdp.horizon):
            key = (h if mdp.n_blocks > 1 else 0, self.met[h].tobytes())
            if key not in known:
                reward = mdp.rows(h)[3][np.repeat(self.met[h], mdp.rows_of_states(h))]
                known[key] = float(reward.min()), float(reward.max())
            low, high = known[key]
            factor = mdp.discount**h
            nearest = min(max(usual, low), high)
            own = usual if abs(usual - nearest) * factor <= self.width else nearest
            origin[h] = own * factor
            reach = max(reach, abs(high - own) * factor, abs(own - low) * factor)
            largest = max(largest, abs(low) * factor, abs(high) * factor, abs(own) * factor)
        return origin, reach, largest

    @property
    def reach(self) -> float:
        """What a grid must cover: the width of returns, or of the rewards of a step where these cancel."""
        return max(self.width, self.steps[1])

    @property
    def rounding(self) -> float:
        """What floating-point arithmetic may add to, or take off, a return."""
        largest = max(self.steps[2], *(float(np.abs(x[self.met]).max()) for x in (self.low, self.high)))
        return 4.0 * float(np.finfo(np.float64).eps) * (self.mdp.horizon + 1) * largest

    def lattice(self) -> BudgetGrid | None:
        """The grid on which the rewards lie, if there is one."""
        mdp = self.mdp
        rewards = []
        for b in range(mdp.n_blocks):
            met = self.met[b] if mdp.n_blocks > 1 else self.met[:-1].any(axis=0)
            ptr, _, _, reward = mdp.rows(b)
            rewards.append(reward[np.repeat(met, np.diff(ptr[:: mdp.n_actions]))])
        return exact_grid(rewards, mdp.horizon, mdp.discount)

    def grid(self, unit: float, rounding: Rounding) -> BudgetGrid:
        """A grid of this spacing on which the usual reward of every step is free of rounding."""
        return rounded_grid(unit, self.steps[0], self.mdp.discount, rounding)
