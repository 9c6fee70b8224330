"""The compiled recursion of the targets of a shortfall network."""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled


@compiled(fastmath=False)
def traced_targets(slopes, actions, shift, end, lengths, trust, off, result):
    """Fill result [T, C - 1]: slopes in the budget of what Q(x_t, c, a_t) should be.

    slopes [T, A, C - 1]: of what the networks say of every state. actions, shift [T]: what was played, and the rewards
    less the origin, in units. end [T]: place + end is the shortfall of an episode that is over after the step.
    lengths [n]: steps of the episodes, one after the other. trust, off: what errors of the
    network count for where the action was its own, and beside that elsewhere.
    """
    C, A = slopes.shape[2] + 1, slopes.shape[1]
    after, aim, q = np.empty(C), np.empty(C), np.zeros((A, C))
    stop = 0
    for e in range(lengths.size):
        stop += lengths[e]
        for t in range(stop - 1, stop - lengths[e] - 1, -1):
            for c in range(C):
                place = c - shift[t]
                if t == stop - 1:
                    aim[c] = max(place + end[t], 0.0)
                else:
                    inside = min(max(place, 0.0), C - 1.0)
                    low = min(int(inside), C - 2)
                    part = inside - low
                    aim[c] = (1.0 - part) * after[low] + part * after[low + 1] + max(place - (C - 1.0), 0.0)
            for c in range(C - 1):
                result[t, c] = min(max(aim[c + 1] - aim[c], 0.0), 1.0)
            for a in range(A):
                for c in range(C - 1):
                    q[a, c + 1] = q[a, c] + slopes[t, a, c]
            for c in range(C):
                best = 0
                for a in range(1, A):
                    if q[a, c] < q[best, c]:
                        best = a
                part = trust if best == actions[t] else trust * off
                after[c] = q[best, c] + part * (aim[c] - q[actions[t], c])
