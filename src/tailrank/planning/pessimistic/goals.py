"""What a plan from records is to be good at: CVaR by shortfalls, any other OCE or expected utility by its worth.

A goal plans in a model, judges a plan in another one, and bounds what any policy can reach. The objective is monotone,
so rewards that are rounded down give lower bounds and rewards that are rounded up give upper ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tailrank.checks import InputError
from tailrank.planning.pessimistic import induction, worth
from tailrank.planning.pessimistic.induction import SavedTables, Watch
from tailrank.planning.pessimistic.model import RecordedModel
from tailrank.planning.pessimistic.reach import Reach, reach, recorded_law
from tailrank.policies.tables import BudgetPolicy
from tailrank.risk.measures.base import Certainty, Measure
from tailrank.risk.measures.cvar import CVaR
from tailrank.risk.measures.entropic import Entropic
from tailrank.risk.measures.reduction import Close, Utility1D

Masks = tuple[np.ndarray, ...]
KNOWN = ("cvar", "mean-cvar", "entropic", "mean", "mean-variance", "utility")


class Goal(Protocol):
    """An objective of the return, as the pessimistic inductions see it."""

    @property
    def measure(self) -> Measure:
        """The objective as a function of a law."""
        ...

    def nodes(self, widths: np.ndarray, n_states: int) -> int:
        """How many (step, state, budget) a plan has; widths [H + 1]: the most units that steps h.. pay."""
        ...

    def plan(self, model: RecordedModel, allowed: Masks, usual: np.ndarray, watch: Watch | None = None) -> SavedTables:
        """The plan that is best in the worst of the model's laws."""
        ...

    def judge(self, model: RecordedModel, actions: Masks) -> SavedTables:
        """The tables of a plan that is given."""
        ...

    def values(self, model: RecordedModel, tables: SavedTables) -> np.ndarray:
        """The objective at least, from every budget index, [n]."""
        ...

    def shifts(self, model: RecordedModel) -> tuple[int, ...]:
        """By how many units less than its own a plan may be judged, 0 first."""
        ...

    def shifted(self, actions: Masks, by: int) -> Masks:
        """The tables of a plan as a judge sees them whose budgets are `by` units less than those of the plan."""
        ...

    def upper(self, model: RecordedModel, allowed: Masks, watch: Watch | None = None) -> float:
        """What no policy exceeds."""
        ...

    def policy(self, model: RecordedModel, actions: Masks, usual: np.ndarray, budget: int) -> BudgetPolicy:
        """The plan as a policy."""
        ...

    def promise(self, model: RecordedModel, actions: Masks, budget: int) -> float:
        """The objective of a plan if the counts are the truth."""
        ...

    def reach(self, model: RecordedModel, tables: SavedTables, budget: int) -> Reach:
        """Where the plan goes; costs are in units of the objective."""
        ...


@dataclass(frozen=True)
class TailGoal:
    """CVaR_tau = max_b { b - E (b - R)^+ / tau }.

    So every b bounds the CVaR of a plan, not only the budget that it begins with. The worst laws make a smaller b best:
    a judge begins with `by` units less than the plan, and both stay as far apart, because both pay the same rewards.
    """

    tau: float

    @property
    def measure(self) -> Measure:
        """CVaR_tau."""
        return CVaR(self.tau)

    def nodes(self, widths: np.ndarray, n_states: int) -> int:
        """Budgets 0..W_h at every step; 0 needs no statement."""
        return int(n_states * widths[:-1].sum())

    def plan(self, model: RecordedModel, allowed: Masks, usual: np.ndarray, watch: Watch | None = None) -> SavedTables:
        """See `induction.plan_pessimistic`."""
        return induction.plan_pessimistic(model, allowed, usual, watch)

    def judge(self, model: RecordedModel, actions: Masks) -> SavedTables:
        """See `induction.judge`."""
        return induction.judge(model, actions)

    def values(self, model: RecordedModel, tables: SavedTables) -> np.ndarray:
        """b - V(b) / tau in reward units."""
        short = induction.shortfall_of(tables)
        return np.asarray(model.grid.value(np.arange(short.size)) - float(model.grid.unit) * short / self.tau)

    def shifts(self, model: RecordedModel) -> tuple[int, ...]:
        """0, 1, 2, 4, .. up to the largest budget."""
        return 0, *(2**i for i in range(int(model.widths[0]).bit_length()))

    def shifted(self, actions: Masks, by: int) -> Masks:
        """Column b of a judge is column b + by of the plan; the last one holds for all that are larger."""
        return tuple(table[:, np.minimum(np.arange(table.shape[1]) + by, table.shape[1] - 1)] for table in actions)

    def upper(self, model: RecordedModel, allowed: Masks, watch: Watch | None = None) -> float:
        """By the least shortfall."""
        return induction.best_budget(model, induction.least_shortfall(model, allowed, watch), self.tau)[1]

    def policy(self, model: RecordedModel, actions: Masks, usual: np.ndarray, budget: int) -> BudgetPolicy:
        """See `induction.policy_of`."""
        return induction.policy_of(model, actions, usual, budget)

    def promise(self, model: RecordedModel, actions: Masks, budget: int) -> float:
        """CVaR_tau of the plan's law."""
        return recorded_law(model, actions, budget).cvar(self.tau)

    def reach(self, model: RecordedModel, tables: SavedTables, budget: int) -> Reach:
        """A unit that is not saved costs 1 / tau."""
        return reach(model, tables, budget).scaled(float(model.grid.unit) / self.tau)


@dataclass(frozen=True)
class WorthGoal:
    """An objective close(b, E u(R - b)), as `risk/measures/reduction.py` has it.

    free: b is any budget (an OCE); else it is `start`, or the least return on the grid where that is None.
    bend: as `Certainty.bend`.
    """

    measure: Measure
    utility: Utility1D
    close: Close
    free: bool = True
    start: float | None = None
    bend: float = 0.0

    def nodes(self, widths: np.ndarray, n_states: int) -> int:
        """Every budget that can be left."""
        starts = int(widths[0]) + 1 if self.free else 1
        return int(n_states * (starts + widths[0] - widths[:-1]).sum())

    def plan(self, model: RecordedModel, allowed: Masks, usual: np.ndarray, watch: Watch | None = None) -> SavedTables:
        """See `worth.plan_worth`."""
        return worth.plan_worth(model, self._worth(model), allowed, usual, watch)

    def judge(self, model: RecordedModel, actions: Masks) -> SavedTables:
        """See `worth.judge_worth`."""
        return worth.judge_worth(model, self._worth(model), actions)

    def values(self, model: RecordedModel, tables: SavedTables) -> np.ndarray:
        """The objective from each start."""
        return np.asarray(self.close(model.grid.value(np.arange(tables.curve.size)), tables.curve))

    def shifts(self, model: RecordedModel) -> tuple[int, ...]:
        """Plans are judged by their own budgets: the tables hold no others."""
        return (0,)

    def shifted(self, actions: Masks, by: int) -> Masks:
        """As it is."""
        return actions

    def upper(self, model: RecordedModel, allowed: Masks, watch: Watch | None = None) -> float:
        """The largest over starts; between two budgets of the grid it is higher by no more than the bend allows."""
        curve = worth.most_worth(model, self._worth(model), allowed, watch)
        most = self.close(model.grid.value(np.arange(curve.size)), curve).max()
        return float(most) + self.bend * float(model.grid.unit) ** 2 / 8.0

    def policy(self, model: RecordedModel, actions: Masks, usual: np.ndarray, budget: int) -> BudgetPolicy:
        """See `induction.policy_of`."""
        return induction.policy_of(model, actions, usual, budget, self._first(model))

    def promise(self, model: RecordedModel, actions: Masks, budget: int) -> float:
        """The measure of the plan's law."""
        return self.measure.of_law(recorded_law(model, actions, budget, self._first(model)))

    def reach(self, model: RecordedModel, tables: SavedTables, budget: int) -> Reach:
        """Costs by the slope of `close`."""
        b, w = model.grid.value(budget), tables.curve[budget]
        step = 1e-6 * max(abs(w), 1e-12)
        slope = (self.close(b, w) - self.close(b, w - step)) / step
        return reach(model, tables, budget, worth=True).scaled(float(slope))

    def _first(self, model: RecordedModel) -> np.ndarray:
        made = self._worth(model)
        return np.array([made.left(model, h)[0] for h in range(model.horizon)])

    def _worth(self, model: RecordedModel) -> worth.Worth:
        unit, base = float(model.grid.unit), float(model.grid.value(0))
        shift = 0.0 if self.start is None else base - self.start
        return worth.Worth(lambda left: self.utility(shift - unit * left), 0, int(model.widths[0]) if self.free else 0)


def goal_of(measure: Measure) -> Goal:
    """The goal of a measure; raises for those that are no OCE and no expected utility."""
    if isinstance(measure, CVaR):
        return TailGoal(measure.tau)
    if isinstance(measure, Entropic):
        beta = measure.beta

        # 1 - exp(-beta t), as learners have it, would lose the digits of small exponentials, and bounds must hold.
        def close(b: np.ndarray, w: np.ndarray) -> np.ndarray:
            return np.asarray(b - np.log(np.maximum(-w, 1e-300)) / beta)

        return WorthGoal(measure, lambda t: -np.exp(-beta * t), close, free=False)
    if measure.name not in KNOWN:
        raise InputError(
            f"objective {measure.name}: must be one that is an expectation for each budget ({', '.join(KNOWN)})"
        )
    form = measure.reduction(0.0, 1.0)  # only the slope, which is not used here, depends on the range of returns
    bend = measure.bend() if isinstance(measure, Certainty) else 0.0
    return WorthGoal(measure, form.utility, form.close, form.start is None, form.start, bend)
