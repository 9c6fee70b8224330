"""Policies with real budgets, of kernel models and networks, as named arrays and plain values, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tailrank import checks
from tailrank._system.arrays import check_arrays
from tailrank.checks import InputError
from tailrank.policies.actor import ActorPolicy
from tailrank.policies.kernel import BudgetScale, KernelPolicy, KernelRows, Metric
from tailrank.policies.shortfall import ShortfallPolicy
from tailrank.runs.policy_files import tables

Arrays = dict[str, np.ndarray]
KERNEL = {
    "bonus": "float64 [M, A]",
    "allowed": "bool [M, A]",
    "representatives": "float64 [M, k]",
    "metric.centre": "float [m]",
    "metric.project": "float [m+1, k]",
    "rows.after": "int64 [n*] >= 0, <= M",
    "rows.shift": "int64 [n*]",
    "rows.weight": "float64 [n*] >= 0, <= 1",
    "rows.ptr": "int64 [M*A+1] offsets of n",
    "steps": "int64 [T] increasing, >= 0",
    "tables": "float [T, M, C]",
}
DRIFT = {"rows.drift": "float64 [n*]"}
"""Only where rewards change with the step."""
SCALE = ("unit", "low", "origin", "count")


def kernel_parts(policy: KernelPolicy) -> tuple[Arrays, dict[str, Any]]:
    """Representatives, rows and tables of a kernel model."""
    arrays = {name: getattr(policy, name) for name in KERNEL if "." not in name}
    arrays |= {f"rows.{name}": getattr(policy.rows, name) for name in ("ptr", "after", "shift", "weight")}
    arrays |= {} if policy.rows.drift is None else {"rows.drift": policy.rows.drift}
    arrays |= {f"metric.{name}": getattr(policy.metric, name) for name in ("centre", "project")}
    return arrays, _plain(policy) | {"neighbours": policy.neighbours}


def kernel_policy(arrays: Arrays, scalars: dict[str, Any]) -> KernelPolicy:
    """The policy of a kernel model."""
    scale, budget, H = _read(scalars, "neighbours")
    drift = arrays.get("rows.drift")
    size = check_arrays(arrays, KERNEL | ({} if drift is None else DRIFT), C=scale.count)
    K = checks.whole(scalars["neighbours"], "neighbours")
    if size["M"] < K:
        raise InputError(f"neighbours = {K}: must be at most {size['M']}")
    if int(arrays["steps"][0]) != 0 or int(arrays["steps"][-1]) != H - 1:
        raise InputError(f"steps: must lead from 0 to {H - 1}")
    return KernelPolicy(
        Metric(arrays["metric.centre"], arrays["metric.project"]),
        arrays["representatives"],
        K,
        replace(KernelRows(*(arrays[f"rows.{name}"] for name in ("ptr", "after", "shift", "weight"))), drift=drift),
        scale,
        arrays["bonus"],
        arrays["allowed"],
        arrays["steps"],
        arrays["tables"],
        budget,
        H,
    )


def shortfall_parts(policy: ShortfallPolicy) -> tuple[Arrays, dict[str, Any]]:
    """The weights of the networks, and what they make of features."""
    arrays = {"centre": policy.centre, "spread": policy.spread}
    for i, (w, b) in enumerate(policy.layers):
        arrays |= {f"layer.{i}.weight": w, f"layer.{i}.bias": b}
    return arrays, _plain(policy)


def shortfall_policy(arrays: Arrays, scalars: dict[str, Any]) -> ShortfallPolicy:
    """The policy with these networks: features and two numbers of time go in, slopes for every action come out."""
    scale, budget, H = _read(scalars)
    count = sum(name.endswith(".bias") for name in arrays)
    described = {"centre": "float [m]", "spread": "float [m] > 0"}
    for i in range(count):
        described[f"layer.{i}.weight"] = f"float [E, {f'k{i}' if i else 'm+2'}, k{i + 1}]"
        described[f"layer.{i}.bias"] = f"float [E, k{i + 1}]"
    size = check_arrays(arrays, described)
    if count == 0 or size[f"k{count}"] % (scale.count - 1):
        raise InputError(f"layer: the last must have {scale.count - 1} slopes for every action")
    layers = tuple((arrays[f"layer.{i}.weight"], arrays[f"layer.{i}.bias"]) for i in range(count))
    return ShortfallPolicy(layers, arrays["centre"], arrays["spread"], scale, budget, H)


def actor_parts(policy: ActorPolicy) -> tuple[Arrays, dict[str, Any]]:
    """The weights of the network, and what it makes of features and budgets."""
    arrays = {"centre": policy.centre, "spread": policy.spread}
    for i, (w, b) in enumerate(policy.layers):
        arrays |= {f"layer.{i}.weight": w, f"layer.{i}.bias": b}
    return arrays, {"width": policy.width, "budget": policy.budget, "horizon": policy.horizon}


def actor_policy(arrays: Arrays, scalars: dict[str, Any]) -> ActorPolicy:
    """The policy with this network: features, time and budget go in, a number for every action comes out."""
    tables.check_scalars(scalars, "width", "budget", "horizon")
    count = sum(name.endswith(".bias") for name in arrays)
    described = {"centre": "float [m]", "spread": "float [m] > 0"}
    for i in range(count):
        described[f"layer.{i}.weight"] = f"float [{f'k{i}' if i else 'm+2'}, k{i + 1}]"
        described[f"layer.{i}.bias"] = f"float [k{i + 1}]"
    check_arrays(arrays, described)
    if count == 0:
        raise InputError("layer: there must be at least one")
    layers = tuple((arrays[f"layer.{i}.weight"], arrays[f"layer.{i}.bias"]) for i in range(count))
    width, budget = checks.positive(scalars["width"], "width"), checks.number(scalars["budget"], "budget")
    H = checks.whole(scalars["horizon"], "horizon")
    return ActorPolicy(layers, arrays["centre"], arrays["spread"], width, budget, H)


def _plain(policy: KernelPolicy | ShortfallPolicy) -> dict[str, Any]:
    scale = {name: getattr(policy.scale, name) for name in SCALE}
    return scale | {"budget": policy.budget, "horizon": policy.horizon}


def _read(scalars: dict[str, Any], *more: str) -> tuple[BudgetScale, float, int]:
    """The scale of budgets, the budget at the start, and H."""
    tables.check_scalars(scalars, *SCALE, "budget", "horizon", *more)
    unit, low, origin = (checks.number(scalars[name], name) for name in SCALE[:3])
    scale = BudgetScale(checks.positive(unit, "unit"), low, checks.whole(scalars["count"], "count", 2), origin)
    return scale, checks.number(scalars["budget"], "budget"), checks.whole(scalars["horizon"], "horizon")
