"""Compiled loops that break ties in the shortfall by the mean.

Where several actions of a state attain the least shortfall at a budget, the one whose mean is largest is taken; the
means W of the policy so chosen stand in tables beside those of the shortfall. Most budgets have one minimiser: there W
is one more sum over the outcomes of one action, for whole runs of budgets at a time (`tell_apart`). Budgets that can be
met for certain have the shortfall zero with every action that may go on to meet them, which whole numbers tell; no sum
over shortfalls is needed there (`tell_certain`).
"""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import nested
from tailrank.planning._row_kernels import sum_rows
from tailrank.planning.exact._gather_kernels import LISTED, expected


@nested
def _mean_row(
    w, low, high, listed, at, weight, own, begin, end, origin, next_state, prob, units, places, means_next, gain
):
    """w[i] = gain + E W' of the outcomes begin..end-1 at the budgets origin + i, low <= i < high (and up to 7 more).

    listed: how many of them `at` and `weight` hold, from `own` on (`list_outcomes`); -1 where not all.
    """
    n, start = high - low, origin + low
    many = (n + 7) // 8 * 8
    if listed > 0:
        sum_rows(w, low, many, at, weight, own, own + listed, start, means_next, gain, False)
    else:
        expected(
            w,
            low,
            n,
            many,
            begin,
            end,
            start,
            next_state,
            prob,
            units,
            places,
            means_next,
            at,
            weight,
            own,
            0.0,
            gain,
        )


@nested
def tell_apart(
    x,
    row,
    paid,
    name,
    m,
    skip,
    n,
    tie,
    best,
    chosen,
    label,
    listed,
    at,
    weight,
    gain,
    s,
    ptr,
    origin,
    next_state,
    prob,
    units,
    places,
    means_next,
    w,
    position,
    mean,
):
    """mean [n] of the best of the actions that tie for the least value; its name goes to chosen [n].

    Action r < m has the values x[row[r] + i] - paid[r]; best, label [n]: see `lowest`. gain [S A]: the expected reward
    of each pair. skip: budgets that are left alone. mean, w [n + 8] and position [A]; the last two are scratch. The
    rest: see `backup`, `expected`. Budgets with the same label are done together.
    """
    n_actions = listed.size
    for r in range(m):
        position[np.uintp(name[r])] = r
    i = skip
    while i < n:
        who, j = label[np.uintp(i)], i + 1
        while j < n and label[np.uintp(j)] == who:
            j += 1
        tied = who < 0.0
        first = 0 if tied else int(position[np.uintp(who)])
        for r in range(first, m if tied else first + 1):
            pair = s * n_actions + int(name[r])
            _mean_row(
                w if tied else mean,
                i,
                j,
                listed[r],
                at,
                weight,
                r * LISTED,
                ptr[pair],
                ptr[pair + 1],
                origin,
                next_state,
                prob,
                units,
                places,
                means_next,
                gain[pair],
            )
            if tied:
                u, b = np.uintp(row[r]), paid[r]
                for k in range(np.uintp(i), np.uintp(j)):
                    before = mean[k] if r > 0 else -np.inf
                    found = x[u + k] <= best[k] + tie * abs(best[k]) + b and w[k] > before + tie * abs(w[k])
                    mean[k] = w[k] if found else before
                    chosen[k] = name[r] if found else chosen[k]
        i = j


@nested
def tell_certain(
    s,
    m,
    skip,
    zeros,
    tie,
    name,
    sure,
    listed,
    gain,
    ptr,
    origin,
    next_state,
    prob,
    units,
    places,
    means_next,
    bound,
    at,
    weight,
    w,
    mean,
    chosen,
):
    """mean and chosen [zeros] at the budgets from `origin` on, all met for certain: of the actions that go on to meet
    them the one with the best mean, of several the first.

    sure [A]: the largest budget that each of the m actions is sure to meet. bound [A]: the best
    mean of what follows each of them, whatever the budget. The rest: see `tell_apart`.
    """
    n_actions = sure.size
    for i in range(np.uintp(zeros)):
        mean[i] = -np.inf
    for r in range(m):
        high = min(sure[r] - origin + 1, zeros)
        if high <= skip:
            continue
        pair = s * n_actions + int(name[r])
        begin, end, most = ptr[pair], ptr[pair + 1], gain[pair] + bound[r]
        low, above = skip, high  # means fall with the budget: below `low` they are as large as any of this action
        while low < above:
            half = (low + above) // 2
            if mean[np.uintp(half)] >= most:
                low = half + 1
            else:
                above = half
        if low == high:
            continue
        _mean_row(
            w,
            low,
            high,
            listed[r],
            at,
            weight,
            r * LISTED,
            begin,
            end,
            origin,
            next_state,
            prob,
            units,
            places,
            means_next,
            gain[pair],
        )
        for i in range(np.uintp(low), np.uintp(high)):
            found = w[i] > mean[i] + tie * abs(w[i])
            mean[i] = w[i] if found else mean[i]
            chosen[i] = name[r] if found else chosen[i]
