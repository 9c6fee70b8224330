"""Tables for terminal values of any shape."""

from __future__ import annotations

import numpy as np

from tailrank.models.grid import BudgetGrid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact.forward import FAR, budgets_after
from tailrank.planning.exact.induction import Layout, tables_of, unchanging, units_of_steps
from tailrank.planning.exact.storage import Storage


def whole_layout(mdp: FiniteMDP, grid: BudgetGrid, first: int, last: int) -> Layout:
    """Tables of all budgets that can follow from the starting budgets first..last, whatever is done.

    Nothing is read beyond their ends, so they serve any terminal value.
    """
    step_units, states = units_of_steps(mdp, grid), mdp.start > 0
    low, high = np.where(states, first, FAR), np.where(states, last, -FAR)
    tables, products = [tables_of(np.where(states, low, 0), high, states)], 0.0
    for h in range(mdp.horizon):
        products += float(mdp.rows_of_states(h) @ np.diff(tables[-1].offset).astype(np.float64))
        low, high = budgets_after(mdp, h, step_units(h), low, high)
        tables.append(tables_of(np.where(low <= high, low, 0), high, low <= high))
    return Layout(tuple(tables), products, Storage.of(mdp, tuple(tables), unchanging(mdp, grid)))
