"""The law of (state, remaining budget) under a policy, pushed forward on a grid.

As in the induction, states are cut into chunks where there are many: a chunk of a step is computed when all that it
comes from is there, so where next states are near, a few chunks of each step are in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tailrank._system.parallel import over_states
from tailrank.models.grid import BudgetGrid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact.forward import FAR, budgets_after, moved_by, reach
from tailrank.planning.exact.induction import action_type, tables_of, unchanging, units_of_steps
from tailrank.planning.exact.storage import Storage, Tables
from tailrank.policies.tables import BudgetPolicy, MarkovPolicy

Finish = Callable[[int, int, np.ndarray, tuple[np.ndarray, ...]], None]
"""What is done with the law of states begin..end - 1 after the last step, given (begin, end, places, columns)."""


def budget_tables(
    mdp: FiniteMDP, grid: BudgetGrid, steps: int, budget: int, limit: int, check: Callable[[], None]
) -> tuple[Tables, ...] | None:
    """The budgets that can be left before each of the first steps, and after them, whatever is done, from one at the
    start, [steps + 1]; None if those of a step are more than `limit`."""
    states = mdp.start > 0
    low, high = np.where(states, budget, FAR), np.where(states, budget, -FAR)
    units, tables = units_of_steps(mdp, grid), [tables_of(low, high, states)]
    same, moved = unchanging(mdp, grid), None
    for h in range(steps):
        check()
        if moved is None:
            before = low, high
            low, high = budgets_after(mdp, h, units(h), low, high)
            moved = moved_by(before, (low, high)) if same else None
        else:
            low, high = low + moved[0], high + moved[1]
        tables.append(tables_of(low, high, low <= high))
        if tables[-1].size > limit:
            return None
    return tuple(tables)


def push(
    policy: BudgetPolicy | MarkovPolicy,
    mdp: FiniteMDP,
    grid: BudgetGrid,
    tables: tuple[Tables, ...],
    finish: Finish,
    *,
    whole: bool,
    check: Callable[[], None],
) -> None:
    """Push the law through the steps of `tables` (see `budget_tables`); whole: finish all states in one call.

    Its columns are what `_forward_kernels.push_forward` calls mass, drift and square, the last two empty on an exact
    grid.
    """
    from tailrank.planning.exact import _forward_kernels as _kernels

    steps = len(tables) - 1
    same, step_units = unchanging(mdp, grid), units_of_steps(mdp, grid)
    storage = Storage.of(mdp, tables[::-1], same, forward=True, whole=whole)
    cuts, free, nothing = storage.cuts, list(range(storage.passing)), np.empty(0)
    mass = np.empty(storage.slot * storage.passing)
    law = (mass, nothing, nothing) if grid.rounding == "exact" else (mass, np.empty_like(mass), np.empty_like(mass))
    places = np.empty((storage.turns, mdp.n_states, 3), np.int64)
    slot_of = dict[tuple[int, int], int]()

    @lru_cache(maxsize=steps + 1 if same else 1)
    def arguments(h: int) -> tuple[Any, ...]:
        """What the kernel needs for all states at step h."""
        ptr, next_state, prob, _ = mdp.rows(h)
        error = nothing if grid.rounding == "exact" else units_and_error(mdp, grid, h)[1]
        rows = (mdp.n_actions, ptr, next_state, prob, step_units(h), error, reach(mdp, h))
        turn = (steps - h) % storage.turns
        return *rows, *_step_tables(policy, h), places[turn], places[turn - 1], *law

    for task in storage.order:  # which counts the steps that are left
        check()
        begin, end = int(cuts[task.chunk]), int(cuts[task.chunk + 1])
        at, here, own = free.pop(), tables[steps - task.step], places[task.step % storage.turns]
        here.place(slice(begin, end), at * storage.slot, own)
        if task.step == steps:
            starts = begin + np.flatnonzero(mdp.start[begin:end])
            for column in law:
                column[at * storage.slot : at * storage.slot + starts.size] = 0.0
            mass[at * storage.slot : at * storage.slot + starts.size] = mdp.start[starts]
        else:
            sources = np.stack([cuts[task.read], cuts[task.read + 1]], axis=1)
            work = here.offset[begin + 1 : end + 1] - here.offset[begin:end]
            rows = arguments(steps - task.step - 1)
            over_states(_kernels.push_forward, (sources, *rows), work, finely=False, first=begin)
        if task.step == 0:
            finish(begin, end, own, law)
            free.append(at)
        else:
            slot_of[task.step, task.chunk] = at
        free.extend(slot_of.pop(place) for place in task.released)


def units_and_error(mdp: FiniteMDP, grid: BudgetGrid, h: int) -> tuple[np.ndarray, np.ndarray]:
    """Rounded rewards [n] in units, and true minus rounded [n] in reward units, for step h."""
    reward = mdp.scaled_rewards(h)
    units = grid.units(h, reward)
    return units, reward - float(grid.origin[h]) - units * float(grid.unit)


def _step_tables(policy: BudgetPolicy | MarkovPolicy, h: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """first [S], offset [S + 1], actions, elsewhere [S]: the tables of step h."""
    if isinstance(policy, BudgetPolicy):
        return policy.first[h], policy.offset[h], policy.actions, policy.elsewhere[h]
    actions = policy.actions[h]
    # The type that budget policies have: the kernel need not be compiled for another.
    short = actions.astype(action_type(int(actions.max(initial=0)) + 1))
    return np.zeros(actions.size, dtype=np.int64), np.arange(actions.size + 1), short, actions
