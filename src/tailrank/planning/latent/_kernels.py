"""Compiled loops of the latent planner. Plain NumPy twins, which test them, are in the tests.

A step costs G A d C products, nearly all in phi . M. They are done by the machine's matrix product on a few states
at a time, so that what it gives is still in the cache when the best action is looked for: values are never stored,
only the d rows that the step before needs. Tables hold the budgets 0..W-1; above they have slope one, below zero
they are constant, both exactly.
"""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled
from tailrank.planning._row_kernels import BLOCK, lowest, sum_rows

CELLS = 2**17
"""Values of pairs held at a time: they stay in the second-level cache."""

BLAS_PRODUCTS = 2**15
"""Products from which a matrix product is worth its call."""


@compiled
def _product(weights, begin, end, table, out, at):
    """out[begin:end] = weights[begin:end] @ table."""
    width, rank = table.shape[1], table.shape[0]
    if (end - begin) * width * rank >= BLAS_PRODUCTS:
        np.dot(weights[begin:end], table, out[begin:end])
        return
    flat = table.reshape(-1)
    for j in range(rank):
        at[j] = j * width
    for r in range(begin, end):
        sum_rows(out[r], 0, width, at, weights[r], 0, rank, 0, flat, 0.0, False)


@compiled
def _convolve(row, width_in, law, padded, at, weight, out, width):
    """out[c] = sum_x law(x) row(c - x), c < width; padded (scratch) is the row with both of its ends."""
    top = law.size - 1
    for i in range(top):
        padded[i] = row[0]
    for i in range(width_in):
        padded[top + i] = row[i]
    for i in range(width_in, width):
        padded[top + i] = row[width_in - 1] + (i - width_in + 1)
    m = 0
    for x in range(top + 1):
        if law[x] != 0.0:
            at[m] = top - x
            weight[m] = law[x]
            m += 1
    sum_rows(out, 0, width, at, weight, 0, m, 0, padded, 0.0, False)


@compiled
def after_rewards(table, laws, out):
    """out[l, j, c] = sum_x laws[l, x] table[j, c - x]: tables [d, W'] seen through every reward law [L, n]."""
    n = laws.shape[1]
    width = out.shape[2]
    padded, at, weight = np.empty(n - 1 + width), np.empty(n, np.int64), np.empty(n)
    for law in range(laws.shape[0]):
        for j in range(table.shape[0]):
            _convolve(table[j], table.shape[1], laws[law], padded, at, weight, out[law, j], width)


@compiled
def latent_backup(begin, end, phi, tables, table_of, laws, law_of, bonus, psi, tie, actions, out):
    """One step of the latent induction for the groups [begin, end): actions, and out [d, W] = psi V.

    phi [G, A, d]. tables [T, d, W']: pair (g, a) expects phi . tables[table_of[g, a]], and then the reward of law
    law_of[g, a] of laws [L, n] (n = 1: the tables have seen the rewards already). bonus [G, A], psi [d', G],
    actions [G, W]: the lowest minimisers.
    """
    n_actions, rank = phi.shape[1], phi.shape[2]
    width_in, width, n_units = tables.shape[2], out.shape[1], laws.shape[1]
    chunk = max(1, min(end - begin, CELLS // (n_actions * max(width, width_in))))
    pairs = chunk * n_actions
    sorted_phi, expected = np.empty((pairs, rank)), np.empty((pairs, width_in))
    moved = np.empty((pairs if n_units > 1 else 0, width))
    flat = moved.reshape(-1) if n_units > 1 else expected.reshape(-1)
    row, ends = np.empty((chunk, n_actions), np.int64), np.empty(tables.shape[0] + 1, np.int64)
    from_row, name = np.empty(n_actions, np.int64), np.arange(n_actions) * 1.0
    best, chosen, label = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    values = np.empty((chunk, width))
    padded, weight = np.empty(n_units - 1 + width), np.empty(n_units)
    at = np.empty(max(n_units, rank, chunk), np.int64)
    share, added = np.empty((psi.shape[0], chunk)), np.empty((psi.shape[0], width))
    for first in range(begin, end, chunk):
        n = min(chunk, end - first)
        ends[:] = 0  # pairs with the same table stand together
        for g in range(n):
            for a in range(n_actions):
                ends[table_of[first + g, a] + 1] += 1
        for t in range(tables.shape[0]):
            ends[t + 1] += ends[t]
        for g in range(n):
            for a in range(n_actions):
                t = table_of[first + g, a]
                row[g, a] = ends[t]
                ends[t] += 1
                for j in range(rank):
                    sorted_phi[row[g, a], j] = phi[first + g, a, j]
        done = 0
        for t in range(tables.shape[0]):
            if ends[t] > done:
                _product(sorted_phi, done, ends[t], tables[t], expected, at)
            done = ends[t]
        for g in range(n):
            if n_units > 1:
                for a in range(n_actions):
                    r = row[g, a]
                    _convolve(expected[r], width_in, laws[law_of[first + g, a]], padded, at, weight, moved[r], width)
            for block in range(0, width, BLOCK):
                m = min(BLOCK, width - block)
                for a in range(n_actions):
                    from_row[a] = row[g, a] * width + block
                lowest(flat, from_row, bonus[first + g], name, n_actions, m, tie, best, chosen, label)
                to, best_actions = values[g, block : block + m], actions[first + g, block : block + m]
                for i in range(np.uintp(m)):
                    to[i] = best[i]
                for i in range(np.uintp(m)):
                    best_actions[i] = int(chosen[i])
        for g in range(n, chunk):
            values[g] = 0.0
        for j in range(psi.shape[0]):
            for g in range(chunk):
                share[j, g] = psi[j, first + g] if g < n else 0.0
        _product(share, 0, psi.shape[0], values, added, at)
        for j in range(psi.shape[0]):
            for c in range(width):
                out[j, c] += added[j, c]


@compiled
def push_plan(mass, actions, budget, law_of, laws, phi, latent):
    """Push the law of (group, units earned) through one step of a plan, as far as the latents.

    mass [G, E], actions [G, C], law_of [G, A] into laws [L, n], phi [G, A, d]; adds to latent [d, E].
    """
    n_groups, n_earned = mass.shape
    n_actions, rank = phi.shape[1], phi.shape[2]
    n_units, last = laws.shape[1], actions.shape[1] - 1
    moved = np.empty((n_actions, n_earned))
    for g in range(n_groups):
        moved[:] = 0.0
        for e in range(n_earned):
            m = mass[g, e]
            if m != 0.0:
                a = actions[g, min(max(budget - e, 0), last)]
                law = law_of[g, a]
                for x in range(min(n_units, n_earned - e)):
                    moved[a, e + x] += m * laws[law, x]
        for a in range(n_actions):
            for j in range(rank):
                weight = phi[g, a, j]
                if weight != 0.0:
                    for e in range(n_earned):
                        latent[j, e] += weight * moved[a, e]
