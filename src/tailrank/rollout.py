"""The one rollout: play a policy in a finite MDP (all episodes at once) or in a Gymnasium environment.

Episodes end after H steps or when the environment ends them; what is not played stays -1 or zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.mdp import FiniteMDP
from tailrank.policy import Policy

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True)
class Episodes:
    """n played episodes: states [n, H + 1], actions [n, H], rewards [n, H] (undiscounted), returns [n]."""

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    returns: np.ndarray


def play(
    policy: Policy,
    env: FiniteMDP | gymnasium.Env[Any, Any],
    episodes: int,
    *,
    rng: np.random.Generator,
    horizon: int | None = None,
    discount: float | None = None,
) -> Episodes:
    """`episodes` episodes of `policy` in `env`.

    horizon, discount: for a Gymnasium environment (default: its step limit, and 1); an MDP has its own.
    """
    n = checks.whole(episodes, "episodes")
    if isinstance(env, FiniteMDP):
        return _in_mdp(policy, env, n, rng)
    steps = horizon if horizon is not None else getattr(env.spec, "max_episode_steps", None)
    if steps is None:
        raise InputError("horizon: the environment states no step limit; give one")
    gamma = checks.discount_factor(1.0 if discount is None else discount)
    return _in_gymnasium(policy, env, n, checks.whole(steps, "horizon"), gamma, rng)


def _in_mdp(policy: Policy, mdp: FiniteMDP, n: int, rng: np.random.Generator) -> Episodes:
    H = mdp.horizon
    states = np.empty((n, H + 1), dtype=np.int64)
    actions, rewards = np.empty((n, H), dtype=np.int64), np.empty((n, H))
    states[:, 0] = rng.choice(mdp.n_states, size=n, p=mdp.start)
    memory = policy.start(n)
    for h in range(H):
        ptr, next_state, _, reward = mdp.rows(h)
        actions[:, h] = policy.act(h, states[:, h], memory)
        pair = states[:, h] * mdp.n_actions + actions[:, h]
        bad = np.flatnonzero(ptr[pair] == ptr[pair + 1])
        if bad.size:
            raise InputError(
                f"step {h}: the policy plays action {actions[bad[0], h]} in state "
                f"{mdp.labels[states[bad[0], h]]}, where it is not available"
            )
        row = mdp.draw_rows(h, pair, rng)
        rewards[:, h], states[:, h + 1] = reward[row], next_state[row]
        memory = policy.update(h, states[:, h], actions[:, h], rewards[:, h], states[:, h + 1], memory)
    returns = rewards @ mdp.discount ** np.arange(H)
    return Episodes(states, actions, rewards, returns)


def _in_gymnasium(
    policy: Policy, env: gymnasium.Env[Any, Any], n: int, H: int, discount: float, rng: np.random.Generator
) -> Episodes:
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
            memory = policy.update(h, here, action, rewards[episode, [h]], states[episode, [h + 1]], memory)
    return Episodes(states, actions, rewards, rewards @ discount ** np.arange(H))


def _state(observation: object, episode: int, step: int) -> int:
    if isinstance(observation, int | np.integer):
        return int(observation)
    raise InputError(
        f"observation of episode {episode}, step {step} is {type(observation).__name__}: a policy for a finite MDP "
        "plays in environments whose observations are state numbers (a Discrete space)"
    )
