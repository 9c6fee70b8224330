"""What every induction does innermost: weighted sums of rows, and the lowest of several.

These are instructions: what is written here says what they compute, `_system/_vectors.py` how it is compiled.
"""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import instruction

BLOCK = 512
"""Budgets handled at a time, so that sums over outcomes stay in the first-level cache."""


@instruction
def sum_rows(x, to, n, at, weight, begin, end, shift, v, base, more):
    """x[to + i] = base + sum over the rows begin..end-1 of weight[r] * v[at[r] + shift + i], i < n.

    more: add to what is there in place of `base`. Fastest where n is a multiple of 8. x and v must not overlap.
    """
    for i in range(n):
        total = x[to + i] if more else base
        for r in range(begin, end):
            total += weight[r] * v[at[r] + shift + i]
        x[to + i] = total


@instruction
def lowest(x, at, bonus, name, m, n, tie, best, chosen, label):
    """best, chosen [n]: the least value of m actions and the name of the first that has it; label [n]: the same name,
    or -1 where another action ties with the best.

    Action r has the values x[at[r] + i] - bonus[r], i < n; those tie that differ by less than `tie`, relative to their
    size.
    """
    for i in range(n):
        least, second, chosen[i] = x[at[0] + i] - bonus[0], np.inf, name[0]
        for r in range(1, m):
            q = x[at[r] + i] - bonus[r]
            chosen[i] = name[r] if q < least - tie * abs(least) else chosen[i]
            least, second = min(q, least), min(second, max(q, least))
        best[i], label[i] = least, -1.0 if second <= least + tie * abs(least) else chosen[i]
