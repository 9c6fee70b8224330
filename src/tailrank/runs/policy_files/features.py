"""Policies on features as named arrays and plain values, and back; what is read is checked before it is used."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tailrank import checks
from tailrank._system.arrays import arrays_below, check_arrays
from tailrank.checks import InputError
from tailrank.policies.cells import ARRAYS as CELLS
from tailrank.policies.cells import CellPolicy, Cells
from tailrank.policies.distributional import DistributionalPolicy
from tailrank.policies.softmax import Network, SoftmaxPolicy
from tailrank.runs.policy_files import tables

Arrays = dict[str, np.ndarray]
Layers = tuple[tuple[np.ndarray, np.ndarray], ...]


def softmax_parts(policy: SoftmaxPolicy) -> tuple[Arrays, dict[str, Any]]:
    """The weights of the network, and whether actions are drawn from it."""
    net = policy.network
    drawn = {} if policy.rng is None else {"drawn": True}
    return _layer_arrays(net.trunk) | {"head": net.head, "shift": net.shift}, drawn


def distributional_parts(policy: DistributionalPolicy) -> tuple[Arrays, dict[str, Any]]:
    """The weights of the network and the support of its law; tau and sizes."""
    plain = {"tau": policy.tau, "n_actions": policy.n_actions, "horizon": policy.horizon}
    return _layer_arrays(policy.layers) | {"support": policy.support}, plain


def cell_parts(policy: CellPolicy) -> tuple[Arrays, dict[str, Any]]:
    """The hashes of all steps one after the other, offsets [H + 1] to where each begins, cells and budget tables."""
    inner, plain = tables.to_parts(policy.inner)
    offsets = np.concatenate([[0], np.cumsum([k.size for k in policy.known])]).astype(np.int64)
    arrays = {"known": np.concatenate(policy.known), "offsets": offsets}
    arrays |= {f"cells.{name}": getattr(policy.cells, name) for name in CELLS}
    arrays |= {f"inner.{name}": array for name, array in inner.items()}
    return arrays, plain | {"count": policy.cells.count, "n_actions": policy.n_actions}


def softmax_policy(arrays: Arrays, scalars: dict[str, Any]) -> SoftmaxPolicy:
    """The policy with these weights; `drawn` is there, and true, where actions are drawn."""
    drawn = scalars.get("drawn") is True
    tables.check_scalars(scalars, *(("drawn",) if drawn else ()))
    described, last = _describe_layers(arrays)
    check_arrays(arrays, described | {"head": f"float [H, {last}, A]", "shift": "float [H, A]"})
    network = Network(_layers(arrays), arrays["head"], arrays["shift"])
    return SoftmaxPolicy(network, np.random.default_rng(0) if drawn else None)


def distributional_policy(arrays: Arrays, scalars: dict[str, Any]) -> DistributionalPolicy:
    """The policy with these weights: N numbers for each of A actions come out, features and H steps go in."""
    tables.check_scalars(scalars, "tau", "n_actions", "horizon")
    A, H = checks.whole(scalars["n_actions"], "n_actions"), checks.whole(scalars["horizon"], "horizon")
    described, last = _describe_layers(arrays)
    size = check_arrays(arrays, described | {"support": "float [N*] increasing"})
    if last not in size or last == "m0" or size[last] % A or size["N"] not in (0, size[last] // A):
        raise InputError(f"layer: the last must have {size['N'] or 'some'} numbers for each of {A} actions")
    if size["m0"] <= H:
        raise InputError(f"layer.0.weight: has {size['m0']} rows, must see features and {H} steps")
    return DistributionalPolicy(_layers(arrays), arrays["support"], checks.tail_level(scalars["tau"]), A, H)


def cell_policy(arrays: Arrays, scalars: dict[str, Any]) -> CellPolicy:
    """The policy with these cells, the hashes of those that are known, and the tables of what is played there."""
    tables.check_scalars(scalars, "count", "budget", "n_actions", "grid")
    A, count = checks.whole(scalars["n_actions"], "n_actions"), checks.whole(scalars["count"], "count", 2)
    if A > tables.MOST_ACTIONS:
        raise InputError(f"n_actions = {A}: must be at most {tables.MOST_ACTIONS}")
    cells = Cells(count=count, **arrays_below(arrays, "cells.")).checked()
    plain = {name: scalars[name] for name in ("budget", "grid")}
    policy = tables.budget_policy(arrays_below(arrays, "inner."), plain, A)
    outer = {name: x for name, x in arrays.items() if not name.startswith(("cells.", "inner."))}
    H, S = policy.first.shape
    check_arrays(outer, {"known": "uint64 [n*]", "offsets": "whole [H+1] offsets of n"}, H=H)
    known = [outer["known"][i:j] for i, j in pairwise(outer["offsets"].tolist())]
    if max(part.size for part in known) > S:
        raise InputError(f"offsets: must leave at most {S} hashes to a step")
    return CellPolicy(cells, known, policy, A)


def _layer_arrays(layers: Layers) -> Arrays:
    return {
        f"layer.{i}.{name}": x
        for i, layer in enumerate(layers)
        for name, x in zip(("weight", "bias"), layer, strict=True)
    }


def _describe_layers(arrays: Arrays) -> tuple[dict[str, str], str]:
    """What the arrays of the layers must be, and the letter of the size that comes out of the last."""
    described: dict[str, str] = {}
    count = sum(name.endswith(".bias") for name in arrays)
    for i in range(count):
        described |= {f"layer.{i}.weight": f"float [m{i}, m{i + 1}]", f"layer.{i}.bias": f"float [m{i + 1}]"}
    return described, f"m{count}"


def _layers(arrays: Arrays) -> Layers:
    count = sum(name.endswith(".bias") for name in arrays)
    return tuple((arrays[f"layer.{i}.weight"], arrays[f"layer.{i}.bias"]) for i in range(count))
