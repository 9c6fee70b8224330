"""Playing a policy on features in a `Simulator`, and what every rival offers.

Arrays are step by step: [H, n] for n episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tailrank.policy import Policy
from tailrank.protocols import Simulator
from tailrank.risk import cvar
from tailrank.rollout import play_simulator

Row = dict[str, float | int]
Callback = Callable[[Row, Policy], None]


class Rival(Protocol):
    """A learner that only plays episodes. Its first setting is tau."""

    def train(self, simulator: Simulator, episodes: int, seed: int, callback: Callback | None = None) -> Policy:
        """The policy learned from this many episodes; `callback` sees rows {episodes, cvar, mean} on the way."""
        ...


@dataclass(frozen=True)
class Batch:
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

    def row(self, episodes: int, tau: float) -> Row:
        """The row of this batch after `episodes` in all."""
        return {"episodes": episodes, "cvar": cvar(self.returns, tau), "mean": float(self.returns.mean())}


def roll(simulator: Simulator, policy: Policy, seeds: np.ndarray) -> Batch:
    """An episode of the policy for each seed [n], in the arrays that rivals learn from."""
    played = play_simulator(policy, simulator, seeds, keep_features=True)
    features = np.ascontiguousarray(np.moveaxis(np.asarray(played.features, dtype=np.float64), 1, 0))
    return Batch(features, np.maximum(played.actions.T, 0), played.rewards.T.copy(), played.actions.T >= 0)
