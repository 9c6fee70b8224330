"""The compiled search for the outcome that a random number falls on."""

from __future__ import annotations

from tailrank._system.jit import compiled


@compiled
def find_rows(total, begin, end, target, found):
    """found[i] = the last row k in begin[i]..end[i]-1 with total[k] <= target[i] (the first if there is none)."""
    for i in range(found.size):
        low, high = begin[i], end[i] - 1
        while low < high:
            middle = (low + high + 1) // 2
            if total[middle] <= target[i]:
                low = middle
            else:
                high = middle - 1
        found[i] = low
