"""The engine behind risk measures (`risk.measures.base.BudgetEngine`): inductions on one grid of budgets.

On a grid where all rewards lie every answer is exact. On one with rewards rounded up every answer is an upper bound:
returns are `lift` larger than on the grid, which covers what rounding to the nearest float may take off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tailrank.models.grid import BudgetGrid
from tailrank.planning.exact import induction
from tailrank.planning.exact.context import SolveContext
from tailrank.planning.exact.curve import InductionRequest, require_memory
from tailrank.planning.exact.layouts import whole_layout
from tailrank.planning.exact.limits import Limits, OutOfTime, unlimited
from tailrank.planning.exact.means import mean_rewards
from tailrank.planning.exact.return_law import return_law
from tailrank.planning.objectives.markov import entropic, worst_case
from tailrank.policies.tables import BudgetPolicy, Policy
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import BestPolicy, Terminal


@dataclass(frozen=True)
class PolicyTable:
    """The policies of an induction: `tables` without a budget, and the grid index of every entry [C]."""

    index: np.ndarray
    tables: BudgetPolicy

    def policy(self, i: int) -> BudgetPolicy:
        """The policy that starts with the budget of entry i."""
        return self.tables.with_budget(int(self.index[i]))


@dataclass(frozen=True)
class ValueTable(PolicyTable):
    """See `risk.measures.base.BudgetTable`."""

    budgets: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class ShortfallTable(PolicyTable):
    """See `risk.measures.base.TailTable`."""

    budgets: np.ndarray
    shortfall: np.ndarray
    means: np.ndarray


@dataclass(frozen=True)
class MarkovEngine:
    """Best policies of the MDP of `problem` that need no budgets."""

    problem: SolveContext
    limits: Limits
    span: float

    def exponential(self, beta: float) -> BestPolicy:
        """See `risk.measures.base.BudgetEngine.exponential`."""
        policy, value = entropic(self.problem.original, beta)
        return BestPolicy(policy, value, value)

    def mean(self) -> BestPolicy:
        """See `risk.measures.base.BudgetEngine.mean`."""
        return BestPolicy(self.problem.mean_policy, self.problem.mean, self.problem.mean)

    def worst(self) -> BestPolicy:
        """See `risk.measures.base.BudgetEngine.worst`."""
        policy, value = worst_case(self.problem.original)
        return BestPolicy(policy, value, value)

    def allowed(self, value: float) -> float:
        """Half of what a bracket may be wide: the other half is for rounding. span: of the values of the measure."""
        return max(0.5 * self.limits.allowed(value, value, self.span), 1e-14 * (self.span + abs(value)))

    def may_go_on(self) -> bool:
        """Whether there is time left."""
        return self.limits.left() > 0.0


@dataclass(frozen=True)
class GridEngine(MarkovEngine):
    """Best policies of the MDP of `problem` with its rewards on `grid`; returns are `lift` larger.

    check: called before every step of an induction.
    """

    grid: BudgetGrid
    lift: float = 0.0
    check: Callable[[], None] = unlimited

    @cached_property
    def _narrow(self) -> induction.Layout:
        return induction.layout(self.problem.mdp, self.grid, self.problem.met)

    @cached_property
    def _ends(self) -> tuple[int, int]:
        """Grid indices of the least and the most that can be earned."""
        table, states = self._narrow.tables[0], self.problem.mdp.start > 0
        return int(table.first[states].min()), int(table.last[states].max())

    @property
    def low(self) -> float:
        """The least return."""
        return self._real(self._ends[0])

    @property
    def high(self) -> float:
        """The largest return."""
        return self._real(self._ends[1])

    def _real(self, index: int) -> float:
        return float(self.grid.value(index)) + self.lift

    def table(self, terminal: Terminal, first: float, last: float | None = None) -> ValueTable:
        """See `risk.measures.base.BudgetEngine.table`."""
        unit, mdp = float(self.grid.unit), self.problem.mdp
        offset = float(self.grid.offset) + self.lift
        begin, off = self._nearest(first, offset)
        end = begin if last is None else self._nearest(last, offset)[0]
        # A budget that is left is worth its index in units, however large the offset.
        shift = off if last is None else 0.0
        layout = whole_layout(mdp, self.grid, begin, end)
        ended = layout.tables[-1]
        held = np.flatnonzero(np.diff(ended.offset))
        bottom, top = int(ended.first[held].min()), int(ended.last[held].max())
        if 8 * (top - bottom + 1) > self.limits.bytes:  # a grid this fine is of no use, whatever time there is
            raise OutOfTime
        worth = -terminal(np.arange(bottom, top + 1) * unit + shift)
        final = np.concatenate([worth[ended.first[s] - bottom : ended.last[s] - bottom + 1] for s in held])
        job = InductionRequest(mdp, self.grid, layout, keep_actions=True, neutral=np.empty(0))
        require_memory(job, job.kept_bytes, self.limits.bytes)
        found = job.induct(None, self.check, final=final)
        states = np.flatnonzero(mdp.start > 0)
        values = -(mdp.start[states] @ found.start_tables(states, end - begin + 1))
        index = np.arange(begin, end + 1)
        budgets = np.asarray(self.grid.value(index)) + self.lift + shift
        return ValueTable(
            index, job.policy(found.actions, self.problem.mean_policy.actions), budgets, np.asarray(values)
        )

    def _nearest(self, budget: float, offset: float) -> tuple[int, float]:
        """The grid index nearest to a budget, and how far above it the budget lies."""
        unit = float(self.grid.unit)
        index = round((budget - offset) / unit)
        if abs(index) > 2**62:
            raise OutOfTime  # a grid this fine is of no use, whatever time there is
        off = budget - self._real(index)
        near = 16.0 * np.finfo(np.float64).eps * max(abs(budget), abs(offset))  # as a target is read in a law
        return index, 0.0 if abs(off) <= near else off

    def tails(self, weight: float = 0.0) -> ShortfallTable:
        """See `risk.measures.base.BudgetEngine.tails`."""
        mdp, mean_actions = self.problem.mdp, self.problem.mean_policy.actions
        job = InductionRequest(mdp, self.grid, self._narrow, keep_actions=True, neutral=self.problem.neutral)
        require_memory(job, job.kept_bytes, self.limits.bytes)
        found = job.induct(mean_actions, self.check, bonus=self._bonus(weight))
        index, units = found.curve(mdp.start)
        means = found.mean_curve(mdp.start)
        unit = float(self.grid.unit)
        shortfall = np.maximum(units * unit + weight * means, 0.0) if weight else units * unit
        budgets = np.asarray(self.grid.value(index)) + self.lift
        return ShortfallTable(
            index, job.policy(found.actions, mean_actions), budgets, shortfall, means + float(self.grid.offset)
        )

    def _bonus(self, weight: float) -> np.ndarray | None:
        """weight E r of every pair in units, [H, S A]."""
        if weight == 0.0:
            return None
        mdp, scale = self.problem.mdp, weight / float(self.grid.unit)
        if mdp.same_every_step and all(x == self.grid.origin[0] for x in self.grid.origin):
            return np.broadcast_to(scale * mean_rewards(mdp, self.grid, 0), (mdp.horizon, mdp.n_states * mdp.n_actions))
        return np.stack([scale * mean_rewards(mdp, self.grid, h) for h in range(mdp.horizon)])

    def law(self, policy: Policy) -> ReturnLaw:
        """See `risk.measures.base.BudgetEngine.law`."""
        return return_law(policy, self.problem.mdp, self.grid).law
