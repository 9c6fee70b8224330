"""Plain NumPy dynamic programs on dense kernels; nothing from the package under test."""

from __future__ import annotations

import numpy as np


def shortfall(kernels, laws, bonus, C):
    """V [H + 1] of [G, C] and Q [H] of [G, C, A], budgets in units, clamped at zero at every step.

    kernels [H - 1] of [G, A, G']; laws [H] of [G, A, n]; bonus [H] of [G, A] in units.
    """
    H = len(laws)
    G, A, n = laws[0].shape
    V, Q = [None] * H + [np.tile(np.arange(C, dtype=float), (G, 1))], [None] * H
    for h in reversed(range(H)):
        Q[h] = np.zeros((G, C, A))
        for g in range(G):
            for a in range(A):
                mean = kernels[h][g, a] @ V[h + 1] if h < H - 1 else V[H][g]
                for c in range(C):
                    Q[h][g, c, a] = -bonus[h][g, a] + sum(laws[h][g, a, x] * mean[max(c - x, 0)] for x in range(n))
        V[h] = Q[h].min(axis=2)
    return V, Q


def mean_values(kernels, laws, bonus):
    """W [H + 1] of [G] and U [H] of [G, A]: the greatest mean reward plus bonus (Rep-UCB), in units."""
    H = len(laws)
    units = np.arange(laws[0].shape[2])
    W, U = [None] * H + [np.zeros(laws[0].shape[0])], [None] * H
    for h in reversed(range(H)):
        U[h] = laws[h] @ units + bonus[h] + (kernels[h] @ W[h + 1] if h < H - 1 else 0.0)
        W[h] = U[h].max(axis=1)
    return W, U


def evaluate(kernels, laws, bonus, start, act):
    """The law {return in units: probability} of `act(h, g, spent)` and the expected bonus."""
    H, flow, paid = len(laws), {(start, 0): 1.0}, 0.0
    for h in range(H):
        after: dict[tuple[int, int], float] = {}
        for (g, y), p in flow.items():
            a = act(h, g, y)
            paid += p * bonus[h][g, a]
            for x in np.flatnonzero(laws[h][g, a]):
                q = p * laws[h][g, a, x]
                if h == H - 1:
                    after[g, y + x] = after.get((g, y + x), 0.0) + q
                    continue
                for t in np.flatnonzero(kernels[h][g, a]):
                    after[int(t), y + x] = after.get((int(t), y + x), 0.0) + q * kernels[h][g, a, t]
        flow = after
    law: dict[int, float] = {}
    for (_, y), p in flow.items():
        law[y] = law.get(y, 0.0) + p
    return law, paid


def dense(env):
    """Kernels and reward laws of an environment's groups."""
    return [s.kernel for s in env.model.steps], [env.rewards.laws[w] for w in env.reward_of]
