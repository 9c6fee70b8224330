"""Parts of low-rank models for tests: random weights of a network, and random episodes of a simulator."""

from __future__ import annotations

import numpy as np

from tailrank.envs import make_simulator
from tailrank.episodes.replay import Replay
from tailrank.episodes.rollout import play_simulator
from tailrank.learning.lowrank import network
from tailrank.learning.lowrank.units import UnitData, network_units
from tailrank.policies.tables import UniformPolicy


def random_weights(rng, k=2, heads=3, K=3, L=2, width=4):
    units = network_units(UnitData(np.zeros((1, k)), np.zeros(1), np.zeros((1, 1))), width, rng)
    w = network.fresh(1, heads, K, L, units)
    return {name: x if name == "units" else x + 0.5 * rng.normal(size=x.shape) for name, x in w.items()}


def played(name, n, **settings):
    env = make_simulator(name, **settings)
    uniform = UniformPolicy(env.n_actions, env.horizon, np.random.default_rng(0))
    found = play_simulator(uniform, env, 2 * np.arange(n), keep_features=True)
    replay = Replay(env.horizon, env.n_features)
    replay.add(found.features[:, :-1], found.actions, np.zeros_like(found.actions), found.lengths, found.rewards)
    return env, replay
