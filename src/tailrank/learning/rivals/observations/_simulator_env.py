"""Gymnasium views for learners of others: a `Simulator` as an environment, and the step as part of what is seen.

Importing this module imports Gymnasium.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.policies.distributional import with_step


class SimulatorEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One episode at a time of a `Simulator`; observations are its features [m], episodes end within H steps."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, simulator: Simulator):
        self.simulator = simulator
        self.observation_space = spaces.Box(-np.inf, np.inf, (simulator.n_features,), np.float32)
        self.action_space = spaces.Discrete(simulator.n_actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """The first features; the episode's own seed is an even number drawn from the environment's generator."""
        super().reset(seed=seed)
        features = self.simulator.reset(2 * self.np_random.integers(0, 2**30, size=1))
        return features[0].astype(np.float32), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Features, reward, whether the episode is over, False, nothing."""
        rewards, features, over = self.simulator.step(np.array([action], dtype=np.int64))
        return features[0].astype(np.float32), float(rewards[0]), bool(over[0]), False, {}


class FiniteHorizon(gymnasium.Wrapper[np.ndarray, np.int64, np.ndarray, np.int64]):
    """Adds the step (one of H) to the observation [m], and ends episodes for good after H steps."""

    def __init__(self, env: gymnasium.Env[np.ndarray, np.int64], horizon: int):
        super().__init__(env)
        space, actions = env.observation_space, env.action_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1 or not isinstance(actions, spaces.Discrete):
            raise InputError(
                f"env: must have observations in a flat Box and Discrete actions, found {space}, {actions}"
            )
        self.horizon, self._h = horizon, 0
        self.observation_space = spaces.Box(-np.inf, np.inf, (space.shape[0] + horizon,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """The first observation, at step 0."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._h = 0
        return with_step(observation[None], 0, self.horizon)[0], info

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """As the environment; being cut off counts as the end."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._h += 1
        over = terminated or truncated or self._h == self.horizon
        return with_step(observation[None], self._h, self.horizon)[0], float(reward), over, False, info
