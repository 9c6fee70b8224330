"""Compiled loops over outcome rows. Plain NumPy twins, which test them, are in the tests.

Tables are ragged: state s owns `values[offset[s] : offset[s + 1]]`, its entry i belongs to the integer
budget `first[s] + i`. Below its first entry a table is constant, above its last it grows with slope 1,
and both are exact: no return can fall short of a budget that is guaranteed, and every return falls short
of one that is out of reach. All kernels release the interpreter lock and work on states [begin, end).
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

BLOCK = 512
"""Budgets handled at a time, so that sums over outcomes stay in the first-level cache."""

LISTED = 1024
"""Outcomes of a pair that are added at a time."""

FAST = {"contract", "nsz", "arcp"}
compiled = njit(cache=True, nogil=True, boundscheck=False, fastmath=FAST)
inlined = njit(cache=True, nogil=True, boundscheck=False, fastmath=FAST, inline="always")


@intrinsic
def prefetch(typing, array, index):
    """Ask for the cache line of array[index], which will be read soon, to be in the second-level cache by then."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(array)(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        read_to_second_level = [ir.Constant(ir.IntType(32), n) for n in (0, 2, 1)]
        kind = ir.FunctionType(ir.VoidType(), [place.type] + [n.type for n in read_to_second_level])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [place, *read_to_second_level])
        return context.get_dummy_value()

    return types.none(array, types.uintp), generate


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


@inlined
def add_rows(q, n, at, weight, m, v):
    """q[i] += sum over r < m of weight[r] * v[at[r] + i], i < n: eight rows at a time, then four, then one.

    Unsigned indices need no wrap-around test, so the loops are vectorised.
    """
    r = 0
    while r + 8 <= m:
        p0, p1, p2, p3 = weight[r], weight[r + 1], weight[r + 2], weight[r + 3]
        p4, p5, p6, p7 = weight[r + 4], weight[r + 5], weight[r + 6], weight[r + 7]
        u0, u1, u2, u3 = np.uintp(at[r]), np.uintp(at[r + 1]), np.uintp(at[r + 2]), np.uintp(at[r + 3])
        u4, u5, u6, u7 = np.uintp(at[r + 4]), np.uintp(at[r + 5]), np.uintp(at[r + 6]), np.uintp(at[r + 7])
        for i in range(np.uintp(n)):
            q[i] += ((p0 * v[u0 + i] + p1 * v[u1 + i]) + (p2 * v[u2 + i] + p3 * v[u3 + i])) + (
                (p4 * v[u4 + i] + p5 * v[u5 + i]) + (p6 * v[u6 + i] + p7 * v[u7 + i])
            )
        r += 8
    while r + 4 <= m:
        p0, p1, p2, p3 = weight[r], weight[r + 1], weight[r + 2], weight[r + 3]
        u0, u1, u2, u3 = np.uintp(at[r]), np.uintp(at[r + 1]), np.uintp(at[r + 2]), np.uintp(at[r + 3])
        for i in range(np.uintp(n)):
            q[i] += (p0 * v[u0 + i] + p1 * v[u1 + i]) + (p2 * v[u2 + i] + p3 * v[u3 + i])
        r += 4
    while r < m:
        p0, u0 = weight[r], np.uintp(at[r])
        for i in range(np.uintp(n)):
            q[i] += p0 * v[u0 + i]
        r += 1


@inlined
def sum_rows(x, n, at, weight, m, v, to):
    """x[to + i] = sum over r < m of weight[r] * v[at[r] + i], i < n, for any m: one loop for up to eight rows."""
    p0, u0 = weight[0], np.uintp(at[0])
    if m == 1:
        for i in range(np.uintp(n)):
            x[to + i] = p0 * v[u0 + i]
        return
    p1, u1 = weight[1], np.uintp(at[1])
    if m == 2:
        for i in range(np.uintp(n)):
            x[to + i] = p0 * v[u0 + i] + p1 * v[u1 + i]
        return
    p2, u2 = weight[2], np.uintp(at[2])
    if m == 3:
        for i in range(np.uintp(n)):
            x[to + i] = (p0 * v[u0 + i] + p1 * v[u1 + i]) + p2 * v[u2 + i]
        return
    p3, u3 = weight[3], np.uintp(at[3])
    if m == 4:
        for i in range(np.uintp(n)):
            x[to + i] = (p0 * v[u0 + i] + p1 * v[u1 + i]) + (p2 * v[u2 + i] + p3 * v[u3 + i])
        return
    p4, u4 = weight[4], np.uintp(at[4])
    if m == 5:
        for i in range(np.uintp(n)):
            first = (p0 * v[u0 + i] + p1 * v[u1 + i]) + (p2 * v[u2 + i] + p3 * v[u3 + i])
            x[to + i] = first + p4 * v[u4 + i]
        return
    p5, u5 = weight[5], np.uintp(at[5])
    if m == 6:
        for i in range(np.uintp(n)):
            first = (p0 * v[u0 + i] + p1 * v[u1 + i]) + (p2 * v[u2 + i] + p3 * v[u3 + i])
            x[to + i] = first + (p4 * v[u4 + i] + p5 * v[u5 + i])
        return
    p6, u6 = weight[6], np.uintp(at[6])
    # Seven are made up to eight by a row that counts for nothing.
    p7, u7 = (weight[7], np.uintp(at[7])) if m > 7 else (0.0, u6)
    for i in range(np.uintp(n)):
        first = (p0 * v[u0 + i] + p1 * v[u1 + i]) + (p2 * v[u2 + i] + p3 * v[u3 + i])
        x[to + i] = first + ((p4 * v[u4 + i] + p5 * v[u5 + i]) + (p6 * v[u6 + i] + p7 * v[u7 + i]))
    if m > 8:
        add_rows(x[to : to + n], n, at[8:m], weight[8:m], m - 8, v)


@inlined
def lowest(x, at, bonus, name, m, n, tie, best, chosen):
    """Where in `best` and `chosen` (scratch, 2 BLOCK each) the least value of m actions and its name begin.

    Action r has the values x[at[r] + i] - bonus[r], i < n; of those that differ by less than `tie` the first wins.
    Four actions at a time, from one half of the scratch to the other: in place they would compile to masked
    stores, which are slow.
    """
    for i in range(np.uintp(n)):
        best[i] = np.inf
        chosen[i] = 0.0
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
                which = a0 if q < least - tie else which
                least = q if q < least else least
                q = x[u1 + i] - b1
                which = a1 if q < least - tie else which
                least = q if q < least else least
                q = x[u2 + i] - b2
                which = a2 if q < least - tie else which
                least = q if q < least else least
                q = x[u3 + i] - b3
                best[there + i] = q if q < least else least
                chosen[there + i] = a3 if q < least - tie else which
            r += 4
        else:
            for i in range(np.uintp(n)):
                q, least = x[u0 + i] - b0, best[here + i]
                best[there + i] = q if q < least else least
                chosen[there + i] = a0 if q < least - tie else chosen[here + i]
            r += 1
        here, there = there, here
    return here


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
    k, fresh, far = np.uintp(begin), True, False
    while k < np.uintp(end):
        m = np.uintp(0)
        while k < np.uintp(end) and m < np.uintp(LISTED):
            s, d = np.uintp(next_state[k]), origin - units[k]
            if d >= places[s, 0] and d + n <= places[s, 1]:
                at[m] = places[s, 2] + d
                weight[m] = prob[k]
                m += np.uintp(1)
            else:
                far = True
            k += np.uintp(1)
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
    begin, end, n_actions, ptr, next_state, prob, units, bonus,
    first, offset, pad, places, values_next, values, actions, at_ends, tie, ahead,
):  # fmt: skip
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
                    x, m * BLOCK, n, many, ptr[pair], ptr[pair + 1], first[s] + block, next_state, prob, units,
                    places, values_next, at, weight,
                )  # fmt: skip
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
def push_forward(
    n_actions, ptr, next_state, prob, units, error, first, offset, actions, elsewhere,
    low, spread, mass, drift, square, low_next, spread_next, mass_next, drift_next, square_next,
):  # fmt: skip
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
