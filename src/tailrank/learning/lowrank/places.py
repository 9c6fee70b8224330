"""Where phi and psi look: observations as places, standardised, and stretched along the directions that matter.

    G = mean over transitions of the Fisher information of the outcome in z, at the action that was played
    z' = z M,     M = (k G / tr G)^{1/2}

Of many features few may matter, and which combinations of them do is not known before. A first fit of phi tells: where
its outcome does not change, G is small. In stretched places the same pull of weights towards 0 holds phi back in the
directions that do not matter, and lets it go in the others (the average gradient outer product of Radhakrishnan et al.
2024, in the geometry of probabilities). M is invertible, so psi is the same law in other coordinates, and likelihoods
are compared after log |det M| is added.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tailrank.learning.standard import varies
from tailrank.policies.outcomes import OutcomeNetwork

MOST_PLACES = 32
"""Observations with more features are seen through so many principal components."""
FLOOR = 1e-2
"""The least eigenvalue of G, as a share of the largest: what does not seem to matter yet is still seen and explored."""


def standard_places(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """centre [m] and project [m, k]: standardised features, or their principal components where they are many."""
    centre, spread = x.mean(axis=0), x.std(axis=0)
    scale = 1.0 / np.where(varies(spread, np.abs(x).max(axis=0)), spread, 1.0)
    if x.shape[1] <= MOST_PLACES:
        return centre, np.diag(scale)
    some = ((x - centre) * scale)[:: max(1, len(x) // 4000)]
    values, vectors = np.linalg.eigh(np.cov(some.T))
    top = np.argsort(values)[::-1][:MOST_PLACES]
    return centre, scale[:, None] * vectors[:, top] / np.sqrt(np.maximum(values[top], 1e-12))


def log_scale(standard: np.ndarray, project: np.ndarray) -> float:
    """log |det M| of the stretch that leads from places of `standard` [m, k] to those of `project` [m, k]."""
    return float(np.linalg.slogdet(np.linalg.pinv(standard) @ project)[1])


def stretch(net: OutcomeNetwork, x: np.ndarray, h: np.ndarray, action: np.ndarray, project: np.ndarray) -> np.ndarray:
    """M [k, k] of what a network says of observations [n, m] at steps h [n], for places of `project` [m, k]."""
    back = np.linalg.pinv(project) @ net.project
    values, vectors = np.linalg.eigh(back @ sensitivity(net, x, h, action) @ back.T)
    k, most = len(values), max(float(values[-1]), 1e-300)
    values = np.maximum(values, FLOOR * most)
    return np.asarray((vectors * np.sqrt(k * values / values.sum())) @ vectors.T)


def sensitivity(net: OutcomeNetwork, x: np.ndarray, h: np.ndarray, action: np.ndarray) -> np.ndarray:
    """G [k, k] in the network's own places: of kinds, plus of rewards with the mean tilt."""
    z = net.places(x)
    k, A = z.shape[1], net.n_actions
    f = net.inner(z)
    bend = 1.0 - f[:, 1 + k :] ** 2
    head = (np.zeros_like(h) if len(net.heads) == 1 else h) * A + action
    order = np.argsort(head, kind="stable")
    total = np.zeros((k, k))
    for i, (begin, end) in enumerate(pairwise(np.searchsorted(head[order], np.arange(len(net.heads) * A + 1)))):
        rows = order[begin:end]
        for heads, tilt in ((net.heads[i // A, i % A], 0.0), (net.reward_heads[i // A, i % A], net.tilt.mean(axis=0))):
            logits = f[rows] @ heads + tilt
            odds = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
            chance = odds / odds.sum(axis=1, keepdims=True)
            slope = heads[1 : 1 + k] + (net.hidden * bend[rows, None, :]) @ heads[1 + k :]
            slope = slope - (slope @ chance[:, :, None])
            wide = (slope * np.sqrt(chance)[:, None, :]).transpose(1, 0, 2).reshape(k, -1)
            total += wide @ wide.T
    return total / max(len(z), 1)
