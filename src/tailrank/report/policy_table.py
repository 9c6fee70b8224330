"""Which action a policy plays where, as runs of equal actions along the axis of its memory.

The axis is the remaining budget (`BudgetPolicy`), the confidence level (`LevelPolicy`), or, for a policy without
memory, the step itself. A row is a state; a policy with many states is shown in those that its episodes meet most.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrank.policies.tables import BudgetPolicy, LevelPolicy, MarkovPolicy, Policy

MOST_STATES, FEW_STATES = 40, 8
MOST_STEPS = 200
MOST_RUNS = 12_000
TOO_LARGE = "The policy has too many different pieces to draw, even in its {states} most visited states."


def policy_table(policy: Policy, visits: np.ndarray | None) -> dict[str, Any] | str:
    """The table for the page, or why there is none. visits [H, S]: how often episodes were in a state at a step."""
    makers: dict[type, Any] = {BudgetPolicy: _budget, MarkovPolicy: _markov, LevelPolicy: _level}
    make = makers.get(type(policy))
    if make is None:
        return "The policy plays on observations: there is no list of states to draw it on."
    H, S = (policy.first if isinstance(policy, BudgetPolicy) else policy.actions).shape[:2]  # type: ignore[attr-defined]
    order = np.arange(S)
    if visits is not None:
        met = visits.sum(axis=0)
        order = np.argsort(-met, kind="stable")[: S if S <= MOST_STATES else max(1, int((met > 0).sum()))]
    elif S > MOST_STATES:
        return f"There are {S} states, and no episodes that would tell which of them matter."
    for most in (MOST_STATES, MOST_STATES // 2, FEW_STATES):
        states = np.sort(order[:most])
        table: dict[str, Any] = make(policy, states)
        pieces = sum(len(row["runs"]) for step in table["steps"] for row in step["rows"]) // 2
        if pieces <= MOST_RUNS:
            return table | {"horizon": H, "states": [int(s) for s in states], "all_states": S}
    return TOO_LARGE.format(states=states.size)


def _budget(policy: BudgetPolicy, states: np.ndarray) -> dict[str, Any]:
    unit, steps = float(policy.grid.unit), []
    for h in range(min(policy.grid.horizon, MOST_STEPS)):
        # What is left of the budget counts the origins of the steps still to come only.
        to_come = float(sum(policy.grid.origin[h:]))
        rows = []
        for s in states:
            begin, end = policy.offset[h, s], policy.offset[h, s + 1]
            if end > begin:
                first = int(policy.first[h, s]) * unit + to_come
                rows.append({"state": int(s), "first": first, "runs": runs(policy.actions[begin:end])})
        steps.append({"rows": rows})
    return {"axis": "budget", "unit": unit, "steps": steps}


def _markov(policy: MarkovPolicy, states: np.ndarray) -> dict[str, Any]:
    rows = [{"state": int(s), "first": 0, "runs": runs(policy.actions[:, s])} for s in states]
    return {"axis": "step", "unit": 1, "steps": [{"rows": rows}]}


def _level(policy: LevelPolicy, states: np.ndarray) -> dict[str, Any]:
    steps = [
        {"rows": [{"state": int(s), "first": 0, "runs": runs(policy.actions[h, s])} for s in states]}
        for h in range(min(policy.actions.shape[0], MOST_STEPS))
    ]
    return {"axis": "level", "unit": 1, "levels": [float(x) for x in policy.levels], "steps": steps}


def runs(actions: np.ndarray) -> list[int]:
    """Length and action of every run of equal actions, one after the other.

    >>> runs(np.array([3, 3, 0]))
    [2, 3, 1, 0]
    """
    begin = np.concatenate([[0], np.flatnonzero(np.diff(actions.astype(np.int64))) + 1])
    length = np.diff(np.append(begin, actions.size))
    return [int(x) for pair in zip(length, actions[begin], strict=True) for x in pair]
