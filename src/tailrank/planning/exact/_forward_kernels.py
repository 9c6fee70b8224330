"""Compiled loops that push a law forward: the budgets that can be left, and how likely each is.

State s owns entries spread[s]:spread[s + 1] of a ragged table, for the budgets from low[s] on.
"""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import frugal

GROUP = 256
"""States that are passed over together where none leads to those that are pushed into."""


@frugal
def push_range(begin, end, n_actions, ptr, next_state, prob, units, reach, low, high, low_next, high_next):
    """Budgets low..high [S] that can be left after a step, from those before it, whatever is done, in begin..end-1.

    reach [2, groups]: the first and the last of the states that each GROUP of states leads to.
    """
    for group in range(reach.shape[1]):
        if reach[1, group] < begin or reach[0, group] >= end:
            continue
        for s in range(group * GROUP, min((group + 1) * GROUP, low.size)):
            if low[s] <= high[s]:
                for k in range(np.uintp(ptr[s * n_actions]), np.uintp(ptr[(s + 1) * n_actions])):
                    t = next_state[k]
                    if t >= begin and t < end and prob[k] > 0.0:
                        to = np.uintp(t)
                        low_next[to] = min(low_next[to], low[s] - units[k])
                        high_next[to] = max(high_next[to], high[s] - units[k])


@frugal
def push_forward(
    begin,
    end,
    n_actions,
    ptr,
    next_state,
    prob,
    units,
    error,
    reach,
    first,
    offset,
    actions,
    elsewhere,
    low,
    spread,
    mass,
    drift,
    square,
    low_next,
    spread_next,
    mass_next,
    drift_next,
    square_next,
):
    """Push the joint law of (state, remaining budget) one step forward under a budget policy, into states begin..end-1.

    Every entry gets its parts in the order of the states they come from, however many calls share the states that are
    pushed into: the bits do not depend on the number of threads.

    first/offset/actions: the policy's tables (elsewhere [S] for states without one). State s owns entries
    spread[s]:spread[s + 1] of `mass`, for the budgets from low[s] on. `drift` and `square` are the first and
    second moment (times mass) of the error, true minus rounded reward, collected on the paths that
    meet there; empty when `error` is. Neighbouring budgets with the same action move as one run. reach: see
    `push_range`.
    """
    track = error.size > 0
    for group in range(reach.shape[1]):
        if reach[1, group] < begin or reach[0, group] >= end:
            continue
        for s in range(group * GROUP, min((group + 1) * GROUP, spread.size - 1)):
            until = spread[s + 1]
            last = offset[s + 1] - offset[s] - 1
            shift = low[s] - spread[s] - first[s]  # entry i of the law is entry i + shift of the table of actions
            i = spread[s]
            same, pair = i, s * n_actions + elsewhere[s]
            while i < until:
                if mass[np.uintp(i)] == 0.0:
                    i += 1
                    continue
                if last < 0:
                    same = until
                elif i >= same:
                    # Beyond the ends of its table, 0 and `last`, the last action holds.
                    a = actions[np.uintp(offset[s] + min(max(i + shift, 0), last))]
                    same, inside = max(i + 1, min(1 - shift, until)), min(last + 1 - shift, until)
                    while same < inside and actions[np.uintp(offset[s] + same + shift)] == a:
                        same += 1
                    same = same if same < inside else until
                    pair = s * n_actions + a
                j = i + 1
                while j < same and mass[np.uintp(j)] != 0.0:
                    j += 1
                budget, here = low[s] + i - spread[s], np.uintp(i)
                for k in range(np.uintp(ptr[pair]), np.uintp(ptr[pair + 1])):
                    t, p = next_state[k], prob[k]
                    if t < begin or t >= end or p == 0.0:
                        continue
                    to = np.uintp(spread_next[np.uintp(t)] + budget - units[k] - low_next[np.uintp(t)])
                    for c in range(np.uintp(j - i)):
                        mass_next[to + c] += p * mass[here + c]
                    if track:
                        e = error[k]
                        for c in range(np.uintp(j - i)):
                            m, d, v = mass[here + c], drift[here + c], square[here + c]
                            drift_next[to + c] += p * (d + e * m)
                            square_next[to + c] += p * (v + e * (2.0 * d + e * m))
                i = j


@frugal
def collect(low, spread, column, most, total):
    """total[most - c] += what state s has in `column` for budget c; s owns spread[s]:spread[s + 1], from low[s] on."""
    for s in range(low.size):
        for i in range(np.uintp(spread[s + 1] - spread[s])):
            total[np.uintp(most - low[s]) - i] += column[np.uintp(spread[s]) + i]
