"""Episodes of a policy on state numbers in an environment of Gymnasium, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.policies.moved import Moved
from tailrank.policies.tables import Policy

if TYPE_CHECKING:
    import gymnasium


def play_in_gymnasium(
    policy: Policy, env: gymnasium.Env[Any, Any], n: int, H: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States [n, H + 1], actions [n, H] and rewards [n, H] of n episodes; -1 after an episode has ended."""
    states = np.full((n, H + 1), -1, dtype=np.int64)
    actions, rewards = np.full((n, H), -1, dtype=np.int64), np.zeros((n, H))
    for episode, seed in enumerate(rng.integers(0, 2**31, size=n)):
        observation, _ = env.reset(seed=int(seed))
        memory = policy.start(1)
        states[episode, 0] = _state(observation, episode, 0)
        for h in range(H):
            here = states[episode, h : h + 1]
            action = policy.act(h, here, memory)
            observation, reward, terminated, truncated, _ = env.step(int(action[0]))
            rewards[episode, h] = checks.number(reward, f"reward of episode {episode}, step {h}")
            actions[episode, h], states[episode, h + 1] = action[0], _state(observation, episode, h + 1)
            if terminated or truncated:
                break
            memory = policy.update(h, Moved(here, action, rewards[episode, [h]], states[episode, [h + 1]]), memory)
    return states, actions, rewards


def _state(observation: object, episode: int, step: int) -> int:
    if isinstance(observation, int | np.integer):
        return int(observation)
    raise InputError(
        f"observation of episode {episode}, step {step} is {type(observation).__name__}: a policy for a finite MDP "
        "plays in environments whose observations are state numbers (a Discrete space)"
    )
