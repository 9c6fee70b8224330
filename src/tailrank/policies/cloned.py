"""A policy that takes actions as often as somebody took them, state by state: what a log's own policy looks like."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tailrank.models.mdp import FiniteMDP
from tailrank.policies.tables import Memoryless


@dataclass(frozen=True, eq=False)
class ClonedPolicy(Memoryless):
    """law [S, A]: the probability of every action; horizon: H. Draws are those of `rng`."""

    law: np.ndarray
    horizon: int
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def start(self, n: int) -> np.ndarray:
        """A random number for each step of n episodes, [n, H], so that draws do not depend on what happens."""
        return self.rng.random((n, self.horizon))

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The action that the random number of step h falls on."""
        total = np.cumsum(self.law[states], axis=1)
        drawn = (memory[:, h, None] * total[:, -1:] >= total).sum(axis=1)
        return np.asarray(np.minimum(drawn, self.law.shape[1] - 1))


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
