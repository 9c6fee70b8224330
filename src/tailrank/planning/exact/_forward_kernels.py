"""Compiled loops that push a law forward: the budgets that can be left, and how likely each is.

State s owns entries spread[s]:spread[s + 1] of a ragged table, for the budgets from low[s] on.
"""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import frugal


@frugal
def push_range(n_actions, ptr, next_state, prob, units, low, high, low_next, high_next):
    """Budgets low..high [S] that can be left after a step, from those before it, whatever is done."""
    for s in range(low.size):
        if low[s] <= high[s]:
            for k in range(ptr[s * n_actions], ptr[(s + 1) * n_actions]):
                if prob[k] > 0.0:
                    t = next_state[k]
                    low_next[t] = min(low_next[t], low[s] - units[k])
                    high_next[t] = max(high_next[t], high[s] - units[k])


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
    meet there; empty when `error` is. Neighbouring budgets with the same action move as one run.
    """
    track = error.size > 0
    for s in range(spread.size - 1):
        until = spread[s + 1]
        last = offset[s + 1] - offset[s] - 1
        shift = low[s] - spread[s] - first[s]  # entry i of the law is entry i + shift of the table of actions
        i = spread[s]
        while i < until:
            if mass[i] == 0.0:
                i += 1
                continue
            budget = low[s] + i - spread[s]
            a = elsewhere[s] if last < 0 else actions[offset[s] + min(max(i + shift, 0), last)]
            j = i + 1
            if last < 0:
                while j < until and mass[j] != 0.0:
                    j += 1
            else:
                while j < until and mass[j] != 0.0 and actions[offset[s] + min(max(j + shift, 0), last)] == a:
                    j += 1
            pair, here = s * n_actions + a, np.uintp(i)
            for k in range(ptr[pair], ptr[pair + 1]):
                t, p = next_state[k], prob[k]
                if t < begin or t >= end or p == 0.0:
                    continue
                to = np.uintp(spread_next[t] + budget - units[k] - low_next[t])
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
