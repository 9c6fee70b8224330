"""The risk-neutral plan: backward induction on the mean.

Q_h(s, a) = E[ discount^h r + G_{h+1}(s') ],   G_h = max_a Q_h
"""

from __future__ import annotations

import numpy as np

from tailrank.mdp import FiniteMDP
from tailrank.policy import MarkovPolicy

TIE = 1e-12
"""Actions whose values differ by less than this (relative to values and rewards) are tied; the lowest wins."""


def risk_neutral(mdp: FiniteMDP) -> tuple[MarkovPolicy, np.ndarray]:
    """The policy with the best mean, and its values G [H + 1, S] in reward units."""
    S, H = mdp.n_states, mdp.horizon
    values = np.zeros((H + 1, S))
    actions = np.zeros((H, S), dtype=np.int64)
    for h in reversed(range(H)):
        q = action_values(mdp, h, values[h + 1])
        values[h] = q.max(axis=1)
        scale = np.abs(values[h]) + np.abs(mdp.scaled_rewards(h)).max()
        actions[h] = np.argmax(q >= (values[h] - TIE * scale)[:, None], axis=1)
    return MarkovPolicy(actions), values


def action_values(mdp: FiniteMDP, h: int, values_next: np.ndarray) -> np.ndarray:
    """E[discount^h r + values_next(s')] for each pair, [S, A]; -inf where an action is not available."""
    ptr, next_state, prob, _ = mdp.rows(h)
    counts = np.diff(ptr)
    pair = np.repeat(np.arange(counts.size), counts)
    q = np.bincount(pair, weights=prob * (mdp.scaled_rewards(h) + values_next[next_state]), minlength=counts.size)
    q[counts == 0] = -np.inf
    return q.reshape(mdp.n_states, mdp.n_actions)
