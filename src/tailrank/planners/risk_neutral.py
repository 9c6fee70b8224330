"""The risk-neutral plan: backward induction on the mean.

    Q_h(s, a) = E[ discount^h r + G_{h+1}(s') ],   G_h = max_a Q_h

Actions that differ in the last digits only are tied, and the lowest wins. Digits are lost where terms cancel, so there
is a second account of the same: what Q lacks to the most that can be earned is a sum of non-negative terms. That one
tells a loss of 10^-13 from none at all, Q itself a gain of one from a chance of 10^-12 to win 10^12; actions are tied
where both say so.
"""

from __future__ import annotations

import numpy as np

from tailrank.mdp import FiniteMDP
from tailrank.policy import MarkovPolicy

TIE = 1e-13
"""What is taken for rounding, relative to the sum of the sizes of all terms."""


def risk_neutral(mdp: FiniteMDP) -> tuple[MarkovPolicy, np.ndarray]:
    """The policy with the best mean, and its values G [H + 1, S] in reward units."""
    S, A, H = mdp.n_states, mdp.n_actions, mdp.horizon
    values = np.zeros((H + 1, S))
    actions = np.zeros((H, S), dtype=np.int64)
    most, lack = np.zeros(S), np.zeros(S)
    for h in reversed(range(H)):
        ptr, after, prob, _ = mdp.rows(h)
        state = np.repeat(np.arange(S), mdp.rows_of_states(h))
        pair = np.repeat(np.arange(S * A), np.diff(ptr))
        reward, missing = mdp.scaled_rewards(h), ptr[1:] == ptr[:-1]
        gain, best_case = prob * (reward + values[h + 1][after]), reward + most[after]
        most = np.full(S, -np.inf)
        np.maximum.at(most, state[prob > 0], best_case[prob > 0])
        loss = prob * np.maximum(most[state] - best_case + lack[after], 0.0)
        q, size, short = (np.bincount(pair, weights=x, minlength=S * A) for x in (gain, np.abs(gain), loss))
        q[missing], short[missing] = -np.inf, np.inf
        q, size, short = q.reshape(S, A), size.reshape(S, A), short.reshape(S, A)
        values[h], lack = q.max(axis=1), short.min(axis=1)
        near = q >= values[h][:, None] - TIE * size
        tied = near & (short <= (lack * (1.0 + TIE))[:, None])
        actions[h] = np.argmax(np.where(tied.any(axis=1)[:, None], tied, near), axis=1)
    return MarkovPolicy(actions), values
