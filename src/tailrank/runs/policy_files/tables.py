"""Policies on states as named arrays and plain values, and back; what is read is checked before it is used."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tailrank import checks
from tailrank._system.arrays import arrays_below, check_arrays
from tailrank.checks import InputError
from tailrank.models.grid import BudgetGrid
from tailrank.policies.tables import BudgetPolicy, ClonedPolicy, LevelPolicy, MarkovPolicy, MixedPolicy

Arrays = dict[str, np.ndarray]
BUDGET = {
    "first": "whole [H, S]",
    "elsewhere": "whole [H, S] >= 0, < A",
    "actions": "whole [n] >= 0, < A",
    "offset": "whole [H, S+1] >= 0, <= n, ordered",
}
LEVEL = {
    "actions": "whole [H, S, K] >= 0, < A",
    "levels": "float [K]",
    "start_level": "whole [S] >= 0, < K",
    "next_state": "whole [n*] >= 0, < S",
    "reward": "float [n*]",
    "ptr": "whole [pairs=S*A+1|H*S*A+1] offsets of n",
    "next_level": "whole [rows*, K] >= 0, < K",
}
MOST_ACTIONS = 2**31
LARGEST_BUDGET = 2**53
SMALL = (np.uint8, np.uint16, np.uint32)
"""Types that actions and levels are kept in where they fit."""


def to_parts(policy: Any) -> tuple[Arrays, dict[str, Any]]:
    """The policy's arrays, and its other values (a grid as it is)."""
    fields = {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy)}
    arrays = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
    others = {name: value for name, value in fields.items() if name not in arrays}
    return arrays, {name: value if isinstance(value, BudgetGrid) else int(value) for name, value in others.items()}


def budget_policy(arrays: Arrays, scalars: dict[str, Any], n_actions: int = MOST_ACTIONS) -> BudgetPolicy:
    """The policy with these tables, none of which leads out of another."""
    check_scalars(scalars, "budget", "grid")
    check_arrays(arrays, BUDGET, H=scalars["grid"].horizon, A=n_actions)
    budget = checks.whole(scalars["budget"], "budget", -LARGEST_BUDGET)
    if budget > LARGEST_BUDGET:
        raise InputError(f"budget = {budget}: must be at most 2^53 in size")
    return BudgetPolicy(grid=scalars["grid"], budget=budget, **_with_own_types(arrays))


def mixed_parts(policy: MixedPolicy) -> tuple[Arrays, dict[str, Any]]:
    """Both policies under their names, the share and the seed of the draws; they share the grid."""
    if policy.first.grid != policy.second.grid:
        raise InputError("policy: the two policies of a mixture must have the same grid to be saved")
    arrays: Arrays = {}
    scalars: dict[str, Any] = {"grid": policy.first.grid, "share": float(policy.share), "seed": int(policy.seed)}
    for name, one in (("first", policy.first), ("second", policy.second)):
        own, others = to_parts(one)
        arrays |= {f"{name}.{key}": value for key, value in own.items()}
        scalars[f"{name}.budget"] = others["budget"]
    return arrays, scalars


def mixed_policy(arrays: Arrays, scalars: dict[str, Any]) -> MixedPolicy:
    """The mixture of two policies that fit together."""
    check_scalars(scalars, "grid", "share", "seed", "first.budget", "second.budget")
    share = checks.inside(scalars["share"], "share", "[0, 1]")
    first, second = (
        budget_policy(arrays_below(arrays, f"{name}."), {"grid": scalars["grid"], "budget": scalars[f"{name}.budget"]})
        for name in ("first", "second")
    )
    if first.first.shape != second.first.shape or len(arrays) != 2 * len(BUDGET):
        raise InputError("first, second: must be policies of the same steps and states, and nothing else")
    return MixedPolicy(first, second, share, checks.whole(scalars["seed"], "seed", 0))


def markov_policy(arrays: Arrays, scalars: dict[str, Any]) -> MarkovPolicy:
    """The policy with these actions."""
    check_scalars(scalars)
    check_arrays(arrays, {"actions": "whole [H, S] >= 0"})
    return MarkovPolicy(**_with_own_types(arrays))


def cloned_parts(policy: ClonedPolicy) -> tuple[Arrays, dict[str, Any]]:
    """Its law and its horizon; the random numbers are drawn afresh."""
    return {"law": policy.law}, {"horizon": policy.horizon}


def cloned_policy(arrays: Arrays, scalars: dict[str, Any]) -> ClonedPolicy:
    """The policy with this law."""
    check_scalars(scalars, "horizon")
    check_arrays(arrays, {"law": "float [S, A] >= 0, sums to 1"})
    return ClonedPolicy(arrays["law"], checks.steps(scalars["horizon"]))


def level_policy(arrays: Arrays, scalars: dict[str, Any]) -> LevelPolicy:
    """The policy with these levels and outcomes."""
    check_scalars(scalars, "n_actions")
    A = checks.whole(scalars["n_actions"], "n_actions")
    size = check_arrays(arrays, LEVEL, A=A)
    rows = size["n"] if size["pairs"] - 1 > size["S"] * A else size["H"] * size["n"]
    if size["rows"] != rows:
        raise InputError(f"next_level: must have {rows} rows, one for each outcome; found {size['rows']}")
    return LevelPolicy(n_actions=A, **_with_own_types(arrays))


def check_scalars(scalars: dict[str, Any], *names: str) -> None:
    """Raise unless these are the names of the plain values."""
    if set(scalars) != set(names):
        raise InputError(f"scalars: must hold {sorted(names)}; found {sorted(scalars)!s:.200}")


def _with_own_types(arrays: Arrays) -> Arrays:
    """The arrays in the types that they have when a policy is made."""
    types = {
        name: x.dtype if x.dtype in SMALL else np.float64 if x.dtype.kind == "f" else np.int64
        for name, x in arrays.items()
    }
    return {name: array.astype(types[name], copy=False) for name, array in arrays.items()}
