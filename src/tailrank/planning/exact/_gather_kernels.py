"""Compiled loops that add up the tables of the next step over the outcomes of a pair.

Tables are ragged: state s owns `values[offset[s] : offset[s + 1]]`, its entry i belongs to the integer
budget `first[s] + i`. Below its first entry a table is constant, above its last it has a known slope.
"""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import nested
from tailrank.planning._row_kernels import sum_rows

LISTED = 1024
"""Outcomes of a pair that are added at a time."""


@nested
def add_far(q, to, n, weight, table, begin, size, shift, slope):
    """q[to + i] += weight * V(shift + i), i < n: the general case, where an outcome runs over an end of its table.

    The table is table[begin : begin + size], constant below and of this slope above.
    """
    low = min(max(-shift, 0), n)
    high = max(min(size - shift, n), low)
    bottom, top = weight * table[begin], table[begin + size - 1]
    for i in range(low):
        q[to + i] += bottom
    source, target = np.uintp(begin + shift + low), np.uintp(to + low)
    for i in range(np.uintp(high - low)):
        q[target + i] += weight * table[source + i]
    for i in range(high, n):
        q[to + i] += weight * (top + slope * (shift + i - size + 1))


@nested
def list_outcomes(
    s,
    n_actions,
    ptr,
    next_state,
    prob,
    units,
    places,
    origin,
    n,
    certain_next,
    neutral_next,
    at,
    weight,
    listed,
    name,
    sure,
    bound,
):
    """How many actions state s has, named in order in name [A]. Sums over their outcomes are prepared: outcome i of the
    r-th, of probability weight[r LISTED + i], reads budget c of the next step at at[r LISTED + i] + c.

    listed [A]: how many outcomes these are, -1 where they are too many or one leaves its (padded) table at some of the
    n budgets from `origin` on. Unless certain_next [S] is empty: sure [A], the largest budget that each action is sure
    to meet, given the same of the next step, and bound [A], the mean of neutral_next [S] after it.
    """
    m, know = np.int64(0), certain_next.size > 0  # a plain 0 would be compiled for twice, once as a constant
    for a in range(n_actions):
        begin, end = ptr[s * n_actions + a], ptr[s * n_actions + a + 1]
        if begin == end:
            continue
        near, to = end - begin <= LISTED, np.uintp(m * LISTED)
        for k in range(np.uintp(begin), np.uintp(min(end, begin + LISTED))):
            t, u = np.uintp(next_state[k]), units[k]
            near &= (origin - u >= places[t, 0]) & (origin - u + n <= places[t, 1])
            at[to], weight[to] = places[t, 2] - u, prob[k]
            to += np.uintp(1)
        if know:
            least, most = np.int64(2**60), 0.0
            for k in range(np.uintp(begin), np.uintp(end)):
                t = np.uintp(next_state[k])
                least, most = min(least, units[k] + certain_next[t]), most + prob[k] * neutral_next[t]
            sure[m], bound[m] = least, most
        name[m], listed[m] = a, end - begin if near else -1
        m += 1
    return m


@nested
def expected(x, to, n, many, begin, end, origin, next_state, prob, units, places, v, at, weight, own, slope, base):
    """x[to + i] = base + sum over the outcomes begin..end-1 of p V'(s', origin + i - reward), i < n.

    Outcomes that stay within their (padded) tables, nearly all, are listed in `at` and `weight` (scratch, from `own`
    on) and summed together, `many` >= n entries. Reads without a sign: they need no wrap-around test.
    """
    far, none = False, np.int64(0)
    for part in range(begin, end, LISTED):
        m = np.uintp(own)
        for k in range(np.uintp(part), np.uintp(min(part + LISTED, end))):
            s, d = np.uintp(next_state[k]), origin - units[k]
            if d >= places[s, 0] and d + n <= places[s, 1]:
                at[m] = places[s, 2] + d
                weight[m] = prob[k]
                m += np.uintp(1)
            else:
                far = True
        sum_rows(x, to, many, at, weight, own, np.int64(m), none, v, base, part > begin)
    if far:
        for k in range(np.uintp(begin), np.uintp(end)):
            s, d = np.uintp(next_state[k]), origin - units[k]
            bottom, top, place = places[s, 0], places[s, 1], places[s, 2]
            if d < bottom or d + n > top:
                add_far(x, to, n, prob[k], v, place + bottom, top - bottom, d - bottom, slope)
