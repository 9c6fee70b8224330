"""Compiled search of the nearest representatives, weights that interpolate among them, and the choice of an action."""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled
from tailrank.policies.tables import SAME

RIDGE = 1e-3
"""How much nearer representatives are preferred where several sets of weights give the same point."""
BEYOND = 1000.0
"""So many times as many budgets as a table has no return reaches."""


@compiled(fastmath=False)
def nearest(point, columns, far, index, square):
    """The representatives nearest to a point, sorted: index [K] and squared distances [K]; the first among equals.

    columns [k, M]: the representatives by coordinate, so that distances to many are found at once; far [M] is room
    for them.
    """
    K = index.size
    square[:] = np.inf
    index[:] = 0
    far[:] = 0.0
    for i in range(point.size):
        column, x = columns[i], point[i]
        for j in range(far.size):
            far[j] += (x - column[j]) ** 2
    for j in range(far.size):
        d = far[j]
        if d < square[K - 1]:
            k = K - 1
            while k > 0 and square[k - 1] > d:
                square[k], index[k] = square[k - 1], index[k - 1]
                k -= 1
            square[k], index[k] = d, j


@compiled(fastmath=False)
def interpolate(point, representatives, index, square, gram, weight):
    """weight [K], not negative, sum 1: those that least |point - sum_k weight_k x_k|^2 + ridge sum_k weight_k^2 d_k^2.

    Weights that would be negative are left out, the most negative first. gram [K, K] is room to work in.
    """
    K, m = index.size, point.size
    weight[:] = 0.0
    if square[0] <= 1e-18 * (1.0 + square[K - 1]):
        weight[0] = 1.0
        return
    products, kept, part = np.empty((K, K)), np.arange(K), np.empty(K)
    for a in range(K):
        for b in range(a + 1):
            total = 0.0
            for i in range(m):
                total += (point[i] - representatives[index[a], i]) * (point[i] - representatives[index[b], i])
            products[a, b] = total
        products[a, a] += RIDGE * square[a] + 1e-12 * square[K - 1]
    for n in range(K, 0, -1):
        for a in range(n):  # Cholesky of the products of what is kept
            for b in range(a + 1):
                total = products[kept[a], kept[b]]
                for i in range(b):
                    total -= gram[a, i] * gram[b, i]
                gram[a, b] = np.sqrt(max(total, 1e-300)) if a == b else total / gram[b, b]
        for a in range(n):
            total = 1.0
            for i in range(a):
                total -= gram[a, i] * part[i]
            part[a] = total / gram[a, a]
        for a in range(n - 1, -1, -1):
            total = part[a]
            for i in range(a + 1, n):
                total -= gram[i, a] * part[i]
            part[a] = total / gram[a, a]
        total, worst = 0.0, -1
        for a in range(n):
            total += part[a]
        for a in range(n):
            part[a] /= total
            if part[a] < 0.0 and (worst < 0 or part[a] < part[worst]):
                worst = a
        if worst < 0:
            for a in range(n):
                weight[kept[a]] = part[a]
            return
        kept[worst : n - 1] = kept[worst + 1 : n].copy()
    weight[0] = 1.0


@compiled(fastmath=False)
def interpolate_all(points, representatives, index, weight):
    """index [n, K] and weight [n, K] of points [n, k]."""
    K, columns = index.shape[1], representatives.T.copy()
    far, square, gram = np.empty(columns.shape[1]), np.empty(K), np.empty((K, K))
    for i in range(points.shape[0]):
        nearest(points[i], columns, far, index[i], square)
        interpolate(points[i], representatives, index[i], square, gram, weight[i])


@compiled(fastmath=False)
def looked_up(row, place):
    """Entry `place` (real) of a table row [C]: linear between entries, constant below, of slope one above."""
    last = row.size - 1
    if place <= 0.0:
        return float(row[0])
    if place >= last:
        return row[last] + (place - last)
    k = int(place)
    f = place - k
    return (1.0 - f) * row[k] + f * row[k + 1]


@compiled(fastmath=False)
def shortfalls(index, phi, ptr, after, shift, weight, bonus, allowed, low, high, mix, left, end, at, q, total):
    """total [A]: the shortfall of every action at the point that is made of phi [K] of representatives index [K].

    at: the place of its budget; the rest as in `choose_between`. q [A] is room to work in.
    """
    M, A = bonus.shape
    total[:] = 0.0
    for k in range(index.size):
        if phi[k] <= 1e-9:
            continue
        j = index[k]
        worst = -np.inf
        for a in range(A):
            begin, stop = ptr[j * A + a], ptr[j * A + a + 1]
            q[a] = -bonus[j, a] * (left if begin == stop else 1.0)
            for e in range(begin, stop):
                place = at - shift[e]
                if after[e] == M:
                    q[a] += weight[e] * max(place + end, 0.0)
                else:
                    value = (1.0 - mix) * looked_up(low[after[e]], place)
                    if mix > 0.0:
                        value += mix * looked_up(high[after[e]], place)
                    q[a] += weight[e] * value
            if allowed[j, a]:
                worst = max(worst, q[a])
        for a in range(A):
            total[a] += phi[k] * (q[a] if allowed[j, a] or worst == -np.inf else worst + 1e-3)


@compiled(fastmath=False)
def choose_between(
    points,
    representatives,
    K,
    ptr,
    after,
    shift,
    weight,
    bonus,
    allowed,
    low,
    high,
    mix,
    left,
    end,
    places,
    result,
    least,
):
    """Actions result [n] of least shortfall, and that shortfall, least [n], at points [n, k] with places [n] in the
    tables of budgets.

    The value after a step is (1 - mix) low + mix high (tables [M, C] of two steps); an episode that ended has the
    shortfall max(place + end, 0); left: steps. Rows as in `KernelRows`; a pair not allowed counts as the worst that is.
    Among actions with the same shortfall the one with the best mean is taken: the least shortfall of a budget that no
    return reaches.
    """
    A, top = bonus.shape[1], BEYOND * low.shape[1]
    index, square, gram, phi = np.empty(K, dtype=np.int64), np.empty(K), np.empty((K, K)), np.empty(K)
    q, total, mean = np.empty(A), np.empty(A), np.empty(A)
    columns = representatives.T.copy()
    far = np.empty(columns.shape[1])
    for i in range(points.shape[0]):
        nearest(points[i], columns, far, index, square)
        interpolate(points[i], representatives, index, square, gram, phi)
        shortfalls(
            index, phi, ptr, after, shift, weight, bonus, allowed, low, high, mix, left, end, places[i], q, total
        )
        best = int(np.argmin(total))
        limit = total[best] + SAME * (1.0 + abs(total[best]))
        if (total <= limit).sum() > 1:
            shortfalls(index, phi, ptr, after, shift, weight, bonus, allowed, low, high, mix, left, end, top, q, mean)
            for a in range(A):
                if total[a] <= limit and mean[a] < mean[best] - SAME * abs(mean[best]):
                    best = a
        result[i], least[i] = best, total[best]
