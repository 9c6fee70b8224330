"""Playing a policy on features in a `Simulator`, and what every rival offers.

A rival goes on update by update (`init`, `step`, `policy`); `train` is the loop. Arrays are step by step: [H, n] for
n episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tailrank import checks
from tailrank.envs.protocols import Simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.policies.tables import Policy
from tailrank.risk.law import cvar

Row = dict[str, float | int]
Callback = Callable[[Row, Policy], None]


class Progress(Protocol):
    """Where a rival stands; it is changed by `step`."""

    played: int
    """Episodes."""
    steps: int
    """Steps of them."""

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint: everything that the next update depends on, if the rival is `stored`."""
        ...


class Rival(Protocol):
    """A learner that only plays episodes. Its first setting is tau."""

    @property
    def stored(self) -> bool:
        """Whether it can go on from a checkpoint; one that cannot plays everything again."""
        ...

    @property
    def each(self) -> int:
        """Episodes an update."""
        ...

    def init(self, simulator: Simulator, seed: int, total: int) -> Any:
        """Before the first update; total: the episodes that will be played."""
        ...

    def step(self, progress: Any, simulator: Simulator) -> Row:
        """One update; the row {episodes, cvar, mean} of the episodes that were played for it."""
        ...

    def policy(self, progress: Any) -> Policy:
        """The policy as it would be returned now."""
        ...

    def restored(self, progress: Any, arrays: dict[str, np.ndarray]) -> Any:
        """The progress in a checkpoint, given a fresh one of the same run."""
        ...

    def train(self, simulator: Simulator, episodes: int, seed: int, callback: Callback | None = None) -> Policy:
        """The policy learned from this many episodes; `callback` sees every row and the policy then."""
        ...


def trained(rival: Any, simulator: Any, episodes: int, seed: int, callback: Callback | None, **more: Any) -> Policy:
    """Update after update of a `Rival` until `episodes` were played; more: for its `init`."""
    total = checks.whole(episodes, "episodes")
    progress = rival.init(simulator, seed, total, **more)
    while progress.played < total:
        row = rival.step(progress, simulator)
        if callback is not None:
            callback(row, rival.policy(progress))
    policy: Policy = rival.policy(progress)
    return policy


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

    def row(self, episodes: int, tau: float) -> Row:
        """The row of this batch after `episodes` in all."""
        return {"episodes": episodes, "cvar": cvar(self.returns, tau), "mean": float(self.returns.mean())}


def roll(simulator: Simulator, policy: Policy, seeds: np.ndarray) -> PlayedBatch:
    """An episode of the policy for each seed [n], in the arrays that rivals learn from."""
    played = play_simulator(policy, simulator, seeds, keep_features=True)
    features = np.ascontiguousarray(np.moveaxis(np.asarray(played.features, dtype=np.float64), 1, 0))
    return PlayedBatch(features, np.maximum(played.actions.T, 0), played.rewards.T.copy(), played.actions.T >= 0)
