"""Compiled loops of CVaR-LSVI: rank-one updates, scores of actions, values at visited states.

Weights are W [d, nr, C] for the printed features (phi (x) law) and M [d, C] for the factored ones (phi alone,
the known reward law applied afterwards: `_factored` where it is independent of the next latent, `_joint` where only
the law of both together is known). Every kernel has a plain NumPy twin in `lsvi_literal` or the tests.
"""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled


@compiled
def grow(inverse, features, gains):
    """Add x x^T to Lambda for each row x of features [n, d]: Sherman-Morrison on `inverse`, in place.

    gains [n]: log det Lambda after each row, relative to the start.
    """
    d = inverse.shape[0]
    u = np.empty(d)
    total = 0.0
    for j in range(features.shape[0]):
        quad = 0.0
        for a in range(d):
            s = 0.0
            for b in range(d):
                s += inverse[a, b] * features[j, b]
            u[a] = s
            quad += s * features[j, a]
        scale = 1.0 / (1.0 + quad)
        for a in range(d):
            for b in range(d):
                inverse[a, b] -= scale * u[a] * u[b]
        total += np.log1p(quad)
        gains[j] = total


@compiled
def scores_printed(features, bonus, budgets, weights, inverse, beta):
    """-b + <x, w(budget)> - beta ||x|| for each state and action, [n, A]; x = features [n, A, D], weights [D, C]."""
    n, A, D = features.shape
    out, y = np.empty((n, A)), np.empty(D)
    for j in range(n):
        i = budgets[j]
        for a in range(A):
            x, q = features[j, a], -bonus[j, a]
            for k in range(D):
                q += x[k] * weights[k, i]
            if beta != 0.0:
                y[:] = 0.0
                for k in range(D):
                    if x[k] != 0.0:
                        for m in range(D):
                            y[m] += x[k] * inverse[k, m]
                quad = 0.0
                for k in range(D):
                    quad += x[k] * y[k]
                q -= beta * np.sqrt(max(quad, 0.0))
            out[j, a] = q
    return out


@compiled
def scores_factored(phi, law, bonus, budgets, table, inverse, beta):
    """-b + sum_x law(x) <phi, M[:, max(budget - x, 0)]> - beta ||phi|| for each state and action, [n, A]."""
    n, A, d = phi.shape
    out = np.empty((n, A))
    for j in range(n):
        for a in range(A):
            q = -bonus[j, a]
            for r in range(law.shape[2]):
                if law[j, a, r] != 0.0:
                    i = max(budgets[j] - r, 0)
                    s = 0.0
                    for k in range(d):
                        s += phi[j, a, k] * table[k, i]
                    q += law[j, a, r] * s
            quad = 0.0
            if beta != 0.0:
                for k in range(d):
                    for m in range(d):
                        quad += phi[j, a, k] * inverse[k, m] * phi[j, a, m]
            out[j, a] = q - beta * np.sqrt(max(quad, 0.0))
    return out


@compiled
def scores_joint(phi, law, bonus, budgets, table, inverse, beta):
    """`scores_factored` with law [n, A, d, nr], the law of latent and reward together."""
    n, A, d, nr = law.shape
    out = np.empty((n, A))
    for j in range(n):
        for a in range(A):
            q, quad = -bonus[j, a], 0.0
            for k in range(d):
                for r in range(nr):
                    if law[j, a, k, r] != 0.0:
                        q += law[j, a, k, r] * table[k, max(budgets[j] - r, 0)]
                if beta != 0.0:
                    for m in range(d):
                        quad += phi[j, a, k] * inverse[k, m] * phi[j, a, m]
            out[j, a] = q - beta * np.sqrt(max(quad, 0.0))
    return out


@compiled
def first_least(scores, tie):
    """The first action [n] whose score [n, A] is within `tie` of the least."""
    n = scores.shape[0]
    out = np.zeros(n, np.int64)
    for j in range(n):
        least = scores[j].min() + tie
        while scores[j, out[j]] > least:
            out[j] += 1
    return out


@compiled
def pick(laws, actions, u):
    """The index at point u [n] in [0, 1) of the distribution function of laws[j, actions[j]], laws [n, A, k]."""
    n, k = u.size, laws.shape[2]
    out = np.zeros(n, np.int64)
    for j in range(n):
        law = laws[j, actions[j]]
        target, total = u[j] * law.sum(), law[0]
        while target >= total and out[j] < k - 1:
            out[j] += 1
            total += law[out[j]]
    return out


@compiled
def shift(values, units, offset, out):
    """out[j, i] = values[j, max(i + offset - units[j], 0)]: what is left after the reward."""
    for j in range(units.size):
        for i in range(out.shape[1]):
            out[j, i] = values[j, max(i + offset - units[j], 0)]


@compiled
def lowest_printed(fit, image, features, bonus, beta, low, high, out):
    """out[j, i] = min_a clip(-b + fit - beta sqrt(x . image)), image = Lambda^-1 x, x = features [n, A, d].

    fit [n, A, C], bonus [n, A], high [C]: the upper end of the clip.
    """
    n, A, C = fit.shape
    for j in range(n):
        for a in range(A):
            quad = 0.0
            for k in range(features.shape[2]):
                quad += features[j, a, k] * image[j, a, k]
            less = -bonus[j, a] - beta * np.sqrt(max(quad, 0.0))
            if a == 0:
                for i in range(C):
                    out[j, i] = fit[j, a, i] + less
            else:
                for i in range(C):
                    out[j, i] = min(out[j, i], fit[j, a, i] + less)
        for i in range(C):
            out[j, i] = min(max(out[j, i], low), high[i])


@compiled
def lowest_factored(phi, law, bonus, table, inverse, beta, low, high, offset, out):
    """out[j, i] = min_a clip(-b + sum_x law(x) <phi, M[:, max(i + offset - x, 0)]> - beta ||phi||), all i.

    The expected next value is kept with nr - 1 copies of its first entry in front, so the shift is a slice.
    """
    n, A, d = phi.shape
    nr, wide, C = law.shape[2], table.shape[1], out.shape[1]
    pad = nr - 1
    last = pad + offset
    ahead, q, best, spare = np.empty(pad + wide), np.empty(C), np.empty(C), np.empty(C)
    for j in range(n):
        for a in range(A):
            quad = 0.0
            for k in range(d):
                for m in range(d):
                    quad += phi[j, a, k] * inverse[k, m] * phi[j, a, m]
            less = -bonus[j, a] - beta * np.sqrt(max(quad, 0.0))
            for i in range(wide):
                ahead[pad + i] = 0.0
            k = 0
            while k + 4 <= d:
                p0, p1, p2, p3 = phi[j, a, k], phi[j, a, k + 1], phi[j, a, k + 2], phi[j, a, k + 3]
                if p0 != 0.0 or p1 != 0.0 or p2 != 0.0 or p3 != 0.0:
                    m0, m1, m2, m3 = table[k], table[k + 1], table[k + 2], table[k + 3]
                    for i in range(np.uintp(wide)):
                        ahead[np.uintp(pad) + i] += (p0 * m0[i] + p1 * m1[i]) + (p2 * m2[i] + p3 * m3[i])
                k += 4
            while k < d:
                p0, m0 = phi[j, a, k], table[k]
                if p0 != 0.0:
                    for i in range(np.uintp(wide)):
                        ahead[np.uintp(pad) + i] += p0 * m0[i]
                k += 1
            for i in range(pad):
                ahead[i] = ahead[pad]
            for i in range(C):
                q[i] = less
            r = 0
            while r + 4 <= nr:
                p0, p1, p2, p3 = law[j, a, r], law[j, a, r + 1], law[j, a, r + 2], law[j, a, r + 3]
                if p0 != 0.0 or p1 != 0.0 or p2 != 0.0 or p3 != 0.0:
                    u0, u1, u2, u3 = (
                        np.uintp(last - r),
                        np.uintp(last - r - 1),
                        np.uintp(last - r - 2),
                        np.uintp(last - r - 3),
                    )
                    for i in range(np.uintp(C)):
                        q[i] += (p0 * ahead[u0 + i] + p1 * ahead[u1 + i]) + (p2 * ahead[u2 + i] + p3 * ahead[u3 + i])
                r += 4
            while r < nr:
                p0, at = law[j, a, r], np.uintp(last - r)
                for i in range(np.uintp(C)):
                    q[i] += p0 * ahead[at + i]
                r += 1
            if a == 0:
                for i in range(C):
                    best[i] = q[i]
            else:
                for i in range(C):
                    spare[i] = min(best[i], q[i])
                best, spare = spare, best  # in place, this would compile to slow masked stores
        for i in range(C):
            out[j, i] = min(max(best[i], low), high[i])


@compiled
def lowest_joint(phi, law, bonus, table, inverse, beta, low, high, offset, out):
    """`lowest_factored` with law [n, A, d, nr], the law of latent and reward together."""
    n, A, d, nr = law.shape
    C = out.shape[1]
    q = np.empty(C)
    for j in range(n):
        for a in range(A):
            quad = 0.0
            for k in range(d):
                for m in range(d):
                    quad += phi[j, a, k] * inverse[k, m] * phi[j, a, m]
            q[:] = -bonus[j, a] - beta * np.sqrt(max(quad, 0.0))
            for k in range(d):
                for r in range(nr):
                    p = law[j, a, k, r]
                    if p != 0.0:
                        first = min(max(r - offset, 0), C)
                        for i in range(first):
                            q[i] += p * table[k, 0]
                        for i in range(first, C):
                            q[i] += p * table[k, i + offset - r]
            for i in range(C):
                out[j, i] = q[i] if a == 0 else min(out[j, i], q[i])
        for i in range(C):
            out[j, i] = min(max(out[j, i], low), high[i])
