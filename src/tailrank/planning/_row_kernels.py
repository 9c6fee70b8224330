"""What every induction does innermost: weighted sums of rows, and the lowest of several.

Indices without a sign need no wrap-around test, so the loops are vectorised.
"""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import nested

BLOCK = 512
"""Budgets handled at a time, so that sums over outcomes stay in the first-level cache."""


@nested
def add_rows(q, n, at, weight, r, m, v, to, shift):
    """q[to + i] += sum over the rows r..m-1 of weight[r] * v[at[r] + shift + i], i < n: eight at a time, or four.

    Fewer are made up by rows that count for nothing: loops less to compile, and to start.
    """
    while r < m:
        last = np.uintp(at[r] + shift)
        p0, u0 = weight[r], last
        p1, u1 = (weight[r + 1], np.uintp(at[r + 1] + shift)) if r + 1 < m else (0.0, last)
        p2, u2 = (weight[r + 2], np.uintp(at[r + 2] + shift)) if r + 2 < m else (0.0, last)
        p3, u3 = (weight[r + 3], np.uintp(at[r + 3] + shift)) if r + 3 < m else (0.0, last)
        if m <= r + 4:
            for i in range(np.uintp(n)):
                q[to + i] += (p0 * v[u0 + i] + p1 * v[u1 + i]) + (p2 * v[u2 + i] + p3 * v[u3 + i])
            return
        p4, u4 = (weight[r + 4], np.uintp(at[r + 4] + shift)) if r + 4 < m else (0.0, last)
        p5, u5 = (weight[r + 5], np.uintp(at[r + 5] + shift)) if r + 5 < m else (0.0, last)
        p6, u6 = (weight[r + 6], np.uintp(at[r + 6] + shift)) if r + 6 < m else (0.0, last)
        p7, u7 = (weight[r + 7], np.uintp(at[r + 7] + shift)) if r + 7 < m else (0.0, last)
        for i in range(np.uintp(n)):
            q[to + i] += ((p0 * v[u0 + i] + p1 * v[u1 + i]) + (p2 * v[u2 + i] + p3 * v[u3 + i])) + (
                (p4 * v[u4 + i] + p5 * v[u5 + i]) + (p6 * v[u6 + i] + p7 * v[u7 + i])
            )
        r += 8


@nested
def sum_rows(x, n, at, weight, r, m, v, to, shift):
    """x[to + i] = sum over the m rows from r on of weight[r] * v[at[r] + shift + i], i < n: one loop for up to 8.

    There are loops for two, four, six and eight rows; the last of an odd number is made up by one that counts for
    nothing.
    """
    p0, u0 = weight[r], np.uintp(at[r] + shift)
    p1, u1 = (weight[r + 1], np.uintp(at[r + 1] + shift)) if m > 1 else (0.0, u0)
    if m <= 2:
        for i in range(np.uintp(n)):
            x[to + i] = p0 * v[u0 + i] + p1 * v[u1 + i]
        return
    p2, u2 = weight[r + 2], np.uintp(at[r + 2] + shift)
    p3, u3 = (weight[r + 3], np.uintp(at[r + 3] + shift)) if m > 3 else (0.0, u0)
    if m <= 4:
        for i in range(np.uintp(n)):
            x[to + i] = (p0 * v[u0 + i] + p1 * v[u1 + i]) + (p2 * v[u2 + i] + p3 * v[u3 + i])
        return
    p4, u4 = weight[r + 4], np.uintp(at[r + 4] + shift)
    p5, u5 = (weight[r + 5], np.uintp(at[r + 5] + shift)) if m > 5 else (0.0, u0)
    if m <= 6:
        for i in range(np.uintp(n)):
            first = (p0 * v[u0 + i] + p1 * v[u1 + i]) + (p2 * v[u2 + i] + p3 * v[u3 + i])
            x[to + i] = first + (p4 * v[u4 + i] + p5 * v[u5 + i])
        return
    p6, u6 = weight[r + 6], np.uintp(at[r + 6] + shift)
    p7, u7 = (weight[r + 7], np.uintp(at[r + 7] + shift)) if m > 7 else (0.0, u0)
    for i in range(np.uintp(n)):
        first = (p0 * v[u0 + i] + p1 * v[u1 + i]) + (p2 * v[u2 + i] + p3 * v[u3 + i])
        x[to + i] = first + ((p4 * v[u4 + i] + p5 * v[u5 + i]) + (p6 * v[u6 + i] + p7 * v[u7 + i]))
    if m > 8:
        add_rows(x, n, at, weight, r + 8, r + m, v, to, shift)


@nested
def lowest(x, at, bonus, name, m, n, tie, best, chosen):
    """Where in `best` and `chosen` (scratch, 2 BLOCK each) the least value of m actions and its name begin.

    Action r has the values x[at[r] + i] - bonus[r], i < n; of those that differ by less than `tie`,
    relative to their size, the first wins.
    Four actions at a time, from one half of the scratch to the other: in place they would compile to masked
    stores, which are slow.
    """
    for i in range(np.uintp(n)):
        best[i] = np.inf
        chosen[i] = name[0]
    here, there = np.uintp(0), np.uintp(BLOCK)
    r = 0
    while r < m:
        u0, b0, a0 = np.uintp(at[r]), bonus[r], name[r]
        if r + 4 <= m:
            u1, u2, u3 = np.uintp(at[r + 1]), np.uintp(at[r + 2]), np.uintp(at[r + 3])
            b1, b2, b3 = bonus[r + 1], bonus[r + 2], bonus[r + 3]
            a1, a2, a3 = name[r + 1], name[r + 2], name[r + 3]
            for i in range(np.uintp(n)):
                least, which = best[here + i], chosen[here + i]
                q = x[u0 + i] - b0
                which = a0 if q < least - tie * abs(least) else which
                least = q if q < least else least
                q = x[u1 + i] - b1
                which = a1 if q < least - tie * abs(least) else which
                least = q if q < least else least
                q = x[u2 + i] - b2
                which = a2 if q < least - tie * abs(least) else which
                least = q if q < least else least
                q = x[u3 + i] - b3
                best[there + i] = q if q < least else least
                chosen[there + i] = a3 if q < least - tie * abs(least) else which
            r += 4
        else:
            for i in range(np.uintp(n)):
                q, least = x[u0 + i] - b0, best[here + i]
                best[there + i] = q if q < least else least
                chosen[there + i] = a0 if q < least - tie * abs(least) else chosen[here + i]
            r += 1
        here, there = there, here
    return here
