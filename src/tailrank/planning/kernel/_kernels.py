"""The compiled backup of the induction on representatives."""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled
from tailrank.policies.tables import SAME


@compiled(fastmath=True)
def backup(ptr, after, shift, weight, bonus, allowed, pad, left, table, result, taken):
    """One step: result [M, C] = min over actions of the expected value after it, less its bonus; taken [M, C]: which.

    table [M + 1, pad + C + pad]: values of the next step with room on both sides for the shifts; its last row is the
    shortfall of an episode that is over. A pair that is not allowed counts only where no other is. One without outcomes
    has the bonus of all `left` steps, and no shortfall: what is unknown is worth going to at once. Where no action
    falls short, the one for the next budget is taken: with more steps left, when actions are held, it falls short.
    """
    M, A = bonus.shape
    C = result.shape[1]
    q = np.empty(C)
    for j in range(M):
        any_allowed = False
        for a in range(A):
            any_allowed = any_allowed or allowed[j, a]
        first = True
        for a in range(A):
            if any_allowed and not allowed[j, a]:
                continue
            first_row, last_row = ptr[j * A + a], ptr[j * A + a + 1]
            q[:] = -bonus[j, a] * (left if first_row == last_row else 1.0)
            for e in range(first_row, last_row):
                begin, w = pad - shift[e], weight[e]
                row = table[after[e], begin : begin + C]
                for c in range(C):
                    q[c] += w * row[c]
            for c in range(C):
                if first or q[c] < result[j, c]:
                    result[j, c], taken[j, c] = q[c], a
            first = False
        for c in range(C - 2, -1, -1):
            if result[j, c] <= 0.0:
                taken[j, c] = taken[j, c + 1]


@compiled(fastmath=True)
def held_backup(ptr, after, shift, weight, bonus, pad, left, table, result, taken):
    """One step by the actions taken [M, C], which are not looked for anew; the rest as in `backup`."""
    M, A = bonus.shape
    C = result.shape[1]
    for j in range(M):
        c = 0
        while c < C:
            a, stop = taken[j, c], c + 1
            while stop < C and taken[j, stop] == a:
                stop += 1
            pair = j * A + a
            less = bonus[j, a] * (left if ptr[pair] == ptr[pair + 1] else 1.0)
            expected(ptr, after, shift, weight, pair, pad + c, table, less, result[j, c:stop])
            c = stop


@compiled(fastmath=True)
def expected(ptr, after, shift, weight, pair, pad, table, less, q):
    """q [C]: the expected value after one pair, less a number; the rest as in `backup`."""
    q[:] = -less
    for e in range(ptr[pair], ptr[pair + 1]):
        begin, w = pad - shift[e], weight[e]
        row = table[after[e], begin : begin + q.size]
        for c in range(q.size):
            q[c] += w * row[c]


@compiled(fastmath=False)
def crossed_backup(one, other, allowed, pad, table_one, table_other, result_one, result_other, taken):
    """One step of two models, each (ptr, after, shift, weight) with its table as in `backup`.

    result_one [M, C]: what the first model expects of the action that is best in the second; result_other the other
    way round. Among actions as good the one with the best mean is taken: the least shortfall of the highest budget.
    taken [2, M, C]: the actions that are valued in the first model, and in the second.
    """
    (M, A), C = allowed.shape, result_one.shape[1]
    q, p = np.empty((A, C)), np.empty((A, C))
    for j in range(M):
        every = not allowed[j].any()
        for a in range(A):
            if every or allowed[j, a]:
                expected(one[0], one[1], one[2], one[3], j * A + a, pad, table_one, 0.0, q[a])
                expected(other[0], other[1], other[2], other[3], j * A + a, pad, table_other, 0.0, p[a])
            else:
                q[a], p[a] = np.inf, np.inf
        for c in range(C):
            taken[0, j, c], taken[1, j, c] = best_action(p, c), best_action(q, c)
            result_one[j, c] = q[taken[0, j, c], c]
            result_other[j, c] = p[taken[1, j, c], c]


@compiled(fastmath=False)
def best_action(q, c):
    """The action with the least q[:, c], and with the least q[:, -1] among those."""
    best = 0
    for a in range(1, q.shape[0]):
        near = SAME * (1.0 + abs(q[best, c]))
        if q[a, c] < q[best, c] - near or (q[a, c] <= q[best, c] + near and q[a, -1] < q[best, -1]):
            best = a
    return best


@compiled(fastmath=False)
def widen(values, pad, end, table):
    """table [M + 1, pad + C + pad] from values [M, C]: constant below, of slope one above; last max(place + end, 0)."""
    M, C = values.shape
    for j in range(M):
        for c in range(pad):
            table[j, c] = values[j, 0]
            table[j, pad + C + c] = values[j, C - 1] + (c + 1.0)
        for c in range(C):
            table[j, pad + c] = values[j, c]
    for c in range(table.shape[1]):
        table[M, c] = max(c - pad + end, 0.0)
