"""Tables of episodes for tests: played in a known MDP, as a mapping from names to columns."""

from __future__ import annotations

import numpy as np

from tailrank import FiniteMDP, play
from tailrank.policies.tables import Policy, UniformPolicy


def frame_of(mdp: FiniteMDP, n: int, seed: int, policy: Policy | None = None) -> dict[str, np.ndarray]:
    """n episodes of a policy, or of uniform actions, which have probabilities."""
    rng = np.random.default_rng(seed)
    H = mdp.horizon
    played = play(policy or UniformPolicy(mdp.n_actions, H, rng), mdp, n, rng=rng)
    return {
        "episode": np.repeat(np.arange(n), H),
        "step": np.tile(np.arange(H), n),
        "state": played.states[:, :H].ravel(),
        "action": played.actions.ravel(),
        "reward": played.rewards.ravel(),
        "probability": np.full(n * H, 1.0 / mdp.n_actions if policy is None else 1.0),
    }


def small_mdp(seed: int = 0, H: int = 3) -> FiniteMDP:
    """Three states, two actions, rewards 0..3."""
    rng = np.random.default_rng(seed)
    return FiniteMDP.from_arrays(rng.dirichlet(np.ones(3), (3, 2)), rng.integers(0, 4, (3, 2, 3)), horizon=H)
