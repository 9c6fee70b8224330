"""A policy as columns: one row for each step, state and range of remaining budgets with one action.

budget_from, budget_to: in reward units, both ends included (`BudgetPolicy`; with the plan, 1 or 2, of a `MixedPolicy`);
level_from (`LevelPolicy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.policies.tables import BudgetPolicy, ClonedPolicy, LevelPolicy, MarkovPolicy, MixedPolicy, Policy


def policy_columns(policy: Policy, states: Sequence[object] = (), actions: Sequence[object] = ()) -> dict[str, Any]:
    """Columns by name; states, actions: their names, numbers where there are none."""
    if isinstance(policy, BudgetPolicy):
        columns = _budgets(policy)
    elif isinstance(policy, MixedPolicy):
        both = [_budgets(policy.first), _budgets(policy.second)]
        plan = np.repeat([1, 2], [len(one["step"]) for one in both])
        columns = {"plan": plan} | {name: np.concatenate([one[name] for one in both]) for name in both[0]}
    elif isinstance(policy, MarkovPolicy):
        step, state = np.indices(policy.actions.shape).reshape(2, -1)
        columns = {"step": step, "state": state, "action": policy.actions.ravel()}
    elif isinstance(policy, ClonedPolicy):
        state, action = np.nonzero(policy.law)
        columns = {"state": state, "action": action, "probability": policy.law[state, action]}
    elif isinstance(policy, LevelPolicy):
        columns = _levels(policy)
    else:
        raise InputError(f"to_frame: a {type(policy).__name__} plays on observations, it has no table of states")
    for name, labels in (("state", states), ("action", actions)):
        if labels:
            columns[name] = [labels[int(i)] for i in columns[name]]
    return columns


def _budgets(policy: BudgetPolicy) -> dict[str, Any]:
    H, S = policy.first.shape
    unit, parts = float(policy.grid.unit), []
    for h in range(H):
        begin, sizes = policy.offset[h, :-1], np.diff(policy.offset[h])
        states = np.repeat(np.arange(S), sizes)
        place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        actions = policy.actions[np.repeat(begin, sizes) + place]
        new = np.ones(states.size, dtype=bool)
        new[1:] = (states[1:] != states[:-1]) | (actions[1:] != actions[:-1])
        first = np.flatnonzero(new)
        last = np.append(first[1:], states.size) - 1
        # What is left of the budget in reward units: the grid's offset counts the steps still to come only.
        ends = [policy.first[h, states[i]] + place[i] for i in (first, last)]
        to_come = float(sum(policy.grid.origin[h:]))
        worth = [end * unit + to_come for end in ends]
        parts.append((np.full(first.size, h), states[first], *worth, actions[first].astype(np.int64)))
    names = ("step", "state", "budget_from", "budget_to", "action")
    return dict(zip(names, map(np.concatenate, zip(*parts, strict=True)), strict=True))


def _levels(policy: LevelPolicy) -> dict[str, Any]:
    new = np.ones(policy.actions.shape, dtype=bool)
    new[:, :, 1:] = policy.actions[:, :, 1:] != policy.actions[:, :, :-1]
    step, state, level = np.nonzero(new)
    return {"step": step, "state": state, "level_from": policy.levels[level], "action": policy.actions[new]}
