"""Where the training of a decoder begins: random weights, groups of what the trunk sees, labels, an earlier decoder.

From random weights alone a decoder tends to merge latents that differ in rare transitions only, and a local maximum
of the likelihood holds it there. Groups of observations (k-means in what a random trunk makes of them) are often
latents, and begin near a better one. The trunk begins almost linear, so that it keeps the distances.
"""

from __future__ import annotations

import numpy as np

from tailrank.checks import InputError
from tailrank.policies.convolution import KERNEL, size_after
from tailrank.policies.decoders.network import CHANNELS, NeuralDecoder, NeuralSettings, forward

GAIN = 0.3
"""Of the hidden layers."""
TRIES, LLOYD = 8, 5
"""Starts of k-means, the tightest wins, and rounds of each."""
GAP = 8.0
"""Log-odds of the nearest group against the next, on median: sure, but not too sure to learn."""


def initial(
    settings: NeuralSettings, *, n_features: int, n_latents: int, steps: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Random weights: conv0, conv1 [9 c, c'], hidden0, hidden1 [m, W], head [S or 1, W, K], and biases."""
    weights: dict[str, np.ndarray] = {}
    size = n_features
    if settings.image_shape is not None:
        rows, columns, depth = settings.image_shape
        for i, channels in enumerate(CHANNELS):
            weights[f"conv{i}"] = rng.normal(size=(KERNEL**2 * depth, channels)) * np.sqrt(2.0 / (KERNEL**2 * depth))
            weights[f"conv{i}_bias"] = np.zeros(channels)
            rows, columns, depth = size_after(rows), size_after(columns), channels
        size = rows * columns * depth
    for i in range(0 if settings.architecture == "linear" else settings.layers):
        weights[f"hidden{i}"] = GAIN * rng.normal(size=(size, settings.width)) / np.sqrt(size)
        weights[f"bias{i}"] = np.zeros((steps, settings.width))
        size = settings.width
    heads = steps if settings.heads == "step" else 1
    weights["head"] = rng.normal(size=(heads, size, n_latents)) * 0.5 / np.sqrt(size)
    weights["head_bias"] = np.zeros((steps, n_latents))
    return {name: array.astype(np.float32) for name, array in weights.items()}


def grouped(
    weights: dict[str, np.ndarray],
    x: np.ndarray,
    used: np.ndarray,
    image_shape: tuple[int, ...] | None,
    rng: np.random.Generator,
    label: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """The same trunk with heads that tell groups of the observations x [S, B, m] apart, where used [S, B].

    Groups are found by k-means, or given as label [S, B] (-1 where unknown).
    """
    S, K = weights["head_bias"].shape
    identity = np.eye(weights["head"].shape[1], dtype=np.float32)[None]
    bare = {**weights, "head": identity, "head_bias": np.zeros((S, identity.shape[1]), dtype=np.float32)}
    points = forward(np, bare, x, image_shape).astype(np.float64)
    head, bias = np.zeros(weights["head"].shape), np.zeros((S, K))
    by_step = len(head) == S
    for s in range(len(head)):
        here = (slice(s, s + 1) if by_step else slice(None), slice(None))
        mask = used[here] if label is None else used[here] & (label[here] >= 0)
        if not mask.any():
            continue
        pool = points[here][mask]
        centres = _tightest(pool, K, rng) if label is None else _centres(pool, label[here][mask], K)
        near = np.sort(_distances(pool, centres), axis=1)
        gap = float(np.median(near[:, min(1, K - 1)] - near[:, 0])) / 2
        scale = GAP / max(gap, 1e-6)
        head[s] = scale * centres.T
        bias[here[0]] = -0.5 * scale * (centres**2).sum(axis=1)
        if label is not None:  # a latent without labels must not win anywhere
            bias[here[0], ~np.isin(np.arange(K), label[here][mask])] -= 2.0 * GAP
    return {**weights, "head": head.astype(np.float32), "head_bias": bias.astype(np.float32)}


def _tightest(points: np.ndarray, K: int, rng: np.random.Generator) -> np.ndarray:
    """Centres [K, W] of groups of points [n, W]: k-means from centres drawn far apart (k-means++)."""
    best, least = points[:1], np.inf
    for _ in range(TRIES):
        centres = points[rng.integers(len(points))][None]
        while len(centres) < K:
            far = _distances(points, centres).min(axis=1) + 1e-12
            centres = np.concatenate([centres, points[rng.choice(len(points), p=far / far.sum())][None]])
        for _ in range(LLOYD):
            near = _distances(points, centres).argmin(axis=1)
            centres = _centres(points, near, K, centres)
        within = float(_distances(points, centres).min(axis=1).sum())
        if within < least:
            best, least = centres, within
    return best


def _centres(points: np.ndarray, group: np.ndarray, K: int, empty: np.ndarray | None = None) -> np.ndarray:
    """Means [K, W] of the groups; an empty one keeps its centre, or lies in the middle of all."""
    where = np.broadcast_to(points.mean(axis=0), (K, points.shape[1])) if empty is None else empty
    return np.stack([points[group == k].mean(axis=0) if (group == k).any() else where[k] for k in range(K)])


def _distances(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared, [n, K]."""
    squares = (points**2).sum(axis=1)[:, None] - 2.0 * points @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(squares, 0.0))


def continued(
    warm: NeuralDecoder, like: dict[str, np.ndarray], shared: bool, mean: np.ndarray, scale: np.ndarray
) -> dict[str, np.ndarray]:
    """Weights of an earlier decoder, for features standardised by `mean` and `scale` now (exact but for the cut)."""
    found = {name: array.shape for name, array in warm.weights.items()}
    wanted = {name: array.shape for name, array in like.items()}
    if found != wanted or warm.shared != shared:
        name = next((k for k in wanted if found.get(k) != wanted[k]), "shared")
        raise InputError(f"warm: {name} is {found.get(name, warm.shared)}, must be {wanted.get(name, shared)}")
    weights = dict(warm.weights)
    stretch, shift = scale / warm.scale, (mean - warm.mean) / warm.scale
    if warm.image_shape is not None:
        depth = warm.image_shape[2]
        stretch, shift = np.tile(stretch[:depth], KERNEL**2), np.tile(shift[:, :depth], (1, KERNEL**2))
        weights["conv0_bias"] = weights["conv0_bias"] + shift[0] @ weights["conv0"]
        weights["conv0"] = weights["conv0"] * stretch[:, None]
        return weights
    first, bias = ("hidden0", "bias0") if "hidden0" in weights else ("head", "head_bias")
    weights[bias] = weights[bias] + (shift[:, None] @ weights[first]).reshape(len(shift), -1)
    weights[first] = weights[first] * stretch[:, None]
    return weights
