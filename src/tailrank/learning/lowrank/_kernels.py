"""The compiled middle of a gradient step: from features to likelihoods, responsibilities and slopes."""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled


@compiled()
def slopes(f, heads, reward_heads, tilt, log_psi, head, law, value, share, to_heads, to_rewards, to_tilt, to_f):
    """Log likelihoods value [n] and responsibilities share [n, K] of transitions with features f [n, F].

    heads [T, F, K] and reward_heads [T, F, L] of which head [n] was played; tilt [K, L]; log_psi [n, K]; law [n].
    Slopes of the sum of value are added to to_heads, to_rewards (their shapes), to_tilt [K, L] and to_f [n, width] (of
    the last `width` features), unless to_tilt is empty.
    """
    n, F = f.shape
    K, L, width = share.shape[1], tilt.shape[1], to_f.shape[1]
    kinds, rewards = np.empty(K), np.empty(L)
    joint, chance = np.empty(K), np.empty((K, L))
    to_kind, to_reward = np.empty(K), np.empty(L)
    train = to_tilt.size > 0
    for i in range(n):
        a, paid = head[i], law[i]
        kinds[:], rewards[:] = 0.0, 0.0
        for j in range(F):
            x = f[i, j]
            for k in range(K):
                kinds[k] += x * heads[a, j, k]
            for m in range(L):
                rewards[m] += x * reward_heads[a, j, m]
        top = kinds.max()
        total = 0.0
        for k in range(K):
            total += np.exp(kinds[k] - top)
        total = np.log(total) + top
        best = -np.inf
        for k in range(K):
            kinds[k] -= total
            most = -np.inf
            for m in range(L):
                chance[k, m] = rewards[m] + tilt[k, m]
                most = max(most, chance[k, m])
            summed = 0.0
            own = chance[k, paid] - most
            for m in range(L):
                chance[k, m] = np.exp(chance[k, m] - most)
                summed += chance[k, m]
            for m in range(L):
                chance[k, m] /= summed
            joint[k] = kinds[k] + log_psi[i, k] + own - np.log(summed)
            best = max(best, joint[k])
        total = 0.0
        for k in range(K):
            joint[k] = np.exp(joint[k] - best)
            total += joint[k]
        value[i] = np.log(total) + best
        for k in range(K):
            share[i, k] = joint[k] / total
        if not train:
            continue
        to_reward[:] = 0.0
        for k in range(K):
            to_kind[k] = share[i, k] - np.exp(kinds[k])
            for m in range(L):
                slope = share[i, k] * ((1.0 if m == paid else 0.0) - chance[k, m])
                to_reward[m] += slope
                to_tilt[k, m] += slope
        for j in range(F):
            x, back = f[i, j], 0.0
            for k in range(K):
                to_heads[a, j, k] += x * to_kind[k]
                back += heads[a, j, k] * to_kind[k]
            for m in range(L):
                to_rewards[a, j, m] += x * to_reward[m]
                back += reward_heads[a, j, m] * to_reward[m]
            if j >= F - width:
                to_f[i, j - F + width] = back
