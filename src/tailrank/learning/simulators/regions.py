"""Places that are spread over what was seen, and the regions of what is nearest to each."""

from __future__ import annotations

import numpy as np

from tailrank.policies.kernel import interpolation

REGIONS = 128
"""Of the state space, for the bonus: visits of representatives would stay few as these become more."""
LLOYD, ROUNDS = 2, 8
"""Steps of k-means, and rounds of the draw that begins it: each prefers what is far from the centres so far."""


def regions(places: np.ndarray, visits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Visits [M, A] of the region that each representative is in: `REGIONS` of them, however many representatives."""
    centres = spread_out(places, np.ones(places.shape[1]), REGIONS, rng)
    region = interpolation(places, np.ascontiguousarray(centres), 1)[0][:, 0]
    total = np.column_stack([np.bincount(region, weights=column, minlength=len(centres)) for column in visits.T])
    return np.asarray(total[region])


def spread_out(points: np.ndarray, weights: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """At most `count` of the points [n, k], near the centres of a k-means in the weighted metric."""
    from scipy.spatial import cKDTree

    z = points * weights
    if len(z) > 40 * count:
        drawn = np.sort(rng.permutation(len(z))[: 40 * count])
        z, points = z[drawn], points[drawn]
    centres = z[rng.permutation(len(z))[: -(-count // ROUNDS)]]
    for _ in range(ROUNDS - 1):
        square = np.asarray(cKDTree(centres).query(z)[0]) ** 2
        more = min(count - len(centres), -(-count // ROUNDS), int((square > 0).sum()))
        if more > 0:
            centres = np.vstack([centres, z[rng.choice(len(z), size=more, replace=False, p=square / square.sum())]])
    for _ in range(LLOYD):
        near = cKDTree(centres).query(z)[1]
        size = np.bincount(near, minlength=len(centres))
        total = np.column_stack([np.bincount(near, weights=column, minlength=len(centres)) for column in z.T])
        centres = np.where(size[:, None] > 0, total / np.maximum(size, 1)[:, None], centres)
    chosen = np.unique(cKDTree(z).query(centres)[1])
    return points[chosen]
