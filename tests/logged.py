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


def wide(n: int, seed: int, S: int = 200, H: int = 4) -> dict[str, np.ndarray]:
    """Many states that come as they like: action 1 pays 1 with chance 0.9, action 0 with chance 0.2."""
    rng = np.random.default_rng(seed)
    action = (rng.random(n * H) < 0.3).astype(int)
    return {
        "episode": np.repeat(np.arange(n), H),
        "step": np.tile(np.arange(H), n),
        "state": rng.integers(0, S, n * H),
        "action": action,
        "reward": (rng.random(n * H) < np.where(action == 1, 0.9, 0.2)).astype(float),
        "probability": np.where(action == 1, 0.3, 0.7),
    }
