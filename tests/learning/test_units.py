"""Learners on simulators do not care in which units observations and rewards are measured."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tailrank import learn
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.learning.simulators.recalling import needed_recall
from tailrank.learning.simulators.scale import budget_scale
from tailrank.learning.standard import standard


class Sign(gymnasium.Env):
    """Two steps; the action that agrees with the sign of the first number pays 1, the other one costs 1/2."""

    def __init__(self, unit=1.0, pay=1.0):
        self.unit, self.pay = unit, pay
        self.observation_space, self.action_space = spaces.Box(-np.inf, np.inf, (2,), np.float64), spaces.Discrete(2)

    def seen(self):
        self.sign = 2.0 * self.np_random.integers(2) - 1.0
        return self.unit * np.array([self.sign, self.np_random.normal()])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.h = 0
        return self.seen(), {}

    def step(self, action):
        reward = (1.0 if (action == 1) == (self.sign > 0) else -0.5) * (1.0 + 0.01 * self.np_random.normal())
        self.h += 1
        return self.seen(), self.pay * reward, self.h == 2, False, {}


SMALL = {
    "kernel": {"representatives": 100, "budgets": 16},
    "shortfall-dqn": {"effort": 20.0},
    "search": {"policies": 32, "model_episodes": 50},
    "budget-ppo": {"gradient_steps": 64, "gradient_rate": 1e-3},
}


@pytest.mark.parametrize("algorithm", SMALL)
def test_observations_in_a_large_unit(algorithm):
    """At 1e-7 or 1e-12 they were taken for constants."""
    more = SMALL[algorithm]
    learned = learn(lambda: Sign(unit=1e-12), tau=0.2, episodes=300, horizon=2, algorithm=algorithm, **more)
    assert learned.evaluate(episodes=100).cvar > 1.8


def test_rewards_in_a_large_unit():
    """The gradient took rewards of 1e-9 for equal ones."""
    more = SMALL["budget-ppo"]
    learned = learn(lambda: Sign(pay=1e-15), tau=0.2, episodes=300, horizon=2, algorithm="budget-ppo", **more)
    assert learned.evaluate(episodes=100).cvar > 1.8e-15


@pytest.mark.parametrize("pay", [1.0, 1e-3, 1e-6, 1.5e-9, 1e-12, 1e6])
def test_a_shared_unit_of_small_rewards(pay):
    """Multiples of 1.5e-9 were rounded to those of 1e-9, smaller ones to nothing."""
    rng, n, H = np.random.default_rng(0), 50, 4
    rewards = pay * rng.choice([0.0, 1.0, 2.5, -1.5], p=[0.7, 0.1, 0.1, 0.1], size=n * H)
    nothing = np.zeros((n * (H + 1), 1)), np.zeros(n * H, dtype=np.int64)
    played = PlayedEpisodes.of(H, *nothing, rewards, np.full(n, H, dtype=np.int64))
    scale = budget_scale(played, 48)
    assert scale.unit == pytest.approx(0.5 * pay, rel=1e-12)
    assert 15 < scale.count < 40


def test_what_counts_as_constant():
    rng = np.random.default_rng(0)
    x = np.column_stack([np.full(100, 0.1), 1e-9 * rng.normal(size=100), 1e-30 * rng.normal(size=100)])
    _, spread = standard(x.astype(np.float32))
    assert spread[[0, 2]].tolist() == [1.0, 1.0]
    assert spread[1] == pytest.approx(1e-9, rel=0.2)
    assert standard(x[:, 2:])[1][0] == pytest.approx(1e-30, rel=0.2)
    assert standard(np.zeros((3, 2)))[1].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("unit", "pay"), [(1.0, 1.0), (1e-12, 1.0), (1.0, 1e-12), (1e9, 1e9)])
def test_what_of_the_past_counts(unit, pay):
    """A position without its speed: the past is needed, in any unit."""
    rng, n, H = np.random.default_rng(0), 60, 12
    features, rewards = np.zeros((n, H + 1, 1)), np.zeros((n, H))
    for i in range(n):
        place, speed = rng.normal(), rng.normal()
        for h in range(H + 1):
            features[i, h] = place
            if h < H:
                rewards[i, h] = speed
            place += speed
    actions = rng.integers(0, 2, size=n * H)
    played = PlayedEpisodes.of(
        H, unit * features.reshape(-1, 1), actions, pay * rewards.ravel(), np.full(n, H, dtype=np.int64)
    )
    assert needed_recall(played, 2).observations > 0
