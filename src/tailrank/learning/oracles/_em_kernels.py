"""Compiled loops of the EM oracles. Plain NumPy twins, which test them, are in the tests.

Rows are pairs that were seen: row i owns entries ptr[i] : ptr[i + 1] of `after` and `count`. psi is stored
the other way round, [G', d], so that the loop over the rank, always the innermost, runs over neighbours.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tailrank._system import jit

compiled = jit.compiled(error_model="numpy", fastmath=jit.FAST | {"reassoc"})
LARGEST_COMPILED = 32
"""Up to this rank each rank has its own machine code (a third faster); above, one loop serves all."""
SMALL = 1e-150
"""Likelihoods are multiplied until they are this small: one logarithm then serves many transitions."""


@cache
def em_pass(rank):
    """The fused pass for this rank: (ptr, after, count, phi, psi, phi_mass, psi_mass) -> log-likelihood.

    It fills phi_mass [m, d] and psi_mass [G', d] with the expected counts of each latent under (phi, psi).
    """
    known = rank if rank <= LARGEST_COMPILED else 0

    @compiled
    def run(ptr, after, count, phi, psi, phi_mass, psi_mass):
        d = known if known > 0 else phi.shape[1]
        total = 0.0
        row, mass = np.empty(d), np.empty(d)
        psi_mass[:] = 0.0
        for i in range(phi.shape[0]):
            for j in range(d):
                row[j] = phi[i, j]
                mass[j] = 0.0
            product = 1.0
            for k in range(np.uintp(ptr[i]), np.uintp(ptr[i + 1])):
                s = np.uintp(after[k])
                likely = 0.0
                for j in range(d):
                    likely += row[j] * psi[s, j]
                weight = count[k] / likely
                for j in range(d):
                    mass[j] += weight * psi[s, j]
                    psi_mass[s, j] += weight * row[j]
                if count[k] == 1.0:
                    product *= likely
                    if product < SMALL:
                        total += np.log(product)
                        product = 1.0
                else:
                    total += count[k] * np.log(likely)
            total += np.log(product)
            for j in range(d):
                phi_mass[i, j] = mass[j] * row[j]
        for g in range(psi.shape[0]):
            for j in range(d):
                psi_mass[g, j] *= psi[g, j]
        return total

    return run


@compiled
def settle(mass, floor):
    """Turn rows of expected counts into the likeliest laws with no entry below `floor`, in place.

    They are max(mass / scale, floor) with the scale at which they sum to one: the exact maximum of
    sum mass log law under the floor, so that no pass can lose likelihood to it. Needs floor * columns < 1.
    """
    for i in range(mass.shape[0]):
        scale = 0.0
        for j in range(mass.shape[1]):
            scale += mass[i, j]
        if scale <= 0.0:
            continue
        low = -1
        while True:
            below, kept = 0, 0.0
            for j in range(mass.shape[1]):
                if mass[i, j] < floor * scale:
                    below += 1
                else:
                    kept += mass[i, j]
            if below <= low or kept == 0.0:  # rounding may move an entry at the floor to and fro
                break
            low = below
            scale = kept / (1.0 - floor * below)
        for j in range(mass.shape[1]):
            mass[i, j] = max(mass[i, j] / scale, floor)


@compiled
def _x_log_x(x):
    """x log x, 0 at 0 (and just below it, after rounding)."""
    return x * np.log(x) if x > 0.0 else 0.0


@compiled
def sweep(ptr, pair, count, block, table, size, members, least_gain):
    """Move each next group, in turn, to the block that raises the likelihood most; the number of moves.

    Column s owns entries ptr[s] : ptr[s + 1] of `pair` and `count`. block [G'], table [m, d] = N(pair, j),
    size [d] = N_j and members [d] are kept up to date. The likelihood, up to a constant, is
    sum table log table - sum size log size; a block never loses its last member.
    """
    d, moves = size.size, 0
    gain = np.empty(d)
    for s in range(block.size):
        begin, end, now = ptr[s], ptr[s + 1], block[s]
        if begin == end or members[now] == 1:
            continue
        column = 0.0
        gain[:] = 0.0
        for k in range(begin, end):
            p, c = pair[k], count[k]
            column += c
            left = _x_log_x(table[p, now]) - _x_log_x(table[p, now] - c)
            for j in range(d):
                if j != now:
                    gain[j] += _x_log_x(table[p, j] + c) - _x_log_x(table[p, j]) - left
        best = now
        most = least_gain
        for j in range(d):
            if j != now:
                change = _x_log_x(size[now]) - _x_log_x(size[now] - column)
                gain[j] += change + _x_log_x(size[j]) - _x_log_x(size[j] + column)
                if gain[j] > most:
                    best, most = j, gain[j]
        if best != now:
            for k in range(begin, end):
                table[pair[k], now] = max(table[pair[k], now] - count[k], 0.0)
                table[pair[k], best] += count[k]
            size[now] -= column
            size[best] += column
            members[now] -= 1
            members[best] += 1
            block[s] = best
            moves += 1
    return moves
