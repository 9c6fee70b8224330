"""Where a plan goes in the counted model, and what each pair takes off the bound.

With G the saved tables of `induction`, p the counted shares and d_h the law of (state, budget) that the plan meets in
the counted model, what it saves there less what it saves for sure is

    sum_h sum_{s, b} d_h(s, b) (sum_o p(o) x(o) - G_h(s, b)):

every pair has its part of the gap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailrank.planning.pessimistic.induction import SavedTables
from tailrank.planning.pessimistic.model import RecordedModel
from tailrank.risk.law import ReturnLaw


@dataclass(frozen=True, eq=False)
class Reach:
    """visits, cost [H, S A]: how often the plan plays each pair, and what the pair takes off what is saved, in units.

    met: H tables [S + 2, W_h + 1] of the mass of each state and budget.
    """

    visits: np.ndarray
    cost: np.ndarray
    met: tuple[np.ndarray, ...]

    def scaled(self, factor: float) -> Reach:
        """With costs in other units."""
        return replace(self, cost=self.cost * factor)


def reach(model: RecordedModel, tables: SavedTables, column: int, *, worth: bool = False) -> Reach:
    """Where the plan of `tables` goes from the budget of a column. worth: they are those of `worth`, not of what is
    saved."""
    from tailrank.planning.pessimistic import _kernels

    pairs = model.n_states * model.n_actions
    visits, cost = np.zeros((model.horizon, pairs)), np.zeros((model.horizon, pairs))
    mass = np.zeros_like(tables.saved[0])
    mass[model.start.states, column] = model.start.share
    met = []
    for h, step in enumerate(model.steps):
        met.append(mass)
        further = np.zeros_like(tables.saved[h + 1])
        _kernels.reach_next(
            model.n_actions,
            int(model.widths[h] - model.widths[h + 1]) if worth else 0,
            0.0 if worth else 1.0,
            step.ptr,
            step.next_state,
            step.units,
            step.share,
            tables.actions[h],
            mass,
            tables.saved[h + 1],
            tables.saved[h],
            further,
            cost[h],
            visits[h],
        )
        mass = further
    return Reach(visits, cost, tuple(met))


def recorded_law(
    model: RecordedModel, actions: tuple[np.ndarray, ...], budget: int, first: np.ndarray | None = None
) -> ReturnLaw:
    """The law of a plan's return in the counted model, from a budget index; first [H]: budgets of the first columns.

    A pair that was never seen, and an outcome that nobody knows, earn the least from there on.
    """
    from tailrank.planning.pessimistic import _kernels

    S, E = model.n_states, int(model.widths[0]) + 1
    final, mass = np.zeros(E), np.zeros((S + 2, E))
    mass[model.start.states, 0] = model.start.share
    for h, step in enumerate(model.steps):
        further = np.zeros((S + 2, E))
        begin = budget - (0 if first is None else int(first[h]))
        rows = (step.ptr, step.next_state, step.units, step.share)
        _kernels.push_earned(model.n_actions, begin, *rows, actions[h], mass, further)
        more = int(model.ended[h + 1])
        final[more:] += further[S, : E - more]
        final += further[S + 1]
        further[S:] = 0.0
        mass = further
    final += mass[:S].sum(axis=0)
    kept = final > 0.0
    return ReturnLaw.of(model.grid.value(np.flatnonzero(kept)), final[kept] / final.sum())
