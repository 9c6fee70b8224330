"""Compiled loops over outcome rows. Plain NumPy twins, which test them, are in the tests.

Tables are ragged: state s owns `values[offset[s] : offset[s + 1]]`, its entry i belongs to the integer
budget `first[s] + i`. Below its first entry a table is constant, above its last it grows with slope 1,
and both are exact: no return can fall short of a budget that is guaranteed, and every return falls short
of one that is out of reach. All kernels release the interpreter lock and work on states [begin, end).
"""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled, frugal, nested, prefetch
from tailrank.planning._row_kernels import BLOCK, lowest, sum_rows
from tailrank.planning.exact._gather_kernels import LISTED, add_far, expected, list_outcomes
from tailrank.planning.exact._tie_kernels import tell_apart, tell_certain


@nested
def _prefetch_state(s, n_actions, ptr, next_state, units, first, block, places, v, n):
    """Ask for all that the backup of state s will read of the tables after it, n entries an outcome."""
    for k in range(np.uintp(ptr[s * n_actions]), np.uintp(ptr[(s + 1) * n_actions])):
        t = np.uintp(next_state[k])
        at = np.uintp(places[t, 2] + min(max(first[s] + block - units[k], places[t, 0]), places[t, 1]))
        for i in range(np.uintp(0), np.uintp(n), np.uintp(8)):
            prefetch(v, at + i)


@nested
def fill_pads(s, block, n, offset, pad, write, table, slope):
    """Continue the table of state s, whose budgets from `block` on were written (n from `write` on), into its pads."""
    if block == 0:
        for i in range(np.uintp(pad)):
            table[write - np.uintp(pad) + i] = table[write]
    if offset[s] + block + n == offset[s + 1]:
        last = write + np.uintp(n - 1)
        for i in range(np.uintp(pad)):
            table[last + np.uintp(1) + i] = table[last] + slope * (i + 1)


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
    own_places,
    values,
    actions,
    at_ends,
    tie,
    ahead,
    gain,
    neutral,
    neutral_next,
    means,
    certain_next,
    certain,
):
    """One step of the induction: values = min_a { -bonus + E V' }, actions = its lowest minimiser.

    Unless `means` is empty, minimisers that tie are told apart by the mean, means = max_a { gain + E W' } over them;
    neutral [S], unless it is empty, has the means at the lowest budgets, where all actions tie (neutral_next: of the
    next step). certain [S], unless it is empty, becomes the largest budget that can be met for certain, given the same
    of the next step: up to it values are zero.

    ptr [S A + 1], next_state/prob/units [n]: the rows. bonus, gain [S A]. places, own_places [S, 3]: where
    `values` and `means` hold the tables of the next step and those of this one, which are written; see
    `Tables.place`.
    `actions` may be empty (not stored). `at_ends` [S], unless negative, is the action stored at a table's two ends:
    at the first entry every action is as good, at the last only the mean counts, so both are for the risk-neutral
    action. ahead: whether to ask for the tables of the next state early, which pays where they fit in no cache.
    """
    x, best, chosen, label = np.empty(n_actions * BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    at, weight = np.empty(n_actions * LISTED, np.int64), np.empty(n_actions * LISTED)
    listed, sure = np.empty(n_actions, np.int64), np.empty(n_actions, np.int64)
    row, paid, bound = np.empty(n_actions, np.int64), np.empty(n_actions), np.empty(n_actions)
    name = np.empty(n_actions)
    store, track, know = actions.size > 0, means.size > 0, certain_next.size > 0
    mean, w, position = np.empty(BLOCK + 8), np.empty(BLOCK + 8), np.empty(n_actions)
    mean_below, chosen_below = np.empty(BLOCK), np.empty(BLOCK)
    widest = 0
    for s in range(begin, end):
        widest = max(widest, offset[s + 1] - offset[s])
    for block in range(0, widest, BLOCK):
        for s in range(begin, end):
            n = min(BLOCK, offset[s + 1] - offset[s] - block)
            if n <= 0:
                continue
            if ahead and s + 1 < end:
                _prefetch_state(s + 1, n_actions, ptr, next_state, units, first, block, places, values, n)
            origin, zeros = first[s] + block, np.int64(0)
            m = list_outcomes(
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
            )
            if know:
                for r in range(m):
                    certain[s] = max(certain[s], sure[r])
                zeros = min(max(certain[s] - origin + 1, zeros), n)
            n -= zeros
            many = (n + 7) // 8 * 8  # whole vectors: what is read and found beyond n is not used
            for r in range(m if n > 0 else 0):
                pair, own = s * n_actions + int(name[r]), r * LISTED
                row[r], paid[r] = r * BLOCK, bonus[pair]
                if listed[r] > 0:
                    sum_rows(x, row[r], many, at, weight, own, own + listed[r], origin + zeros, values, 0.0, False)
                else:
                    expected(
                        x,
                        row[r],
                        n,
                        many,
                        ptr[pair],
                        ptr[pair + 1],
                        origin + zeros,
                        next_state,
                        prob,
                        units,
                        places,
                        values,
                        at,
                        weight,
                        own,
                        1.0,
                        0.0,
                    )
            lowest(x, row, paid, name, m, many, tie, best, chosen, label)
            for r in range(m - 1, -1, -1):
                for i in range(np.uintp(min(max(sure[r] - origin + 1, 0), zeros))):
                    chosen_below[i] = name[r]
            skip = 1 if block == 0 and neutral.size > 0 else 0  # every action ties there
            write = np.uintp(own_places[s, 2] + origin)
            if track:
                if n > 0:
                    tell_apart(
                        x,
                        row,
                        paid,
                        name,
                        m,
                        max(skip - zeros, 0),
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
                        origin + zeros,
                        next_state,
                        prob,
                        units,
                        places,
                        means,
                        w,
                        position,
                        mean,
                    )
                if zeros > 0:
                    tell_certain(
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
                        means,
                        bound,
                        at,
                        weight,
                        w,
                        mean_below,
                        chosen_below,
                    )
                for i in range(np.uintp(zeros)):
                    means[write + i] = mean_below[i]
                for i in range(np.uintp(n)):
                    means[write + np.uintp(zeros) + i] = mean[i]
                if skip > 0:
                    means[write] = neutral[s]
            for i in range(np.uintp(zeros)):
                values[write + i] = 0.0
            for i in range(np.uintp(n)):
                values[write + np.uintp(zeros) + i] = best[i]
            fill_pads(s, block, zeros + n, offset, pad, write, values, 1.0)
            if track:
                fill_pads(s, block, zeros + n, offset, pad, write, means, 0.0)
            if store:
                write = np.uintp(offset[s] + block)
                # Vectors convert to 32 bits only, which hold any action that there is scratch for.
                for i in range(np.uintp(zeros)):
                    actions[write + i] = np.int32(chosen_below[i])
                for i in range(np.uintp(n)):
                    actions[write + np.uintp(zeros) + i] = np.int32(chosen[i])
                if at_ends[s] >= 0:
                    if block == 0:
                        actions[offset[s]] = at_ends[s]
                    if offset[s] + block + zeros + n == offset[s + 1]:
                        actions[offset[s + 1] - 1] = at_ends[s]


@frugal
def mix_tables(share, first, offset, places, values, lowest, total, slope):
    """total[i] += sum over s of share[s] V(s, lowest + i): the tables of all states, mixed by their shares [S].

    slope: that of a table above its last entry.
    """
    for s in range(first.size):
        if share[s] > 0.0:
            begin, size, shift = places[s, 2] + first[s], offset[s + 1] - offset[s], lowest - first[s]
            add_far(total, np.int64(0), total.size, share[s], values, begin, size, shift, slope)


@frugal
def return_range(begin_state, end_state, n_actions, ptr, next_state, reward, low_next, high_next, cautious, low, high):
    """The least and the most that can still be earned from states begin_state..end_state-1.

    The least over all actions, or (cautious) the best of the actions' worst outcomes.
    """
    for s in range(begin_state, end_state):
        fresh, least, most = True, 0.0, 0.0
        for a in range(n_actions):
            begin, end = np.uintp(ptr[s * n_actions + a]), np.uintp(ptr[s * n_actions + a + 1])
            if begin == end:
                continue
            worst, best = np.inf, -np.inf
            for k in range(begin, end):
                t = np.uintp(next_state[k])
                worst, best = min(worst, reward[k] + low_next[t]), max(best, reward[k] + high_next[t])
            least = worst if fresh or (worst > least) == cautious else least
            most = best if fresh else max(most, best)
            fresh = False
        if not fresh:
            low[s], high[s] = least, most
