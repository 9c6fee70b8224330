"""The compiled middle of a gradient step: from logits to likelihoods, responsibilities and slopes."""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled


@compiled()
def slopes(kinds, rewards, tilt, log_psi, head, law, value, share, to_kinds, to_rewards, to_tilt):
    """Log likelihoods value [n] and responsibilities share [n, K] of transitions.

    kinds [n, heads, K] and rewards [n, heads, L] are logits of all heads, of which head [n] was played; tilt [K, L];
    log_psi [n, K]; law [n]. Slopes of the sum of value go to to_kinds [n, heads, K], to_rewards [n, heads, L] (zero
    where no head was played) and to_tilt [K, L], unless to_tilt is empty.
    """
    n, K, L = value.size, share.shape[1], tilt.shape[1]
    log_kind, joint = np.empty(K), np.empty(K)
    chance = np.empty((K, L))
    train = to_tilt.size > 0
    for i in range(n):
        a, paid = head[i], law[i]
        top = kinds[i, a, 0]
        for k in range(1, K):
            top = max(top, kinds[i, a, k])
        total = 0.0
        for k in range(K):
            total += np.exp(kinds[i, a, k] - top)
        total = np.log(total) + top
        best = -np.inf
        for k in range(K):
            log_kind[k] = kinds[i, a, k] - total
            most = -np.inf
            for j in range(L):
                chance[k, j] = rewards[i, a, j] + tilt[k, j]
                most = max(most, chance[k, j])
            summed = 0.0
            own = chance[k, paid] - most
            for j in range(L):
                chance[k, j] = np.exp(chance[k, j] - most)
                summed += chance[k, j]
            for j in range(L):
                chance[k, j] /= summed
            joint[k] = log_kind[k] + log_psi[i, k] + own - np.log(summed)
            best = max(best, joint[k])
        total = 0.0
        for k in range(K):
            joint[k] = np.exp(joint[k] - best)
            total += joint[k]
        value[i] = np.log(total) + best
        for k in range(K):
            share[i, k] = joint[k] / total
        if train:
            for k in range(K):
                mine = joint[k] / total
                to_kinds[i, a, k] = mine - np.exp(log_kind[k])
                for j in range(L):
                    slope = mine * ((1.0 if j == paid else 0.0) - chance[k, j])
                    to_rewards[i, a, j] += slope
                    to_tilt[k, j] += slope
