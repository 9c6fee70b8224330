"""Grids of continuous actions that become finer where the plan plays, against problems solved by hand."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tailrank import load, save
from tailrank.checks import InputError
from tailrank.envs import open_simulator
from tailrank.envs.action_grid import ActionGrid
from tailrank.episodes.streams import Streams
from tailrank.learning.registry import make_learner


class Aim(gymnasium.Env):
    """One step: an action pays minus its distance to 0.37, and in half of the episodes `lost` (a - 0.1)^+ less."""

    def __init__(self, size=1, lost=0.0):
        self.lost = lost
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (size,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action):
        lost = self.lost * max(float(action[0]) - 0.1, 0.0) * (self.np_random.random() < 0.5)
        return np.zeros(1, dtype=np.float32), -float(np.abs(action - 0.37).sum()) - lost, True, False, {}


def learned(tau, total, seed=0, **options):
    """The environment, the learner with its last state, the policy, and the action that it plays."""
    streams = Streams(seed)
    with open_simulator(Aim, horizon=1, width=16, **options) as env:
        learner = make_learner("kernel", "simulator", tau=tau).prepared(env, streams, total)
        state = learner.init(env, streams)
        while not learner.over(state, env.horizon):
            state = learner.step(state, env, streams)[0]
        policy = learner.policy(state, env, streams)
        action = int(policy.act(0, np.zeros((1, 1)), policy.start(1))[0])
        return env, learner, state, policy, float(env.actions.decode(action)[0])


def test_the_coarse_grid_is_part_of_the_fine_one():
    with open_simulator(Aim, size=2, horizon=1, levels=3, refine=4) as env:
        grid, table = env.grid, env.actions.root.table
    assert grid == ActionGrid((9, 9), 4)
    np.testing.assert_allclose(table[grid.coarse].reshape(3, 3, 2)[:, 0, 0], [-1, 0, 1])
    a = int(np.flatnonzero((table == [0.0, 1.0]).all(axis=1))[0])
    np.testing.assert_allclose(table[grid.beside(a, 2)], [[-0.5, 1], [0, 0.5], [0.5, 1]])


def test_a_refined_grid_finds_what_a_coarse_one_cannot(tmp_path):
    assert learned(1.0, 120)[-1] == 0.5, "of -1, -0.5, ..., 1 the nearest to 0.37"
    env, learner, state, policy, found = learned(1.0, 120, refine=8)
    assert found == 0.375, "the nearest of 33"
    fit = state.fitted[0]
    assert fit.spacing == 1
    assert fit.actions.size < env.n_actions == 33
    again = learner.restored(state.to_arrays(), env, Streams(0))
    np.testing.assert_array_equal(again.fitted[0].actions, fit.actions)
    assert again.fitted[0].promise == fit.promise
    save(policy, tmp_path / "p")
    seen, memory = np.zeros((1, 1)), policy.start(1)
    np.testing.assert_array_equal(load(tmp_path / "p").policy.act(0, seen, memory), policy.act(0, seen, memory))


def test_the_grid_is_refined_for_the_tail():
    # The worst half lose 2 (a - 0.1)^+: their best action is 0.1, that of the coarse grid is 0.
    def cvar(a):
        return -abs(a - 0.37) - 2 * max(a - 0.1, 0.0)

    coarse, fine = learned(0.25, 300, lost=2.0)[-1], learned(0.25, 300, lost=2.0, refine=8)[-1]
    assert cvar(coarse) == pytest.approx(-0.37)
    assert cvar(fine) > -0.31, "0.125 has -0.295, 0.0625 has -0.3075"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"refine": 3}, "refine = 3: must be 2, 4, 8"),
        ({"refine": 1}, "refine"),
        ({"refine": 8, "size": 2}, "make 1089 actions, must be at most 1000"),
    ],
)
def test_what_cannot_be_refined_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        open_simulator(Aim, horizon=1, **options)
    with pytest.raises(InputError, match="is for Box actions of real numbers"):
        open_simulator("CartPole-v1", refine=2)
