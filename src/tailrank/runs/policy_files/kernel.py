"""Policies of kernel models as named arrays and plain values, and back; every index is checked before it is used."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.policies.kernel import BudgetScale, KernelPolicy, KernelRows, Metric

PLAIN = ("representatives", "bonus", "allowed", "steps", "tables")
ROWS = ("ptr", "after", "shift", "weight")
METRIC = ("centre", "project")
SCALE = ("unit", "low", "origin", "count")


def to_parts(policy: KernelPolicy) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays, and the other values."""
    arrays = {name: getattr(policy, name) for name in PLAIN}
    arrays |= {f"rows.{name}": getattr(policy.rows, name) for name in ROWS}
    arrays |= {f"metric.{name}": getattr(policy.metric, name) for name in METRIC}
    return arrays, scale_parts(policy.scale) | {
        "neighbours": policy.neighbours,
        "budget": policy.budget,
        "horizon": policy.horizon,
    }


def scale_parts(scale: BudgetScale) -> dict[str, Any]:
    """The values of a scale of budgets."""
    return {f"scale.{name}": getattr(scale, name) for name in SCALE}


def scale_from(scalars: dict[str, Any]) -> BudgetScale:
    """The scale that was stored."""
    unit, low, origin = (checks.number(scalars[f"scale.{name}"], name) for name in SCALE[:3])
    return BudgetScale(checks.positive(unit, "unit"), low, checks.whole(scalars["scale.count"], "count", 2), origin)


def from_parts(arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> KernelPolicy:
    """The policy that was stored; what does not fit together is refused."""
    representatives, bonus, allowed, steps, tables = (arrays[name] for name in PLAIN)
    metric = Metric(*(_floats(arrays[f"metric.{name}"], f"metric.{name}") for name in METRIC))
    rows = KernelRows(*(arrays[f"rows.{name}"] for name in ROWS))
    scale = scale_from(scalars)
    H, K = checks.whole(scalars["horizon"], "horizon"), checks.whole(scalars["neighbours"], "neighbours")
    _require(bonus.ndim == 2 and bonus.size > 0, "bonus: must be [M, A]")
    M, A = bonus.shape
    _require(_floats(representatives, "representatives").shape[:1] == (M,), "representatives: must be [M, k]")
    _require(representatives.ndim == 2 and representatives.dtype == np.float64, "representatives: must be [M, k]")
    m, k = metric.centre.size, representatives.shape[1]
    _require(metric.centre.ndim == 1 and metric.project.shape == (m + 1, k), "metric: must be [m], [m + 1, k]")
    _require(K <= M, f"neighbours = {K}: must be at most {M}")
    _require(_floats(bonus, "bonus").dtype == np.float64, "bonus: must be numbers")
    _require(allowed.shape == (M, A) and allowed.dtype == bool, "allowed: must be [M, A] of true and false")
    _check_rows(rows, M, A)
    _require(steps.ndim == 1 and steps.dtype == np.int64 and steps.size > 0, "steps: must be whole numbers")
    _require(int(steps[0]) == 0 and int(steps[-1]) == H - 1, f"steps: must lead from 0 to {H - 1}")
    _require(bool((np.diff(steps) > 0).all()), "steps: must increase")
    _require(_floats(tables, "tables").shape == (steps.size, M, scale.count), "tables: must be [T, M, C]")
    budget = checks.number(scalars["budget"], "budget")
    return KernelPolicy(metric, representatives, K, rows, scale, bonus, allowed, steps, tables, budget, H)


def _check_rows(rows: KernelRows, M: int, A: int) -> None:
    ptr, after, shift, weight = rows.ptr, rows.after, rows.shift, rows.weight
    _require(all(x.dtype == np.int64 for x in (ptr, after, shift)), "rows: must be whole numbers")
    _require(ptr.shape == (M * A + 1,) and after.ndim == 1, "rows: ptr must have an entry for each pair")
    _require(after.shape == shift.shape == _floats(weight, "rows.weight").shape, "rows: must be as long as each other")
    _require(int(ptr[0]) == 0 and int(ptr[-1]) == after.size, "rows: ptr must cover the outcomes")
    _require(bool((np.diff(ptr) >= 0).all()), "rows: ptr must not decrease")
    fits = after.size == 0 or (int(after.min()) >= 0 and int(after.max()) <= M)
    _require(fits, f"rows: after must lie in 0..{M}")


def _floats(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype not in (np.float32, np.float64) or not np.isfinite(array).all():
        raise InputError(f"{name}: must be finite numbers")
    return array


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InputError(message)
