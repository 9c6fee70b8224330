"""What learners ask of an environment."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.mdp import FiniteMDP
from tailrank.models.rewards import RewardLaw

LARGEST = 1e30
"""Largest number that a simulator may give: sums of such rewards are finite, and features are kept as float32."""


class CountableEnv(Protocol):
    """An environment that can be reset and played for H steps, many episodes at once.

    Rewards follow known laws (`rewards`, on a grid); transitions are unknown to the learner. States are
    seen through `group` [H] of [S]: the blocks of a block MDP, or every state its own.
    """

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def horizon(self) -> int:
        """H."""
        ...

    @property
    def n_states(self) -> int:
        """S."""
        ...

    @property
    def n_actions(self) -> int:
        """A."""
        ...

    @property
    def start(self) -> int:
        """The first state of every episode."""
        ...

    @property
    def rewards(self) -> RewardLaw:
        """The reward laws, known to the learner."""
        ...

    @property
    def reward_of(self) -> tuple[np.ndarray, ...]:
        """Law of every (group, action) at each step, [H] of [G, A]."""
        ...

    @property
    def group(self) -> tuple[np.ndarray, ...]:
        """The group of every state at each step, [H] of [S]."""
        ...

    @property
    def truth(self) -> FiniteMDP:
        """The true MDP on groups, for exact evaluation."""
        ...

    @property
    def model(self) -> LowRankModel:
        """The true phi and psi, for exact evaluation."""
        ...

    @property
    def candidates(self) -> tuple[tuple[StepModel, ...], ...]:
        """A realizable class of models for each of the H - 1 steps, or nothing."""
        ...

    def __hash__(self) -> int:
        """Environments are told apart by identity."""
        ...

    def reset(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """First states [n]."""
        ...

    def step(
        self, h: int, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rewards [n], undiscounted, and next states [n]."""
        ...


class Simulator(Protocol):
    """An environment that can only be reset and played: observations are features [m], nothing else is known.

    Up to `width` episodes run side by side. An episode is fixed by its seed and by the actions played in it.
    """

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def horizon(self) -> int:
        """H: no episode is longer."""
        ...

    @property
    def n_actions(self) -> int:
        """A."""
        ...

    @property
    def n_features(self) -> int:
        """m, the length of an encoded observation."""
        ...

    @property
    def width(self) -> int:
        """How many episodes `reset` can begin at once."""
        ...

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """Begin an episode for each seed [n], n at most `width`; the features of the first observations, [n, m]."""
        ...

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards [n] (undiscounted), features [n, m] and whether each episode is over, [n] of bool.

        An episode that was over before pays 0, keeps its features and stays over; its action is ignored.
        """
        ...
