"""Compiled loops over outcome rows. Plain NumPy twins, which test them, are in the tests.

Tables are ragged: state s owns `values[offset[s] : offset[s + 1]]`, its entry i belongs to the integer
budget `first[s] + i`. Below its first entry a table is constant, above its last it grows with slope 1,
and both are exact: no return can fall short of a budget that is guaranteed, and every return falls short
of one that is out of reach. All kernels release the interpreter lock and work on states [begin, end).
"""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled, inlined, prefetch
from tailrank.planning._row_kernels import BLOCK, add_rows, lowest, sum_rows

LISTED = 1024
"""Outcomes of a pair that are added at a time."""


@inlined
def _add_far(q, n, weight, table, begin, size, shift):
    """q[i] += weight * V(shift + i): the general case, where an outcome runs over an end of its table.

    The table is table[begin : begin + size], constant below and of slope one above.
    """
    low = min(max(-shift, 0), n)
    high = max(min(size - shift, n), low)
    bottom, top = weight * table[begin], table[begin + size - 1]
    for i in range(low):
        q[i] += bottom
    source = np.uintp(begin + shift + low)
    for i in range(np.uintp(high - low)):
        q[np.uintp(low) + i] += weight * table[source + i]
    for i in range(high, n):
        q[i] += weight * (top + (shift + i - size + 1))


@compiled
def padded_places(first, offset, pad, places):
    """Where padded tables lie, [S, 3]: with (bottom, top, place) in its row, that of s holds the budgets
    bottom <= c < top, at values[place + c]."""
    for s in range(first.size):
        bottom = first[s] - pad
        places[s, 0] = bottom
        places[s, 1] = bottom + offset[s + 1] - offset[s] + 2 * pad
        places[s, 2] = offset[s] + 2 * pad * s - bottom


@inlined
def _expected(x, to, n, many, begin, end, origin, next_state, prob, units, places, v, at, weight):
    """x[to + i] = sum over the outcomes begin..end-1 of p V'(s', origin + i - reward), i < n.

    Outcomes that stay within their (padded) tables, nearly all, are listed in `at` and `weight` (scratch) and
    summed together, `many` >= n entries. Reads without a sign: they need no wrap-around test.
    """
    fresh, far = True, False
    for part in range(begin, end, LISTED):
        m = np.uintp(0)
        for k in range(np.uintp(part), np.uintp(min(part + LISTED, end))):
            s, d = np.uintp(next_state[k]), origin - units[k]
            if d >= places[s, 0] and d + n <= places[s, 1]:
                at[m] = places[s, 2] + d
                weight[m] = prob[k]
                m += np.uintp(1)
            else:
                far = True
        if fresh and m == 0:
            for i in range(np.uintp(many)):
                x[np.uintp(to) + i] = 0.0
        elif fresh:
            sum_rows(x, many, at, weight, int(m), v, np.uintp(to))
        else:
            add_rows(x[to : to + many], many, at, weight, int(m), v)
        fresh = False
    if far:
        for k in range(np.uintp(begin), np.uintp(end)):
            s, d = np.uintp(next_state[k]), origin - units[k]
            bottom, top, place = places[s, 0], places[s, 1], places[s, 2]
            if d < bottom or d + n > top:
                _add_far(x[to : to + n], n, prob[k], v, place + bottom, top - bottom, d - bottom)


@inlined
def _prefetch_state(s, n_actions, ptr, next_state, units, first, block, places, v, n):
    """Ask for all that the backup of state s will read of the tables after it, n entries an outcome."""
    for k in range(np.uintp(ptr[s * n_actions]), np.uintp(ptr[(s + 1) * n_actions])):
        t = np.uintp(next_state[k])
        at = np.uintp(places[t, 2] + min(max(first[s] + block - units[k], places[t, 0]), places[t, 1]))
        for i in range(np.uintp(0), np.uintp(n), np.uintp(8)):
            prefetch(v, at + i)


@compiled
def backup(
    begin,
    end,
    n_actions,
    ptr,
    next_state,
    prob,
    units,
    bonus,
    first,
    offset,
    pad,
    places,
    values_next,
    values,
    actions,
    at_ends,
    tie,
    ahead,
):
    """One step of the induction: values = min_a { -bonus + E V' }, actions = its lowest minimiser.

    ptr [S A + 1], next_state/prob/units [n]: the rows. bonus [S A]. places [S, 3]: see `padded_places`.
    `actions` may be empty (not stored). `at_ends` [S], unless negative, is the action stored at a table's two ends:
    at the first entry every action is as good, at the last only the mean counts, so both are for the risk-neutral
    action. ahead: whether to ask for the tables of the next state early, which pays where they fit in no cache.
    """
    x, best, chosen = np.empty(n_actions * BLOCK), np.empty(2 * BLOCK), np.empty(2 * BLOCK)
    at, weight = np.empty(LISTED, np.int64), np.empty(LISTED)
    row, paid, name = np.empty(n_actions, np.int64), np.empty(n_actions), np.empty(n_actions)
    store = actions.size > 0
    widest = 0
    for s in range(begin, end):
        widest = max(widest, offset[s + 1] - offset[s])
    for block in range(0, widest, BLOCK):
        for s in range(begin, end):
            n = min(BLOCK, offset[s + 1] - offset[s] - block)
            if n <= 0:
                continue
            if ahead and s + 1 < end:
                _prefetch_state(s + 1, n_actions, ptr, next_state, units, first, block, places, values_next, n)
            many = (n + 7) // 8 * 8  # whole vectors: what is read and found beyond n is not used
            m = 0
            for a in range(n_actions):
                pair = s * n_actions + a
                if ptr[pair] == ptr[pair + 1]:
                    continue
                row[m], paid[m], name[m] = m * BLOCK, bonus[pair], a
                _expected(
                    x,
                    m * BLOCK,
                    n,
                    many,
                    ptr[pair],
                    ptr[pair + 1],
                    first[s] + block,
                    next_state,
                    prob,
                    units,
                    places,
                    values_next,
                    at,
                    weight,
                )
                m += 1
            here = lowest(x, row, paid, name, m, many, tie, best, chosen)
            write = np.uintp(offset[s] + block + (2 * s + 1) * pad)
            for i in range(np.uintp(n)):
                values[write + i] = best[here + i]
            if block == 0:
                for i in range(np.uintp(pad)):
                    values[write - np.uintp(pad) + i] = best[here]
            if offset[s] + block + n == offset[s + 1]:
                for i in range(pad):
                    values[write + np.uintp(n + i)] = best[here + np.uintp(n - 1)] + (i + 1)
            if store:
                write = np.uintp(offset[s] + block)
                for i in range(np.uintp(n)):
                    actions[write + i] = int(chosen[here + i])
                if at_ends[s] >= 0:
                    if block == 0:
                        actions[offset[s]] = at_ends[s]
                    if offset[s] + block + n == offset[s + 1]:
                        actions[offset[s + 1] - 1] = at_ends[s]


@compiled
def mix_tables(share, first, offset, pad, values, lowest, total):
    """total[i] += sum over s of share[s] V(s, lowest + i): the tables of all states, mixed by their shares [S]."""
    for s in range(first.size):
        if share[s] > 0.0:
            begin, size, shift = offset[s] + (2 * s + 1) * pad, offset[s + 1] - offset[s], lowest - first[s]
            _add_far(total, total.size, share[s], values, begin, size, shift)


@compiled
def return_range(n_actions, ptr, next_state, reward, low_next, high_next, cautious, low, high):
    """The least and the most that can still be earned from each state, in whole units or in floats.

    The least over all actions, or (cautious) the best of the actions' worst outcomes.
    """
    for s in range(low.size):
        fresh = True
        for a in range(n_actions):
            begin, end = ptr[s * n_actions + a], ptr[s * n_actions + a + 1]
            if begin == end:
                continue
            worst = reward[begin] + low_next[next_state[begin]]
            best = reward[begin] + high_next[next_state[begin]]
            for k in range(begin + 1, end):
                worst = min(worst, reward[k] + low_next[next_state[k]])
                best = max(best, reward[k] + high_next[next_state[k]])
            if fresh:
                low[s], high[s] = worst, best
                fresh = False
            else:
                low[s] = max(low[s], worst) if cautious else min(low[s], worst)
                high[s] = max(high[s], best)


@compiled
def push_range(n_actions, ptr, next_state, prob, units, low, high, low_next, high_next):
    """Budgets low..high [S] that can be left after a step, from those before it, whatever is done."""
    for s in range(low.size):
        if low[s] <= high[s]:
            for k in range(ptr[s * n_actions], ptr[(s + 1) * n_actions]):
                if prob[k] > 0.0:
                    t = next_state[k]
                    low_next[t] = min(low_next[t], low[s] - units[k])
                    high_next[t] = max(high_next[t], high[s] - units[k])


@compiled
def push_spread(n_actions, ptr, next_state, prob, units, low, high, far, low_next, high_next, spread_next):
    """`push_range` into fresh arrays (far and -far: none), and where each state's budgets begin, [S + 1]."""
    for s in range(low.size):
        low_next[s], high_next[s] = far, -far
    push_range(n_actions, ptr, next_state, prob, units, low, high, low_next, high_next)
    spread_next[0] = 0
    for s in range(low.size):
        spread_next[s + 1] = spread_next[s] + max(high_next[s] - low_next[s] + 1, 0)


@compiled
def push_forward(
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
    """Push the joint law of (state, remaining budget) one step forward under a budget policy.

    first/offset/actions: the policy's tables (elsewhere [S] for states without one). State s owns entries
    spread[s]:spread[s + 1] of `mass`, for the budgets from low[s] on. `drift` and `square` are the first and
    second moment (times mass) of the error, true minus rounded reward, collected on the paths that
    meet there; empty when `error` is. Neighbouring budgets with the same action move as one run.
    """
    track = error.size > 0
    for s in range(spread.size - 1):
        begin, end = spread[s], spread[s + 1]
        last = offset[s + 1] - offset[s] - 1
        i = begin
        while i < end:
            if mass[i] == 0.0:
                i += 1
                continue
            budget = low[s] + i - begin
            a = elsewhere[s] if last < 0 else actions[offset[s] + min(max(budget - first[s], 0), last)]
            j = i + 1
            while j < end and mass[j] != 0.0:
                if last >= 0 and actions[offset[s] + min(max(low[s] + j - begin - first[s], 0), last)] != a:
                    break
                j += 1
            pair = s * n_actions + a
            m = mass[i:j]
            for k in range(ptr[pair], ptr[pair + 1]):
                t, p = next_state[k], prob[k]
                at = spread_next[t] + budget - units[k] - low_next[t]
                out = mass_next[at : at + j - i]
                for c in range(j - i):
                    out[c] += p * m[c]
                if track:
                    e = error[k]
                    d, d_out = drift[i:j], drift_next[at : at + j - i]
                    v, v_out = square[i:j], square_next[at : at + j - i]
                    for c in range(j - i):
                        d_out[c] += p * (d[c] + e * m[c])
                        v_out[c] += p * (v[c] + e * (2.0 * d[c] + e * m[c]))
            i = j


@compiled
def collect(low, spread, column, most, total):
    """total[most - c] += what state s has in `column` for budget c; s owns spread[s]:spread[s + 1], from low[s] on."""
    for s in range(low.size):
        for i in range(np.uintp(spread[s + 1] - spread[s])):
            total[np.uintp(most - low[s]) - i] += column[np.uintp(spread[s]) + i]
