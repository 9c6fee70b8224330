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
def merge_rows(ptr, next_state, prob, reward, longest, counts, merged_state, merged_prob, merged_reward, rest):
    """How many rows there are if those of every pair are put in the order of next state and reward, equal ones added
    up and impossible ones left out; they are put into merged_* [n], how many each pair has into counts.

    -1, and nothing of use, where a row would have to move further than `longest`. rest [n]: scratch for the sums of all
    but the first of equal rows, which then has NumPy's bits.
    """
    m = 0
    for pair in range(ptr.size - 1):
        begin = m
        for k in range(ptr[pair], ptr[pair + 1]):
            t, p, r, j = next_state[k], prob[k], reward[k], m
            if not p > 0.0:
                continue
            while j > begin and (merged_state[j - 1] > t or (merged_state[j - 1] == t and merged_reward[j - 1] > r)):
                j -= 1
            if j > begin and merged_state[j - 1] == t and merged_reward[j - 1] == r:
                rest[j - 1] += p
                continue
            if m - j > longest:
                return -1
            for i in range(m, j, -1):
                merged_state[i], merged_prob[i] = merged_state[i - 1], merged_prob[i - 1]
                merged_reward[i], rest[i] = merged_reward[i - 1], rest[i - 1]
            merged_state[j], merged_prob[j], merged_reward[j], rest[j] = t, p, r, 0.0
            m += 1
        counts[pair] = m - begin
        for i in range(begin, m):
            merged_prob[i] += rest[i]
    return m
