"""The compiled backup of the planner on observed latents."""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled


@compiled(fastmath=True)
def backup(
    ptr, after, units, counts, bonus, prior, caution, enough, least, present, usual, ended, met, tables, values, result
):
    """One step of the induction: values [K, A, C] of the actions, and result [K + 1, C] of the latents.

    Outcomes (after, units, counts) of pair k lie in ptr[k]..ptr[k + 1]. tables [K + 1, C']: the value in next latent
    z' (K: ended) with c' left, linear in c' below zero and from its last entry on. bonus [K, A] in units;
    present [K]: latents of the next step; usual: units that a pair never tried pays; least: the least that any pays;
    ended [C]: the value of an episode that is over; met: the slope of values below zero; enough: tries of a pair from
    which on what it pays beyond the budget counts.
    """
    K, A, C = values.shape
    last = tables.shape[1] - 1
    anywhere, n_present = np.zeros(last + 1), 0
    for z in range(K):
        if present[z]:
            n_present += 1
            anywhere += tables[z]
    anywhere = anywhere / n_present if n_present else tables[K].copy()
    worst, squares = np.empty(C), np.empty(C)
    if caution > 0.0:
        below = tables[K].copy()
        for z in range(K):
            if present[z]:
                below = np.maximum(below, tables[z])
        _add(worst, below, least, 1.0, met, True)
    pooled = np.empty(C)
    for z in range(K):
        pooled[:] = 0.0
        total = 0.0
        for a in range(A):
            k = z * A + a
            row = values[z, a]
            n = 0.0
            for e in range(ptr[k], ptr[k + 1]):
                n += counts[e]
            if n == 0.0 and caution > 0.0:
                row[:] = worst
                continue
            if n == 0.0:
                _add(row, anywhere, usual, 1.0, met if enough <= 0.0 else 0.0, True)
                continue
            slope = met if n >= enough else 0.0
            row[:] = 0.0
            for e in range(ptr[k], ptr[k + 1]):
                _add(row, tables[after[e]], units[e], counts[e] / n, slope, False)
            if caution > 0.0:
                squares[:] = 0.0
                for e in range(ptr[k], ptr[k + 1]):
                    _add_square(squares, tables[after[e]], units[e], counts[e] / n, slope)
                for c in range(C):
                    margin = np.sqrt(2.0 * caution * max(squares[c] - row[c] ** 2, 0.0) / n)
                    row[c] = min(row[c] + margin + (worst[c] - row[c]) * caution / (n + caution), worst[c])
            if prior > 0.0:
                total += n
                for c in range(C):
                    pooled[c] += n * row[c]
        if prior > 0.0 and total > 0.0:
            for a in range(A):
                k = z * A + a
                n = 0.0
                for e in range(ptr[k], ptr[k + 1]):
                    n += counts[e]
                if n > 0.0:
                    w = prior / (n + prior)
                    for c in range(C):
                        values[z, a, c] += w * (pooled[c] / total - values[z, a, c])
        for a in range(A):
            for c in range(C):
                values[z, a, c] -= bonus[z, a]
                if a == 0 or values[z, a, c] < result[z, c]:
                    result[z, c] = values[z, a, c]
    result[K] = ended


@compiled(fastmath=True, inline="always")
def _add(row, table, u, p, met, fresh):
    """row [C] += p table(c - u), of slope `met` below zero and one above its last entry; or = if fresh."""
    C, last = row.size, table.size - 1
    if fresh:
        row[:] = 0.0
    for c in range(min(u, C)):
        row[c] += p * (table[0] + met * (c - u))
    inside = min(C, u + last + 1)
    for c in range(u, inside):
        row[c] += p * table[c - u]
    for c in range(max(inside, u), C):
        row[c] += p * (table[last] + (c - u - last))


@compiled(fastmath=True, inline="always")
def _add_square(row, table, u, p, met):
    """row [C] += p table(c - u)^2, as `_add`."""
    C, last = row.size, table.size - 1
    for c in range(min(u, C)):
        row[c] += p * (table[0] + met * (c - u)) ** 2
    inside = min(C, u + last + 1)
    for c in range(u, inside):
        row[c] += p * table[c - u] ** 2
    for c in range(max(inside, u), C):
        row[c] += p * (table[last] + (c - u - last)) ** 2
