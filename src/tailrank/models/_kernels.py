"""Compiled loops over outcome rows: the one that a random number falls on, and all in order."""

from __future__ import annotations

from tailrank._system.jit import compiled, frugal


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


@frugal
def order_rows(ptr, next_state, reward, longest, order):
    """order [n] = 0..n-1 with the rows of every pair by next state and reward; False, and nothing of use, where a pair
    whose rows are not in order has more than `longest` of them."""
    for pair in range(ptr.size - 1):
        begin = ptr[pair]
        for k in range(begin, ptr[pair + 1]):
            t, r, j = next_state[k], reward[k], k
            while j > begin and (
                next_state[order[j - 1]] > t or (next_state[order[j - 1]] == t and reward[order[j - 1]] > r)
            ):
                order[j] = order[j - 1]
                j -= 1
            if k - j > longest:
                return False
            order[j] = k
    return True
