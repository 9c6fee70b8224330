"""Compiled loops of the mixture: EM with unit covariance, and the search for new components."""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled

PASSES = 30
TINY = 1e-9
NOTHING = -40.0


@compiled(fastmath=False)
def em(points, centres, weights, passes):
    """EM of sum_j w_j N(mu_j, I) on points [n, k]; updates centres [J, k] and weights [J], returns log likelihood."""
    n, k = points.shape
    J = centres.shape[0]
    share, prior = np.empty(J), np.empty(J)
    last = -np.inf
    for _ in range(passes):
        total = 0.0
        mass, sums = np.zeros(J), np.zeros((J, k))
        for j in range(J):
            prior[j] = np.log(weights[j] + 1e-300)
        for i in range(n):
            top = -np.inf
            for j in range(J):
                d = 0.0
                for c in range(k):
                    e = points[i, c] - centres[j, c]
                    d += e * e
                share[j] = prior[j] - 0.5 * d
                top = max(top, share[j])
            s = 0.0
            for j in range(J):
                # What is this far below the top is less than half a unit in the last place of the sum.
                share[j] = np.exp(share[j] - top) if share[j] - top > NOTHING else 0.0
                s += share[j]
            total += top + np.log(s)
            for j in range(J):
                r = share[j] / s
                if r > TINY:
                    mass[j] += r
                    for c in range(k):
                        sums[j, c] += r * points[i, c]
        for j in range(J):
            if mass[j] > TINY:
                for c in range(k):
                    centres[j, c] = sums[j, c] / mass[j]
            weights[j] = mass[j] / n
        if total - last < 1e-3:
            break
        last = total
    return total


@compiled(fastmath=False)
def nearest(points, centres):
    """Squared distance of each point [n] to the nearest centre."""
    n, k = points.shape
    result = np.empty(n)
    for i in range(n):
        least = np.inf
        for j in range(centres.shape[0]):
            d = 0.0
            for c in range(k):
                e = points[i, c] - centres[j, c]
                d += e * e
            least = min(least, d)
        result[i] = least
    return result


@compiled(fastmath=False)
def grow(points, most, penalty, separation, draws, seeds):
    """Centres and weights of a mixture that starts with one component and adds others while they pay.

    A new component must raise the log likelihood by `penalty` and lie `separation` or more from every other; of those
    that do, the one that lies farthest off is taken: a few observations far away are a latent rather than half of
    a cloud that is not quite normal.
    Places to try: the farthest point, points that draws [tries] in (0, 1) pick, and seeds [s, k].
    """
    n, k = points.shape
    centres, weights = np.zeros((1, k)), np.ones(1)
    for i in range(n):
        for c in range(k):
            centres[0, c] += points[i, c] / n
    value = em(points, centres, weights, PASSES)
    while centres.shape[0] < most and n > centres.shape[0]:
        J = centres.shape[0]
        far = nearest(points, centres)
        cumulative = np.cumsum(far)
        best_value, best_centres, best_weights, farthest = value, centres, weights, separation * separation
        for t in range(draws.size + 1 + seeds.shape[0]):
            trial, shares = np.empty((J + 1, k)), np.empty(J + 1)
            trial[:J] = centres
            if t == 0:
                trial[J] = points[int(far.argmax())]
            elif t <= draws.size:
                trial[J] = points[min(int(np.searchsorted(cumulative, draws[t - 1] * cumulative[-1])), n - 1)]
            else:
                trial[J] = seeds[t - draws.size - 1]
            shares[:J], shares[J] = weights * (n / (n + 1.0)), 1.0 / (n + 1.0)
            found = em(points, trial, shares, PASSES)
            if found - value > penalty:
                apart = np.inf
                for j in range(J):
                    for i in range(j + 1, J + 1):
                        apart = min(apart, ((trial[j] - trial[i]) ** 2).sum())
                if apart >= farthest:
                    best_value, best_centres, best_weights, farthest = found, trial, shares, apart
        if best_centres.shape[0] == J:
            break
        value, centres, weights = best_value, best_centres, best_weights
    return centres, weights
