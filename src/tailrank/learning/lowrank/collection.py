"""Collection as Algorithm 1 prints it, in a simulator: roll in with the last policy, then two uniform actions.

An iteration plays H episodes. Episode u = -1..H-2 follows the policy before step u, plays uniform actions at the steps
u and u + 1, and stops. Its transition of step u belongs to D_u, that of step u + 1 to D~_{u+1}; the transition of the
last step, after which nothing is decided, is not played.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.episodes.rollout import Observed, play_simulator
from tailrank.policies.moved import Moved
from tailrank.policies.tables import Policy


@dataclass(frozen=True)
class UniformFrom:
    """A policy that gives way to uniform actions at the steps `first` [n] of its n episodes."""

    policy: Policy
    first: np.ndarray
    n_actions: int
    rng: np.random.Generator

    def start(self, n: int) -> np.ndarray:
        """The memory of the policy."""
        return self.policy.start(n)

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] at step h."""
        drawn = self.rng.integers(0, self.n_actions, size=len(states))
        return np.where(h < self.first, self.policy.act(h, states, memory), drawn)

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """The memory of the policy."""
        return self.policy.update(h, moved, memory)


class CutShort:
    """A simulator whose n episodes are over after `lasting` [n] steps."""

    def __init__(self, simulator: Simulator, lasting: np.ndarray) -> None:
        self._simulator, self._lasting = simulator, lasting
        self.name, self.horizon, self.n_actions = simulator.name, simulator.horizon, simulator.n_actions
        self.n_features, self.width = simulator.n_features, simulator.width

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """First observations [n, m]."""
        self._h = 0
        return self._simulator.reset(seeds)

    @property
    def allowed(self) -> np.ndarray | None:
        """What the simulator allows, [n, A]."""
        return getattr(self._simulator, "allowed", None)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards, observations, over."""
        rewards, after, over = self._simulator.step(actions)
        self._h += 1
        return rewards, after, over | (self._h >= self._lasting)


def printed_starts(horizon: int, rounds: int) -> np.ndarray:
    """u [rounds H] of the episodes of so many iterations."""
    return np.tile(np.arange(-1, horizon - 1), rounds)


def rolled_in(policy: Policy, env: Simulator, seeds: np.ndarray, rng: np.random.Generator) -> Iterator[Observed]:
    """Whole episodes for whole iterations, which are uniform from their step u on; see `Replay.roll_ins`.

    Rewards are learned too, so the episode of the last u plays a uniform action at the last step as well.
    """
    first = printed_starts(env.horizon, -(-seeds.size // env.horizon))
    for i in range(0, seeds.size, env.width):
        part = seeds[i : i + env.width]
        rolled = UniformFrom(policy, first[i : i + part.size], env.n_actions, rng)
        yield play_simulator(rolled, env, part, keep_features=True)


def collected(
    policy: Policy,
    env: Simulator,
    seeds: np.ndarray,
    first: np.ndarray | None,
    rng: np.random.Generator,
    whole: bool = True,
) -> Iterator[Observed]:
    """Episodes with uniform actions from the steps `first` [n] on, two of them, in batches of the simulator's width.

    first = None: whole episodes of the policy. whole: those that end before H steps are refused.
    """
    for i in range(0, seeds.size, env.width):
        part = seeds[i : i + env.width]
        lasting = np.full(part.size, env.horizon)
        if first is None:
            played = play_simulator(policy, env, part, keep_features=True)
        else:
            begin = first[i : i + env.width]
            lasting = np.minimum(begin + 2, env.horizon - 1)
            rolled = UniformFrom(policy, begin, env.n_actions, rng)
            played = play_simulator(rolled, CutShort(env, lasting), part, keep_features=True)
        short = np.flatnonzero(played.lengths < lasting)
        if whole and short.size:
            raise InputError(
                f"{env.name}, seed {part[short[0]]}: ended after {played.lengths[short[0]]} of {env.horizon} steps; "
                "with ends = True the last kind of phi is the end"
            )
        yield played
