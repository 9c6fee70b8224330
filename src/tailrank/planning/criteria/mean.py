"""The risk-neutral plan: backward induction on the mean.

    Q_h(s, a) = E[ discount^h r + G_{h+1}(s') ],   G_h = max_a Q_h

Actions that differ in the last digits only are tied, and the lowest wins. Digits are lost where terms cancel, so there
is a second account of the same: what Q lacks to the most that can be earned is a sum of non-negative terms. That one
tells a loss of 10^-13 from none at all, Q itself a gain of one from a chance of 10^-12 to win 10^12; actions are tied
where both say so.
"""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled
from tailrank._system.parallel import over_states
from tailrank.models.mdp import FiniteMDP
from tailrank.policies.tables import MarkovPolicy

TIE = 1e-13
"""What is taken for rounding, relative to the sum of the sizes of all terms."""


def risk_neutral(mdp: FiniteMDP) -> tuple[MarkovPolicy, np.ndarray]:
    """The policy with the best mean, and its values G [H + 1, S] in reward units."""
    S, H = mdp.n_states, mdp.horizon
    values, actions = np.zeros((H + 1, S)), np.zeros((H, S), dtype=np.int64)
    most, lack = np.zeros(S), np.zeros(S)
    for h in reversed(range(H)):
        ptr, after, prob, _ = mdp.rows(h)
        now = np.empty(S), np.empty(S)
        rows = (mdp.n_actions, ptr, after, prob, mdp.scaled_rewards(h))
        arguments = (*rows, values[h + 1], most, lack, values[h], *now, actions[h])
        over_states(backup, arguments, mdp.rows_of_states(h))
        most, lack = now
    return MarkovPolicy(actions), values


@compiled
def backup(  # type: ignore[no-untyped-def]
    begin_state,
    end_state,
    n_actions,
    ptr,
    next_state,
    prob,
    reward,
    values_next,
    most_next,
    lack_next,
    values,
    most,
    lack,
    actions,
):
    """One step for states begin_state..end_state-1.

    values, most, lack and actions [S]: the best mean, the most that can be earned, the first less the second, and the
    lowest action for which both are the best.
    """
    q, size, short = np.empty(n_actions), np.empty(n_actions), np.empty(n_actions)
    for s in range(begin_state, end_state):
        top = -np.inf
        for k in range(np.uintp(ptr[s * n_actions]), np.uintp(ptr[(s + 1) * n_actions])):
            if prob[k] > 0.0:
                top = max(top, reward[k] + most_next[np.uintp(next_state[k])])
        most[s], values[s], lack[s] = top, -np.inf, np.inf
        for a in range(n_actions):
            begin, end = ptr[s * n_actions + a], ptr[s * n_actions + a + 1]
            mean, sizes, lacks = 0.0, 0.0, 0.0
            for k in range(np.uintp(begin), np.uintp(end)):
                p, t = prob[k], np.uintp(next_state[k])
                if p > 0.0:
                    gain = p * (reward[k] + values_next[t])
                    mean += gain
                    sizes += abs(gain)
                    lacks += p * max(top - (reward[k] + most_next[t]) + lack_next[t], 0.0)
            q[a], size[a], short[a] = mean, sizes, lacks
            if begin < end:
                values[s], lack[s] = max(values[s], q[a]), min(lack[s], short[a])
        found = -1
        for a in range(n_actions - 1, -1, -1):
            if ptr[s * n_actions + a] < ptr[s * n_actions + a + 1] and q[a] >= values[s] - TIE * size[a]:
                near = short[a] <= lack[s] * (1.0 + TIE)
                if found < 0 or near:
                    found = a
        actions[s] = found
