"""The hidden units of phi: what a place z is seen through before the softmax.

    network, features   tanh(z . hidden_j + bias_j); those of a network are trained, the others stay as they were drawn
    kernel              LOUD g_j / sum g,   g_j = exp(-|z - hidden_j|^2 exp(2 bias_j) / 2)
    forest              1 in the leaf of every tree that z falls into, 0 elsewhere

All have hidden [k, w] and bias [w]; `units` [2] says which they are, and how deep trees are. A tree of depth D has 2^D
columns, a heap: node i = 1..2^D - 1 sends z to node 2 i, or to 2 i + 1 where z . hidden_i + bias_i > 0; the nodes
2^D..2^{D+1} - 1 are leaves. Column 0 is not used.
"""

from __future__ import annotations

import numpy as np

PHI = ("network", "features", "kernel", "forest")
"""Kinds of units by their number."""
NETWORK, FEATURES, KERNEL, FOREST = range(4)
LOUD = 4.0
"""Scale of kernels, whose sum is 1: rates of training are those of units of size 1."""
DEEPEST = 10


def seen(units: np.ndarray, z: np.ndarray, hidden: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The units [n, w] at places [n, k]."""
    kind, depth = int(units[0]), int(units[1])
    if kind in (NETWORK, FEATURES):
        return np.asarray(np.tanh(z @ hidden + bias))
    if kind == KERNEL:
        away = (z**2).sum(axis=1)[:, None] - 2.0 * z @ hidden + (hidden**2).sum(axis=0)
        near = -0.5 * np.maximum(away, 0.0) * np.exp(2.0 * bias)
        near = np.exp(near - near.max(axis=1, keepdims=True))
        return np.asarray(LOUD * near / near.sum(axis=1, keepdims=True))
    right = (z @ hidden + bias > 0.0).reshape(len(z), -1, 2**depth)
    node = np.ones((len(z), right.shape[1], 1), dtype=np.int64)
    for _ in range(depth):
        node = 2 * node + np.take_along_axis(right, node, axis=2)
    result = np.zeros(right.shape, dtype=z.dtype)
    np.put_along_axis(result, node - 2**depth, 1.0, axis=2)
    return result.reshape(len(z), -1)


def fit_together(units: np.ndarray, width: int) -> bool:
    """Whether these can be the two numbers of so many units."""
    kind, depth = (float(x) for x in units)
    if kind not in range(len(PHI)) or depth != int(depth) or not 0 <= depth <= DEEPEST:
        return False
    return kind != FOREST or (depth >= 1 and width % 2 ** int(depth) == 0)
