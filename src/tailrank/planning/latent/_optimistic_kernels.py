"""Kernels of the optimistic planners: one backward step over all groups, without tables of all pairs."""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled


@compiled
def rows_backup(first, after, prob, rest, rest_row, table, law_of, laws, bonus, least, most, values, actions):
    """One step on rows: values [G, C] = min_a Q clipped to [least, most] [C], actions [G, C] the lowest minimiser.

    Pair k owns rows first[k]:first[k + 1] of after [n] and prob [n] into table [G', C]; rest [G A] is the weight of
    rest_row [C] (what is left of a law that does not sum to one). law_of [G, A] into laws [L, m]; bonus [G, A].
    """
    n_groups, n_actions = law_of.shape
    n_budgets = table.shape[1]
    mean, q = np.empty(n_budgets), np.empty(n_budgets)
    for g in range(n_groups):
        for a in range(n_actions):
            pair = g * n_actions + a
            weight = rest[pair]
            for c in range(n_budgets):
                mean[c] = weight * rest_row[c]
            for row in range(first[pair], first[pair + 1]):
                p, t = prob[row], after[row]
                for c in range(n_budgets):
                    mean[c] += p * table[t, c]
            for c in range(n_budgets):
                q[c] = -bonus[g, a]
            law = law_of[g, a]
            for x in range(laws.shape[1]):
                p = laws[law, x]
                if p != 0.0:
                    for c in range(min(x, n_budgets)):
                        q[c] += p * mean[0]
                    for c in range(x, n_budgets):
                        q[c] += p * mean[c - x]
            for c in range(n_budgets):
                if a == 0 or q[c] < values[g, c]:
                    values[g, c] = q[c]
                    actions[g, c] = a
        for c in range(n_budgets):
            values[g, c] = min(max(values[g, c], least[c]), most[c])


@compiled
def bernstein_backup(
    first,
    after,
    prob,
    rest,
    rest_rows,
    tables,
    law_of,
    width,
    least,
    left,
    bottom,
    top,
    low,
    high,
    actions,
):
    """One step with a Bernstein bonus: low, high [G, C] and actions [G, C], the lowest minimiser of the low values.

    tables [4, L, n, C]: W, W^2, W^ and (W^ - W)^2 for each reward law and column of the rows; rest_rows [4, L, C].
    width, least [G, A] are x and y, left is R, values are clipped to [bottom, top] [C]; see `plan_bernstein`.
    """
    n_groups, n_actions = law_of.shape
    n_budgets = low.shape[1]
    moment = np.empty((4, n_budgets))
    for g in range(n_groups):
        for a in range(n_actions):
            pair, law, x, y = g * n_actions + a, law_of[g, a], width[g, a], least[g, a]
            for m in range(4):
                if x == 0.0 and (m == 1 or m == 3):
                    continue
                for c in range(n_budgets):
                    moment[m, c] = rest[pair] * rest_rows[m, law, c]
                for row in range(first[pair], first[pair + 1]):
                    p, t = prob[row], after[row]
                    for c in range(n_budgets):
                        moment[m, c] += p * tables[m, law, t, c]
            for c in range(n_budgets):
                paid = 0.0
                if x > 0.0:
                    variance = max(moment[1, c] - moment[0, c] ** 2, 0.0)
                    paid = np.sqrt(2.0 * x) * (np.sqrt(variance) + np.sqrt(max(moment[3, c], 0.0))) + y * left
                q = moment[0, c] - paid
                if a == 0 or q < low[g, c]:
                    low[g, c] = q
                    high[g, c] = moment[2, c] + paid
                    actions[g, c] = a
        for c in range(n_budgets):
            low[g, c] = min(max(low[g, c], bottom[c]), top[c])
            high[g, c] = min(max(high[g, c], bottom[c]), top[c])
