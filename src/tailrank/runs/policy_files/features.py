"""Policies on features as named arrays and plain values, and back; what is read is checked before it is used."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.policies.cells import CellPolicy, Cells
from tailrank.policies.distributional import DistributionalPolicy
from tailrank.policies.kernel import KernelPolicy
from tailrank.policies.shortfall import ShortfallPolicy
from tailrank.policies.softmax import Network, SoftmaxPolicy
from tailrank.policies.tables import BudgetPolicy, check_budget_policy, whole_numbers
from tailrank.runs.policy_files import kernel

KINDS = {
    "softmax": SoftmaxPolicy,
    "cells": CellPolicy,
    "distributional": DistributionalPolicy,
    "kernel": KernelPolicy,
    "shortfall": ShortfallPolicy,
}
CELLS = ("directions", "low", "width", "mixers")
INNER = ("first", "offset", "actions", "elsewhere")

Arrays = dict[str, np.ndarray]


def to_parts(policy: Any) -> tuple[Arrays, dict[str, Any]]:
    """The policy's arrays, and its other values (a grid as it is)."""
    if isinstance(policy, KernelPolicy):
        return kernel.to_parts(policy)
    if isinstance(policy, ShortfallPolicy):
        plain = {"budget": policy.budget, "horizon": policy.horizon} | kernel.scale_parts(policy.scale)
        return _layers(policy.layers) | {"centre": policy.centre, "spread": policy.spread}, plain
    if isinstance(policy, SoftmaxPolicy):
        net = policy.network
        return _layers(net.trunk) | {"head": net.head, "shift": net.shift}, {}
    if isinstance(policy, DistributionalPolicy):
        plain = {"tau": policy.tau, "n_actions": policy.n_actions, "horizon": policy.horizon}
        return _layers(policy.layers) | {"support": policy.support}, plain
    cells, inner = policy.cells, policy.inner
    offsets = np.concatenate([[0], np.cumsum([k.size for k in policy.known])]).astype(np.int64)
    arrays = {"known": np.concatenate(policy.known), "offsets": offsets}
    arrays |= {f"cells.{name}": getattr(cells, name) for name in CELLS}
    arrays |= {f"inner.{name}": getattr(inner, name) for name in INNER}
    return arrays, {"count": cells.count, "budget": inner.budget, "n_actions": policy.n_actions, "grid": inner.grid}


def from_parts(kind: str, arrays: Arrays, scalars: dict[str, Any]) -> Any:
    """The policy that was stored; what does not fit together is refused."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"{name}: must be finite")
    if kind == "kernel":
        return kernel.from_parts(arrays, scalars)
    if kind == "shortfall":
        return _shortfall(arrays, scalars)
    if kind == "softmax":
        return _softmax(arrays)
    return _distributional(arrays, scalars) if kind == "distributional" else _cells(arrays, scalars)


def _layers(layers: tuple[tuple[np.ndarray, np.ndarray], ...]) -> Arrays:
    found: Arrays = {}
    for i, (w, b) in enumerate(layers):
        found |= {f"layer.{i}.weight": w, f"layer.{i}.bias": b}
    return found


def _layers_in(arrays: Arrays) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    count = sum(name.startswith("layer.") for name in arrays) // 2
    layers = tuple((arrays[f"layer.{i}.weight"], arrays[f"layer.{i}.bias"]) for i in range(count))
    for w, b in layers:
        _require(w.ndim == 2 and b.shape == w.shape[1:] and w.dtype.kind == "f", "layer: weight [k, k'], bias [k']")
    for (w, _), (after, _) in pairwise(layers):
        _require(w.shape[1] == after.shape[0], "layer: must fit the next one")
    return layers


def _softmax(arrays: Arrays) -> SoftmaxPolicy:
    trunk, head, shift = _layers_in(arrays), arrays["head"], arrays["shift"]
    _require(head.ndim == 3 and shift.shape == (head.shape[0], head.shape[2]), "head: must be [H, k, A], shift [H, A]")
    _require(head.size > 0 and head.dtype.kind == shift.dtype.kind == "f", "head: must hold numbers")
    _require(not trunk or trunk[-1][0].shape[1] == head.shape[1], "head: must fit the last layer")
    return SoftmaxPolicy(Network(trunk, head, shift))


def _distributional(arrays: Arrays, scalars: dict[str, Any]) -> DistributionalPolicy:
    layers, support = _layers_in(arrays), arrays["support"]
    A, H = checks.whole(scalars["n_actions"], "n_actions"), checks.whole(scalars["horizon"], "horizon")
    _require(bool(layers) and layers[-1][1].size % A == 0, "layer: the last must have numbers for every action")
    _require(layers[0][0].shape[0] > H, "layer: the first must see features and the step")
    _require(support.size in (0, layers[-1][1].size // A) and support.ndim == 1, "support: must have N numbers or none")
    _require(support.dtype.kind == "f" and bool((np.diff(support) > 0).all()), "support: must increase")
    return DistributionalPolicy(layers, support, checks.tail_level(scalars["tau"]), A, H)


def _shortfall(arrays: Arrays, scalars: dict[str, Any]) -> ShortfallPolicy:
    count = sum(name.startswith("layer.") for name in arrays) // 2
    layers = tuple((arrays[f"layer.{i}.weight"], arrays[f"layer.{i}.bias"]) for i in range(count))
    scale, centre, spread = kernel.scale_from(scalars), arrays["centre"], arrays["spread"]
    _require(bool(layers) and centre.ndim == 1 and spread.shape == centre.shape, "centre, spread: must be [m]")
    _require(centre.dtype.kind == spread.dtype.kind == "f" and bool((spread > 0).all()), "spread: must be positive")
    sizes = [centre.size + 2]
    for w, b in layers:
        fits = w.ndim == 3 and b.shape == (w.shape[0], w.shape[2]) and w.dtype.kind == b.dtype.kind == "f"
        _require(fits and w.shape[:2] == (layers[0][0].shape[0], sizes[-1]), "layer: must be [E, k, k'], bias [E, k']")
        sizes.append(w.shape[2])
    _require(sizes[-1] > 0 and sizes[-1] % (scale.count - 1) == 0, "layer: the last must have slopes for every action")
    horizon, budget = checks.whole(scalars["horizon"], "horizon"), checks.number(scalars["budget"], "budget")
    return ShortfallPolicy(layers, centre, spread, scale, budget, horizon)


def _cells(arrays: Arrays, scalars: dict[str, Any]) -> CellPolicy:
    A, count = checks.whole(scalars["n_actions"], "n_actions"), checks.whole(scalars["count"], "count", 2)
    _require(A < 2**31, "n_actions: is too large")
    directions, low, width, mixers = (arrays[f"cells.{name}"] for name in CELLS)
    cells = Cells(directions, low, width, count, mixers).checked()
    known, offsets = arrays["known"], arrays["offsets"]
    _require(known.dtype == np.uint64 and offsets.dtype.kind in "iu" and known.ndim == 1, "known: must be hashes")
    first, offset, actions, elsewhere = (whole_numbers(arrays[f"inner.{name}"], name) for name in INNER)
    offsets = whole_numbers(offsets, "offsets")
    _require(first.ndim == 2 and actions.ndim == 1 and actions.size > 0, "first: must be [H, S], actions flat")
    H, S = first.shape
    grid = scalars["grid"]
    _require(offsets.shape == (H + 1,), "offsets: must have H steps")
    _require(int(offsets[0]) == 0 and int(offsets[-1]) == known.size, "offsets: must cover the hashes")
    sizes = np.diff(offsets)
    _require(bool((sizes >= 0).all()) and int(sizes.max(initial=0)) <= S, "offsets: must not decrease, nor exceed S")
    inner = BudgetPolicy(grid, checks.whole(scalars["budget"], "budget", -(2**53)), first, offset, actions, elsewhere)
    check_budget_policy(inner)
    _require(max(int(actions.max()), int(elsewhere.max(initial=0))) < A, "actions: must lie below n_actions")
    parts = [known[i:j] for i, j in pairwise(offsets.tolist())]
    return CellPolicy(cells, parts, inner, A)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InputError(message)
