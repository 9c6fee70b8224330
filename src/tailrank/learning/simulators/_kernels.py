"""Compiled: how far the counts of two actions look alike."""

from __future__ import annotations

import math

import numpy as np

from tailrank._system.jit import compiled


@compiled(fastmath=False)
def alike(ptr, outcome, count, common, kappa, share):
    """share [M, A, A]: the probability that two actions of a state have one law and not two, 1 on the diagonal.

    Pair j A + a has the cells ptr[pair]..ptr[pair + 1] of outcome (increasing), count and common, the share of the
    outcome among all transitions of the state. Laws are drawn from Dirichlet(kappa common).
    """
    M, A = share.shape[0], share.shape[1]
    total = np.zeros(A)
    for j in range(M):
        for a in range(A):
            total[a] = 0.0
            for e in range(ptr[j * A + a], ptr[j * A + a + 1]):
                total[a] += count[e]
        for a in range(A):
            share[j, a, a] = 1.0
            for b in range(a + 1, A):
                share[j, a, b] = 0.0
                if total[a] > 0.0 and total[b] > 0.0:
                    # Outcomes that only one of the two had are as likely either way.
                    odds = math.lgamma(total[a] + kappa) + math.lgamma(total[b] + kappa)
                    odds -= math.lgamma(kappa) + math.lgamma(total[a] + total[b] + kappa)
                    e, f = ptr[j * A + a], ptr[j * A + b]
                    while e < ptr[j * A + a + 1] and f < ptr[j * A + b + 1]:
                        if outcome[e] == outcome[f]:
                            prior = kappa * common[e]
                            odds += math.lgamma(prior) + math.lgamma(count[e] + count[f] + prior)
                            odds -= math.lgamma(count[e] + prior) + math.lgamma(count[f] + prior)
                            e, f = e + 1, f + 1
                        elif outcome[e] < outcome[f]:
                            e += 1
                        else:
                            f += 1
                    share[j, a, b] = 1.0 / (1.0 + math.exp(-min(max(odds, -500.0), 500.0)))
                share[j, b, a] = share[j, a, b]
