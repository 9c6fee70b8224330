"""Compiled loops that push a law forward: the budgets that can be left, and how likely each is."""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import frugal


@frugal
def push_range(begin, end, n_actions, ptr, next_state, prob, units, reach, low, high, low_next, high_next):
    """Budgets low..high [S] that can be left after a step, from those before it, whatever is done, in begin..end-1.

    reach [2, S]: the first and the last of the states that each state leads to.
    """
    for s in range(low.size):
        if reach[1, s] < begin or reach[0, s] >= end or low[s] > high[s]:
            continue
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
    sources,
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
    places,
    places_next,
    mass,
    drift,
    square,
):
    """The joint law of (state, remaining budget) one step later under a budget policy, for states begin..end-1.

    Every entry gets its parts in the order of the states they come from, however many calls share the states that are
    pushed into: the bits do not depend on the number of threads.

    sources [n, 2]: the states sources[i, 0]..sources[i, 1] - 1 are looked at. first/offset/actions: the policy's tables
    (elsewhere [S] for states without one). State s has the budgets c from places[s, 0] to below places[s, 1], at
    places[s, 2] + c of `mass`; places_next: the same of the next step. `drift` and `square` are the first and
    second moment (times mass) of the error, true minus rounded reward, collected on the paths that
    meet there; empty when `error` is. Neighbouring budgets with the same action move as one run. reach: see
    `push_range`.
    """
    track = error.size > 0
    for s in range(begin, end):
        at = np.uintp(places_next[s, 0] + places_next[s, 2])
        for c in range(np.uintp(places_next[s, 1] - places_next[s, 0])):
            mass[at + c] = 0.0
            if track:
                drift[at + c], square[at + c] = 0.0, 0.0
    for part in range(sources.shape[0]):
        for s in range(sources[part, 0], sources[part, 1]):
            if reach[1, s] < begin or reach[0, s] >= end:
                continue
            c, until, place = places[s, 0], places[s, 1], places[s, 2]
            last = offset[s + 1] - offset[s] - 1
            same, pair = c, s * n_actions + elsewhere[s]
            while c < until:
                if mass[np.uintp(place + c)] == 0.0:
                    c += 1
                    continue
                if last < 0:
                    same = until
                elif c >= same:
                    # Beyond the ends of its table, 0 and `last`, the last action holds.
                    a = actions[np.uintp(offset[s] + min(max(c - first[s], 0), last))]
                    same, inside = max(c + 1, min(1 + first[s], until)), min(last + 1 + first[s], until)
                    while same < inside and actions[np.uintp(offset[s] + same - first[s])] == a:
                        same += 1
                    same = same if same < inside else until
                    pair = s * n_actions + a
                j = c + 1
                while j < same and mass[np.uintp(place + j)] != 0.0:
                    j += 1
                here = np.uintp(place + c)
                for k in range(np.uintp(ptr[pair]), np.uintp(ptr[pair + 1])):
                    t, p = next_state[k], prob[k]
                    if t < begin or t >= end or p == 0.0:
                        continue
                    to = np.uintp(places_next[np.uintp(t), 2] + c - units[k])
                    for i in range(np.uintp(j - c)):
                        mass[to + i] += p * mass[here + i]
                    if track:
                        e = error[k]
                        for i in range(np.uintp(j - c)):
                            m, d, v = mass[here + i], drift[here + i], square[here + i]
                            drift[to + i] += p * (d + e * m)
                            square[to + i] += p * (v + e * (2.0 * d + e * m))
                c = j


@frugal
def collect(begin, end, places, column, most, total):
    """total[most - c] += what states begin..end-1 have in `column` for budget c; places: see `push_forward`."""
    for s in range(begin, end):
        for c in range(places[s, 0], places[s, 1]):
            total[np.uintp(most - c)] += column[np.uintp(places[s, 2] + c)]
