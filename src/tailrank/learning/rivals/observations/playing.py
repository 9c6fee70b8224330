"""Playing a policy on features in a `Simulator`, in the arrays that rivals learn from: step by step, [H, n]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.envs.protocols import Simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.policies.tables import Policy


@dataclass(frozen=True)
class PlayedBatch:
    """n played episodes: features [H + 1, n, m], actions [H, n], rewards [H, n] and alive [H, n].

    alive: the episode was not over before the step; what is not alive pays nothing and teaches nothing.
    """

    features: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    alive: np.ndarray

    @property
    def returns(self) -> np.ndarray:
        """Sums of rewards, [n]."""
        return np.asarray(self.rewards.sum(axis=0))


def roll(simulator: Simulator, policy: Policy, seeds: np.ndarray) -> PlayedBatch:
    """An episode of the policy for each seed [n], in the arrays that rivals learn from."""
    played = play_simulator(policy, simulator, seeds, keep_features=True)
    features = np.ascontiguousarray(np.moveaxis(np.asarray(played.features, dtype=np.float64), 1, 0))
    return PlayedBatch(features, np.maximum(played.actions.T, 0), played.rewards.T.copy(), played.actions.T >= 0)
