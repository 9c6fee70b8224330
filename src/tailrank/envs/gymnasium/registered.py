"""The environments for learners as Gymnasium environments; importing this module registers them.

    import gymnasium, tailrank.envs.gymnasium.registered
    gymnasium.make("tailrank/RiskyLock-v0", horizon=10)

or, without the import, `gymnasium.make("tailrank.envs.gymnasium.registered:tailrank/RiskyLock-v0")`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tailrank.envs.built_in.episodic import Episodic
from tailrank.envs.built_in.rich_lock import rich_lock
from tailrank.envs.registry import make_episodic

IDS = {
    "tailrank/RiskyLock-v0": "risky-lock",
    "tailrank/RandomLowRank-v0": "random-lowrank",
    "tailrank/RiskyShortcut-v0": "risky-shortcut",
    "tailrank/Decoy-v0": "decoy",
    "tailrank/WalledLock-v0": "walled-lock",
    "tailrank/LowRankConflict-v0": "lowrank-conflict",
}


RICH = "tailrank/RichLock-v0"


class EpisodicEnv(gymnasium.Env[np.int64, np.int64]):
    """One episode at a time of an `Episodic`: observations are states, the episode terminates after H steps."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, environment: str | Episodic = "risky-lock", render_mode: str | None = None, **settings: Any):
        self.episodic = environment if isinstance(environment, Episodic) else make_episodic(environment, **settings)
        self.render_mode = render_mode
        self.observation_space = spaces.Discrete(self.episodic.n_states)
        self.action_space = spaces.Discrete(self.episodic.n_actions)
        self._h = self.episodic.horizon
        self._states = np.zeros(1, dtype=np.int64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """The first state, and {"step": 0}."""
        super().reset(seed=seed)
        self._h, self._states = 0, self.episodic.reset(1, self.np_random)
        return np.int64(self._states[0]), {"step": 0}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """State, reward, terminated (after H steps), False, and the number of steps played."""
        if self._h >= self.episodic.horizon:
            raise gymnasium.error.ResetNeeded(f"step {self._h}: the episode is over (or was never begun), reset first")
        reward, self._states = self.episodic.step(self._h, self._states, np.array([action]), self.np_random)
        self._h += 1
        over = self._h == self.episodic.horizon
        return np.int64(self._states[0]), float(reward[0]), over, False, {"step": self._h}


class RichLockEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One episode at a time of the lock with rich observations."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, render_mode: str | None = None, **settings: Any):
        self.lock = rich_lock(**settings)
        self.render_mode = render_mode
        self.observation_space = spaces.Box(-np.inf, np.inf, (self.lock.n_features,), np.float64)
        self.action_space = spaces.Discrete(self.lock.n_actions)
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """The first observation."""
        super().reset(seed=seed)
        own = int(self.np_random.integers(2**31)) if seed is None else seed
        self._over = False
        return self.lock.reset(np.array([own]))[0], {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated (after H steps), False, nothing."""
        if self._over:
            raise gymnasium.error.ResetNeeded("step: the episode is over (or was never begun), reset first")
        rewards, seen, over = self.lock.step(np.array([action]))
        self._over = bool(over[0])
        return seen[0], float(rewards[0]), self._over, False, {}


def register() -> None:
    """Tell Gymnasium the ids, unless it knows them."""
    for name, environment in IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name, entry_point="tailrank.envs.gymnasium.registered:EpisodicEnv", kwargs={"environment": environment}
            )
    if RICH not in gymnasium.registry:
        gymnasium.register(RICH, entry_point="tailrank.envs.gymnasium.registered:RichLockEnv")


register()
