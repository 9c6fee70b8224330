"""Weights of dense networks in one array, so that an optimiser needs one call: views of them as layers, and tanh
networks with their gradients written out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

Layers = list[tuple[np.ndarray, np.ndarray]]


def flat_weights(layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """All weights [E, P] (float32) of E networks with layers W [E, k, k'] and b [E, k']."""
    parts = [part.reshape(len(part), -1) for layer in layers for part in layer]
    return np.concatenate(parts, axis=1).astype(np.float32)


def layer_views(flat: np.ndarray, sizes: Sequence[int]) -> Layers:
    """W [E, k, k'] and b [E, k'] of layers with these sizes, as views of an array [E, P].

    >>> (w, b), = layer_views(np.arange(6.0)[None], (2, 2))
    >>> w.tolist(), b.tolist()
    ([[[0.0, 1.0], [2.0, 3.0]]], [[4.0, 5.0]])
    """
    found, at, E = [], 0, len(flat)
    for k, j in pairwise(sizes):
        found.append((flat[:, at : at + k * j].reshape(E, k, j), flat[:, at + k * j : at + (k + 1) * j]))
        at += (k + 1) * j
    return found


def restandardise(layers: Layers, before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> None:
    """Change the first layer in place, so that the networks do with inputs of another centre and spread [m] what they
    did with those of before."""
    (w, b), m = layers[0], before[0].size
    b += (((after[0] - before[0]) / before[1]) @ w[:, :m].astype(np.float64)).astype(np.float32)
    w[:, :m] *= (after[1] / before[1]).astype(np.float32)[:, None]


def tanh_outputs(layers: Layers, x: np.ndarray) -> list[np.ndarray]:
    """What every layer of the first network gives for x [n, k], x itself first; the last one is linear."""
    seen = [x]
    for i, (w, b) in enumerate(layers):
        z = seen[-1] @ w[0] + b[0]
        seen.append(z if i + 1 == len(layers) else np.tanh(z))
    return seen


def tanh_gradient(layers: Layers, slopes: Layers, seen: list[np.ndarray], wrong: np.ndarray) -> None:
    """Fill `slopes`, shaped as the layers, with the gradient for that of the outputs, wrong [n, k']."""
    for i in range(len(layers) - 1, -1, -1):
        np.matmul(seen[i].T, wrong, out=slopes[i][0][0])
        slopes[i][1][0] = wrong.sum(axis=0)
        if i:
            wrong = (wrong @ layers[i][0][0].T) * (1.0 - seen[i] ** 2)


def orthogonal_layers(sizes: Sequence[int], last: float, rng: np.random.Generator) -> Layers:
    """Layers of one network, W [1, k, k'] orthogonal with the gain root 2, or `last` in the last one, and b zero."""
    found = []
    for i, (k, j) in enumerate(pairwise(sizes)):
        q, r = np.linalg.qr(rng.normal(size=(max(k, j), min(k, j))))
        q = q * np.sign(np.diag(r))
        gain = last if i + 2 == len(sizes) else np.sqrt(2.0)
        found.append((gain * (q if k >= j else q.T)[None], np.zeros((1, j))))
    return found
