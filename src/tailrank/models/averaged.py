"""An MDP in which somebody plays for good: one action is left, which draws from a law."""

from __future__ import annotations

import numpy as np

from tailrank.models.mdp import FiniteMDP


def averaged(mdp: FiniteMDP, law: np.ndarray) -> FiniteMDP:
    """The MDP with one action, which draws from law [S, A]: its return law is that of the policy."""
    step, pair = np.divmod(mdp.pair, mdp.n_states * mdp.n_actions) if mdp.n_blocks > 1 else (None, mdp.pair)
    s, a = np.divmod(pair, mdp.n_actions)
    p = mdp.prob * law[s, a]
    kept = p > 0
    return FiniteMDP.from_rows(
        s[kept], np.zeros(int(kept.sum()), dtype=int), mdp.next_state[kept], p[kept], mdp.reward[kept],
        horizon=mdp.horizon, step=None if step is None else step[kept], n_states=mdp.n_states, start=mdp.start,
        discount=mdp.discount,
    )  # fmt: skip
