"""Hidden units for phi before training, by the names of `--phi`: a row of `MAKERS` each.

A maker is given places z [n, k] with the actions [n] that were played there and targets [n, c] (what came of it), and
gives `hidden` [k, w], `bias` [w] and `units` [2] (`policies/units.py`). All but those of a network stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailrank.policies.units import FEATURES, FOREST, KERNEL, NETWORK

Made = dict[str, np.ndarray]
RANDOM, CENTRES = 128, 64
"""Random units; kernels."""
TREES, DEPTH, TRIES, LEAST = 8, 4, 12, 10
"""Trees and their depth, splits tried at a node, and transitions below which a node is not split any more."""
MOST = 4000
"""Transitions from which centres and trees are made, at most."""
ENDLESS = 1e9
"""The bias of a node that sends everything to the left."""


@dataclass(frozen=True)
class UnitData:
    """Places z [n, k], actions [n], targets [n, c]: what came of the action there, as shares."""

    z: np.ndarray
    action: np.ndarray
    target: np.ndarray

    def some(self, rng: np.random.Generator) -> UnitData:
        """At most `MOST` of them."""
        if len(self.z) <= MOST:
            return self
        rows = rng.choice(len(self.z), size=MOST, replace=False)
        return UnitData(self.z[rows], self.action[rows], self.target[rows])


def network_units(data: UnitData, width: int, rng: np.random.Generator) -> Made:
    """Random units, to be trained."""
    k = data.z.shape[1]
    hidden, bias = rng.normal(size=(k, width)) / np.sqrt(k), rng.uniform(-1.5, 1.5, size=width)
    return {"hidden": hidden, "bias": bias, "units": np.array([NETWORK, 0.0])}


def random_units(data: UnitData, width: int, rng: np.random.Generator) -> Made:
    """Random units that stay: a softmax in random features."""
    made = network_units(data, RANDOM, rng)
    return made | {"hidden": 1.5 * made["hidden"], "units": np.array([FEATURES, 0.0])}


def kernel_units(data: UnitData, width: int, rng: np.random.Generator) -> Made:
    """Kernels at places that lie far apart (k-means++), as wide as the way from a centre to its next ones."""
    z = data.some(rng).z
    centres = z[rng.integers(len(z))][None]
    away = ((z - centres) ** 2).sum(axis=1)
    while len(centres) < min(CENTRES, len(z)):
        chance = away + 1e-12
        centres = np.vstack([centres, z[rng.choice(len(z), p=chance / chance.sum())]])
        away = np.minimum(away, ((z - centres[-1]) ** 2).sum(axis=1))
    gaps = np.sort(((centres[:, None] - centres) ** 2).sum(axis=2), axis=1)
    wide = np.sqrt(np.median(gaps[:, min(2, len(centres) - 1)]) + 1e-12)
    return {
        "hidden": centres.T.copy(),
        "bias": np.full(len(centres), -np.log(wide)),
        "units": np.array([KERNEL, 0.0]),
    }


def forest_units(data: UnitData, width: int, rng: np.random.Generator) -> Made:
    """Extra-trees (Geurts et al. 2006): of a few random splits of a node the one that explains most of the targets."""
    data = data.some(rng)
    order = np.argsort(data.action, kind="stable")  # so that sums by action are sums of runs
    z, action, target = data.z[order], data.action[order], data.target[order]
    k, nodes = z.shape[1], 2**DEPTH
    hidden, bias = np.zeros((k, TREES, nodes)), np.full((TREES, nodes), -ENDLESS)
    for tree in range(TREES):
        members = {1: np.arange(len(z))}
        for node in range(1, nodes):
            rows = members.pop(node)
            split = _best_split(z[rows], action[rows], target[rows], rng) if rows.size >= LEAST else None
            right = np.zeros(rows.size, dtype=bool)
            if split is not None:
                feature, place = split
                hidden[feature, tree, node], bias[tree, node] = 1.0, -place
                right = z[rows, feature] > place
            members[2 * node], members[2 * node + 1] = rows[~right], rows[right]
    return {
        "hidden": hidden.reshape(k, -1),
        "bias": bias.ravel(),
        "units": np.array([FOREST, float(DEPTH)]),
    }


def _best_split(
    z: np.ndarray, action: np.ndarray, target: np.ndarray, rng: np.random.Generator
) -> tuple[int, float] | None:
    """The feature and the place with the largest sum over sides and actions of |sum of targets|^2 / number."""
    begin = np.flatnonzero(np.append(True, np.diff(action) != 0))
    number = np.diff(np.append(begin, action.size)).astype(np.float64)[:, None]
    total = np.add.reduceat(target, begin, axis=0)
    best, found = -np.inf, None
    for _ in range(TRIES):
        feature = int(rng.integers(z.shape[1]))
        low, high = z[:, feature].min(), z[:, feature].max()
        if low == high:
            continue
        place = float(rng.uniform(low, high))
        right = (z[:, feature] > place).astype(np.float64)[:, None]
        sums, there = np.add.reduceat(target * right, begin, axis=0), np.add.reduceat(right, begin, axis=0)
        gain = sums**2 / np.maximum(there, 1.0) + (total - sums) ** 2 / np.maximum(number - there, 1.0)
        if gain.sum() > best:
            best, found = float(gain.sum()), (feature, place)
    return found


MAKERS: dict[str, Callable[[UnitData, int, np.random.Generator], Made]] = {
    "network": network_units,
    "features": random_units,
    "kernel": kernel_units,
    "forest": forest_units,
}
