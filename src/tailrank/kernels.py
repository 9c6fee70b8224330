"""Compiled loops over outcome rows. Plain NumPy twins, which test them, are in the tests.

Tables are ragged: state s owns `values[offset[s] : offset[s + 1]]`, its entry i belongs to the integer
budget `first[s] + i`. Below its first entry a table is constant, above its last it grows with slope 1,
and both are exact: no return can fall short of a budget that is guaranteed, and every return falls short
of one that is out of reach. All kernels release the interpreter lock and work on states [begin, end).
"""

from __future__ import annotations

import numpy as np
from numba import njit

BLOCK = 512
"""Budgets handled at a time, so that sums over outcomes stay in the first-level cache."""

TIE = 1e-12
"""Latent values that differ by less, relative to their size, are tied; the lowest action wins."""

FAST = {"contract", "nsz", "arcp"}
compiled = njit(cache=True, nogil=True, boundscheck=False, fastmath=FAST)
inlined = njit(cache=True, nogil=True, boundscheck=False, fastmath=FAST, inline="always")


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
def _expected(q, n, begin, end, origin, next_state, prob, units, bottom, top, place, v, at, weight):
    """q[i] += sum over outcomes of p V'(s', origin + i - x), i < n.

    Outcomes that stay within their (padded) tables, nearly all, are listed in `at` and `weight` (scratch)
    and added four at a time. Unsigned indices need no wrap-around test, so the loop is vectorised.
    """
    k = begin
    while k < end:
        m = 0
        while k < end and m < BLOCK:
            s, d = next_state[k], origin - units[k]
            if d >= bottom[s] and d + n <= top[s]:
                at[m] = place[s] + d
                weight[m] = prob[k]
                m += 1
            else:
                _add_far(q, n, prob[k], v, place[s] + bottom[s], top[s] - bottom[s], d - bottom[s])
            k += 1
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


@compiled
def backup(
    begin, end, n_actions, ptr, next_state, prob, units, bonus,
    first, offset, pad, first_next, offset_next, pad_next, values_next, values, actions, at_ends, tie,
):  # fmt: skip
    """One step of the induction: values = min_a { -bonus + E V' }, actions = its lowest minimiser.

    ptr [S A + 1], next_state/prob/units [n]: the rows. bonus [S A]. `actions` may be empty (not stored).
    `at_ends` [S], unless negative, is the action stored at a table's two ends: at the first entry every
    action is as good, at the last only the mean counts, so both are for the risk-neutral action.
    """
    q, best, chosen = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    at_row, weight = np.empty(BLOCK, np.int64), np.empty(BLOCK)
    # The (padded) next table of s holds the budgets bottom[s] <= c < top[s], at values_next[place[s] + c].
    bottom, top, place = np.empty_like(first_next), np.empty_like(first_next), np.empty_like(first_next)
    for s in range(first_next.size):
        bottom[s] = first_next[s] - pad_next
        top[s] = bottom[s] + offset_next[s + 1] - offset_next[s] + 2 * pad_next
        place[s] = offset_next[s] + 2 * pad_next * s - bottom[s]
    store = actions.size > 0
    widest = 0
    for s in range(begin, end):
        widest = max(widest, offset[s + 1] - offset[s])
    for block in range(0, widest, BLOCK):
        for s in range(begin, end):
            n = min(BLOCK, offset[s + 1] - offset[s] - block)
            if n <= 0:
                continue
            fresh = True
            for a in range(n_actions):
                pair = s * n_actions + a
                if ptr[pair] == ptr[pair + 1]:
                    continue
                for i in range(n):
                    q[i] = -bonus[pair]
                _expected(
                    q, n, ptr[pair], ptr[pair + 1], first[s] + block, next_state, prob, units,
                    bottom, top, place, values_next, at_row, weight,
                )  # fmt: skip
                if fresh:
                    for i in range(n):
                        best[i] = q[i]
                        chosen[i] = a
                    fresh = False
                elif store:
                    for i in range(n):
                        chosen[i] = a if q[i] < best[i] - tie * abs(best[i]) else chosen[i]
                        best[i] = min(q[i], best[i])
                else:
                    for i in range(n):
                        best[i] = min(q[i], best[i])
            at = offset[s] + block
            write = at + (2 * s + 1) * pad
            for i in range(n):
                values[write + i] = best[i]
            if block == 0:
                for i in range(pad):
                    values[write - pad + i] = best[0]
            if offset[s] + block + n == offset[s + 1]:
                for i in range(pad):
                    values[write + n + i] = best[n - 1] + (i + 1)
            if store:
                for i in range(n):
                    actions[at + i] = int(chosen[i])
                if at_ends[s] >= 0:
                    if block == 0:
                        actions[at] = at_ends[s]
                    if at + n == offset[s + 1]:
                        actions[at + n - 1] = at_ends[s]


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


@compiled
def latent_backup(phi, table, law_of, laws, bonus, values, actions):
    """One step of the latent induction (see `planners.latent`), for all groups.

    phi [G, A, d], table [d, C] = E_{psi_j} V'(., c), law_of [G, A] into laws [L, n], bonus [G, A] in units;
    writes values [G, C] and actions [G, C], the lowest minimiser.
    """
    n_groups, n_actions, rank = phi.shape
    n_budgets, n_units = table.shape[1], laws.shape[1]
    mean, q = np.empty(n_budgets), np.empty(n_budgets)
    for g in range(n_groups):
        for a in range(n_actions):
            for c in range(n_budgets):
                mean[c] = phi[g, a, 0] * table[0, c]
            for j in range(1, rank):
                weight = phi[g, a, j]
                if weight != 0.0:
                    for c in range(n_budgets):
                        mean[c] += weight * table[j, c]
            law = law_of[g, a]
            for c in range(n_budgets):
                q[c] = -bonus[g, a]
            for x in range(n_units):
                p = laws[law, x]
                if p != 0.0:
                    for c in range(min(x, n_budgets)):
                        q[c] += p * mean[0]
                    for c in range(x, n_budgets):
                        q[c] += p * mean[c - x]
            if a == 0:
                for c in range(n_budgets):
                    values[g, c] = q[c]
                    actions[g, c] = 0
            else:
                for c in range(n_budgets):
                    if q[c] < values[g, c] - TIE * abs(values[g, c]):
                        actions[g, c] = a
                    values[g, c] = min(values[g, c], q[c])


@compiled
def push_plan(mass, actions, budget, law_of, laws, phi, latent):
    """Push the law of (group, units earned) through one step of a plan, as far as the latents.

    mass [G, E], actions [G, C], law_of [G, A] into laws [L, n], phi [G, A, d]; adds to latent [d, E].
    """
    n_groups, n_earned = mass.shape
    n_actions, rank = phi.shape[1], phi.shape[2]
    n_units, last = laws.shape[1], actions.shape[1] - 1
    moved = np.empty((n_actions, n_earned))
    for g in range(n_groups):
        moved[:] = 0.0
        for e in range(n_earned):
            m = mass[g, e]
            if m != 0.0:
                a = actions[g, min(max(budget - e, 0), last)]
                law = law_of[g, a]
                for x in range(min(n_units, n_earned - e)):
                    moved[a, e + x] += m * laws[law, x]
        for a in range(n_actions):
            for j in range(rank):
                weight = phi[g, a, j]
                if weight != 0.0:
                    for e in range(n_earned):
                        latent[j, e] += weight * moved[a, e]
