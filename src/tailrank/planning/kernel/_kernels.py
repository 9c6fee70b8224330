"""The compiled backup of the induction on representatives."""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled


@compiled(fastmath=True)
def backup(ptr, after, shift, weight, bonus, allowed, pad, left, table, result):
    """One step: result [M, C] = min over actions of the expected value after it, less its bonus.

    table [M + 1, pad + C + pad]: values of the next step with room on both sides for the shifts; its last row is the
    shortfall of an episode that is over. A pair that is not allowed counts only where no other is. One without outcomes
    has the bonus of all `left` steps, and no shortfall: what is unknown is worth going to at once.
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
                    result[j, c] = q[c]
            first = False


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
