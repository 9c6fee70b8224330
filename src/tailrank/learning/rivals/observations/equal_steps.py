"""Rivals on a simulator that may play a given number of steps: what a user would take instead.

uniform          random actions
cvar gradient    policy gradient of the CVaR, tau falling from 1 in the first half (`policy_gradient`), one hidden layer
qr-dqn by mean   QR-DQN of sb3-contrib, the step being part of what is seen
qr-dqn by cvar   the same, actions by the mean of the lowest tau of what is left (`qr_dqn`)
ppo              PPO of Stable-Baselines3 with its own settings, the step being part of what is seen, nothing discounted
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from tailrank.envs.protocols import Simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.rivals.observations.policy_gradient import PolicyGradient
from tailrank.learning.rivals.observations.qr_dqn import QrDqn
from tailrank.policies.distributional import with_step
from tailrank.policies.tables import Memoryless, Policy, UniformPolicy

RIVALS = ("uniform", "cvar gradient", "qr-dqn by mean", "qr-dqn by cvar", "ppo")
OWN = ("uniform", "cvar gradient")
"""Rivals that need no other package."""
BATCH, UNITS = 50, 64
"""Of the policy gradient: episodes an update, and the units of its layer, which PPO has too."""


def missing_packages(name: str) -> list[str]:
    """What has to be installed for a rival."""
    wanted = [] if name in OWN else ["stable_baselines3", "sb3_contrib"]
    return [package for package in wanted if find_spec(package) is None]


def trained_rival(name: str, env: Simulator, steps: int, tau: float, streams: Streams) -> tuple[Policy, int]:
    """The policy of a rival after about so many steps, and how many they were."""
    if name == "uniform":
        return UniformPolicy(env.n_actions, env.horizon, streams.planner(0)), 0
    if name == "cvar gradient":
        return climbed(env, steps, tau, streams)
    from tailrank.learning.rivals.observations._simulator_env import FiniteHorizon, SimulatorEnv

    view = FiniteHorizon(SimulatorEnv(env), env.horizon)
    if name == "ppo":
        from stable_baselines3 import PPO

        model = PPO("MlpPolicy", view, gamma=1.0, seed=streams.seed, device="cpu").learn(steps)
        return StableBaselinesPolicy(model, env.horizon), int(model.num_timesteps)
    from tailrank.learning.rivals.observations._qr_torch import Deep

    act: Any = "mean" if name == "qr-dqn by mean" else "cvar"
    deep = Deep(QrDqn(tau, act=act), view, 10**9, streams.seed, np.zeros(0))
    deep.counter.total = steps
    deep.model.learn(steps, callback=deep.counter)
    return deep.policy(), deep.steps


def climbed(env: Simulator, steps: int, tau: float, streams: Streams) -> tuple[Policy, int]:
    """The policy of the CVaR policy gradient after about so many steps, and how many they were.

    How many episodes that will be is known from the length of those played so far.
    """
    learner = PolicyGradient(tau, batch=BATCH, hidden=(UNITS,), soft=True, soft_fraction=0.5)
    learner = replace(learner, total=max(BATCH, steps // env.horizon))
    state = learner.init(env, streams)
    while state.steps < steps:
        if state.steps:
            learner = replace(learner, total=max(state.episodes + 1, round(state.episodes * steps / state.steps)))
        state, _ = learner.step(state, env, streams)
    return learner.policy(state, env, streams), state.steps


@dataclass(frozen=True)
class StableBaselinesPolicy(Memoryless):
    """A trained model of Stable-Baselines3 as a policy on features [n, m]; it cannot be saved here."""

    model: Any
    horizon: int

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The model's likeliest actions."""
        return np.asarray(self.model.predict(with_step(states, h, self.horizon), deterministic=True)[0])
