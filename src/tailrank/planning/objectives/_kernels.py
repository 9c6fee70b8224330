"""Compiled backups that need no budgets: the worst case and exponential moments."""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled


@compiled
def worst_backup(begin, end, n_actions, ptr, next_state, prob, reward, values_next, values, actions):
    """values [S]: the best of the actions' worst outcomes; actions [S]: the lowest action that has it."""
    for s in range(begin, end):
        values[s] = -np.inf
        for a in range(n_actions):
            worst, pair = np.inf, s * n_actions + a
            for k in range(ptr[pair], ptr[pair + 1]):
                if prob[k] > 0.0:
                    worst = min(worst, reward[k] + values_next[next_state[k]])
            if ptr[pair] < ptr[pair + 1] and worst > values[s]:
                values[s], actions[s] = worst, a


@compiled
def entropic_backup(begin, end, n_actions, ptr, next_state, prob, reward, beta, tie, values_next, values, actions):
    """values [S]: the largest -log E exp(-beta (r + V')) / beta; actions [S]: the lowest action within `tie` of it.

    What the worst outcome of a pair earns is taken off first, so that nothing overflows; where all outcomes are near
    it, log(1 + E (exp - 1)) keeps the digits that a small beta would cancel.
    """
    q = np.empty(n_actions)
    for s in range(begin, end):
        best = -np.inf
        for a in range(n_actions):
            pair = s * n_actions + a
            q[a] = -np.inf
            if ptr[pair] == ptr[pair + 1]:
                continue
            low, high = np.inf, -np.inf
            for k in range(np.uintp(ptr[pair]), np.uintp(ptr[pair + 1])):
                if prob[k] > 0.0:
                    x = reward[k] + values_next[np.uintp(next_state[k])]
                    low, high = min(low, x), max(high, x)
            total = 0.0
            if beta * (high - low) < 1.0:
                for k in range(np.uintp(ptr[pair]), np.uintp(ptr[pair + 1])):
                    x = reward[k] + values_next[np.uintp(next_state[k])]
                    total += prob[k] * np.expm1(-beta * max(x - low, 0.0))
                q[a] = low - np.log1p(total) / beta
            else:
                for k in range(np.uintp(ptr[pair]), np.uintp(ptr[pair + 1])):
                    x = reward[k] + values_next[np.uintp(next_state[k])]
                    total += prob[k] * np.exp(-beta * max(x - low, 0.0))
                q[a] = low - np.log(total) / beta
            best = max(best, q[a])
        values[s] = best
        for a in range(n_actions):
            if q[a] >= best - tie * abs(best):
                actions[s] = a
                break


@compiled
def weighted_backup(begin, end, n_actions, ptr, next_state, weight, tie, moments_next, moments, actions):
    """moments [S]: the least sum of weight U' over the outcomes of an action; actions [S]: the lowest that has it."""
    for s in range(begin, end):
        best, chosen = np.inf, -1
        for a in range(n_actions):
            pair, total = s * n_actions + a, 0.0
            if ptr[pair] == ptr[pair + 1]:
                continue
            for k in range(np.uintp(ptr[pair]), np.uintp(ptr[pair + 1])):
                total += weight[k] * moments_next[np.uintp(next_state[k])]
            if chosen < 0 or total < best * (1.0 - tie):
                chosen = a
            best = min(best, total)
        moments[s], actions[s] = best, chosen
