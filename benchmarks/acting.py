"""How long a policy of a low-rank model takes to act, alone and beside thousands of episodes.

    python benchmarks/acting.py

The model is learned from 200 random episodes (30 features, 4 actions, H = 10, the default three networks). Prints
processor microseconds a step and episode, the median of several rounds; simulating is not counted.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from tailrank.envs import make_simulator
from tailrank.episodes.replay import Replay
from tailrank.episodes.rollout import play_simulator
from tailrank.learning.lowrank.oracle import LowRankOracle
from tailrank.learning.lowrank.planning import policy_for, support_of
from tailrank.policies.lowrank import LowRankPolicy
from tailrank.policies.tables import UniformPolicy


def learned() -> tuple[LowRankPolicy, np.ndarray]:
    """A policy, and observations [n, m] to act at."""
    env = make_simulator("continuous-lowrank", n_features=30)
    rng = np.random.default_rng(0)
    played = play_simulator(UniformPolicy(4, env.horizon, rng), env, np.arange(200), keep_features=True)
    replay = Replay(env.horizon, env.n_features)
    units = np.zeros_like(played.actions)
    replay.add(played.features[:, :-1], played.actions, units, played.lengths, played.rewards)
    fit = LowRankOracle(rank=4, shared=True).fit(replay, env.n_actions, rng=rng)
    policy = policy_for(fit, support_of(fit, replay, rng), env.horizon, 0.1)
    return policy, replay.features.reshape(-1, env.n_features).astype(np.float64)


def microseconds(policy: LowRankPolicy, states: np.ndarray, n: int, rounds: int) -> float:
    """Processor time of `act` for each of n episodes, the median over rounds."""
    some, memory, found = np.resize(states, (n, states.shape[1])), policy.start(n), []
    for _ in range(rounds):
        began = time.process_time()
        policy.act(0, some, memory)
        found.append(time.process_time() - began)
    return float(np.median(found)) / n * 1e6


if __name__ == "__main__":
    policy, states = learned()
    for n, rounds in ((1, 2000), (100, 200), (1_000, 50), (10_000, 9)):
        print(f"{n:>7,} episodes side by side: {microseconds(policy, states, n, rounds):8.2f} microseconds a step")
