"""Compiled loops of CVaR-LSVI: rank-one updates, scores of actions, values at visited states.

Weights are W [d, nr, C] for the printed features (phi (x) law) and M [d, C] for the factored ones (phi alone,
the known reward law applied afterwards). Every kernel has a plain NumPy twin in `lsvi_literal` or the tests.
"""

from __future__ import annotations

import numpy as np

from tailrank.kernels import compiled


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
def scores_printed(phi, law, bonus, budgets, weights, inverse, beta):
    """-b + <phi (x) law, w(budget)> - beta ||phi (x) law|| for each state and action, [n, A]."""
    n, A, d = phi.shape
    nr = law.shape[2]
    out = np.empty((n, A))
    x, y = np.empty(d * nr), np.empty(d * nr)
    for j in range(n):
        i = budgets[j]
        for a in range(A):
            q = -bonus[j, a]
            for k in range(d):
                for r in range(nr):
                    x[k * nr + r] = phi[j, a, k] * law[j, a, r]
                    q += x[k * nr + r] * weights[k, r, i]
            if beta != 0.0:
                y[:] = 0.0
                for k in range(d * nr):
                    if x[k] != 0.0:
                        for m in range(d * nr):
                            y[m] += x[k] * inverse[k, m]
                quad = 0.0
                for k in range(d * nr):
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
