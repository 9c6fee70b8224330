"""The compiled choice of actions at observations."""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled


@compiled(fastmath=False)
def choose(values, mix, budgets, result):
    """Actions result [n]: argmin over a of sum_z mix[i, z] values[z, a, budgets[i]], the first among equals."""
    n, K = mix.shape
    A, C = values.shape[1], values.shape[2]
    for i in range(n):
        c = max(min(budgets[i], C - 1), 0)
        best, least = 0, np.inf
        for a in range(A):
            q = 0.0
            for z in range(K):
                if mix[i, z] > 1e-12:
                    q += mix[i, z] * values[z, a, c]
            if q < least - 1e-12 * abs(least) or a == 0:
                best, least = a, q
        result[i] = best
