"""Cells, the counted model, and what counts can learn."""

from __future__ import annotations

import numpy as np
import pytest
from small_simulators import Choice, Lock

from tailrank import InputError, cvar
from tailrank.episodes.rollout import play
from tailrank.learning.learn import learn
from tailrank.learning.rivals.observations.bins import Bins, CellCounts, best_budget_policy
from tailrank.learning.rivals.observations.playing import roll
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.solve import solve
from tailrank.policies.cells import Cells

ODD = 2 * np.arange(500) + 1


def test_cells_of_features():
    x = np.array([[0.0, 0.0], [1.0, 1.0], [0.4, 0.1], [0.6, 0.9], [0.4, 0.9], [-5.0, 9.0]])
    keys = Cells.of(x[:5], None, 2, np.random.default_rng(0)).keys(x)
    assert keys[0] == keys[2]
    assert keys[1] == keys[3]
    assert keys[4] == keys[5]  # beyond the ends the end intervals go on
    assert len(set(keys.tolist())) == 3


def test_cells_of_projections_tell_signs_of_directions():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 5))
    cells = Cells.of(x, 4, 2, rng)
    shadow = x @ cells.directions
    middle = (shadow.min(axis=0) + shadow.max(axis=0)) / 2
    pattern = (shadow > middle) @ (2 ** np.arange(4))
    keys = cells.keys(x)
    assert len(np.unique(keys)) == len(np.unique(pattern)) == len({*zip(keys.tolist(), pattern.tolist())})


def test_planning_in_counts_is_planning_in_the_mdp():
    """With no bonus and the MDP's own rows the policy earns the best CVaR."""
    mdp = FiniteMDP.from_rows([0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 0.9, 0.1], [1, 2, -5], horizon=3)
    plan = solve(mdp, tau=0.3)
    policy = best_budget_policy(mdp, plan.policy.grid, 0.3, np.zeros((3, 1, 2)))
    returns = play(policy, mdp, 40_000, rng=np.random.default_rng(0)).returns
    assert cvar(returns, 0.3) == pytest.approx(plan.cvar, abs=0.06)


def test_counted_model():
    """Two cells, two steps, rewards in the rows: the returned policy takes what paid, with the tail in mind."""
    lock = Lock(horizon=2, n_actions=2, noise=0.0)
    learner = Bins(0.1, projections=None, cells=2, bonus=0.0)
    # Step 0: action 0 goes on (cell 1 -> 2), action 1 ends. Step 1: action 0 pays .8, action 1 pays 1 in 9 of 10.
    keys = np.full((2, 40), 1, dtype=np.uint64)
    keys[1] = 2
    actions, rewards, alive = np.zeros((2, 40), dtype=np.int64), np.zeros((2, 40)), np.ones((2, 40), dtype=bool)
    actions[0, :10] = 1
    alive[1, :10] = False
    rewards[0, :10] = 0.1
    actions[1, 20:] = 1
    rewards[1, 10:20] = 0.8
    rewards[1, 20:] = 1.0
    rewards[1, 38:] = 0.0
    cells = Cells.of(np.eye(4), None, 2, np.random.default_rng(0))
    seen = CellCounts(keys, actions, rewards, alive)
    chosen = {}
    for tau in (0.1, 1.0):
        policy = Bins(tau, bonus=0.0)._plan([seen], cells, lock.n_actions, optimistic=False)
        budget = policy.start(1)
        assert policy.inner.act(0, np.array([0]), budget) == [0]
        chosen[tau] = int(policy.inner.act(1, np.array([0]), budget)[0])
    assert chosen == {0.1: 0, 1.0: 1}
    optimistic = learner._plan([seen], cells, 3, optimistic=True)  # a third action, never played, promises the most
    assert optimistic.start(1) == round(1.0 / float(optimistic.inner.grid.unit))
    assert optimistic.inner.act(1, np.array([0]), optimistic.start(1)) == [2]


def test_bonus_prefers_what_was_played_less():
    keys, alive = np.ones((1, 102), dtype=np.uint64), np.ones((1, 102), dtype=bool)
    actions, rewards = np.zeros((1, 102), dtype=np.int64), np.full((1, 102), 0.5)
    actions[0, 100:], rewards[0, 100:] = 1, 0.4
    cells = Cells.of(np.eye(4), None, 2, np.random.default_rng(0))
    seen = [CellCounts(keys, actions, rewards, alive)]
    for bonus, optimistic, action in ((1.0, True, 1), (0.0, True, 0), (1.0, False, 0)):
        policy = Bins(0.1, bonus=bonus)._plan(seen, cells, 2, optimistic=optimistic)
        assert policy.inner.act(0, np.array([0]), policy.start(1)) == [action]


@pytest.mark.parametrize(("tau", "best", "bonus"), [(0.1, 0.8, 0.5), (1.0, 0.9, 1.0)])
def test_opens_the_lock_when_cells_are_latents(tau, best, bonus):
    """Without noise every latent has a cell: ten steps, far beyond uniform actions (3^-10), in 1500 episodes."""
    lock = Lock(horizon=10, n_actions=3)
    policy = learn(lock, Bins(tau, projections=None, bonus=bonus), episodes=1500, seed=0).policy
    assert cvar(roll(lock, policy, ODD).returns, tau) == pytest.approx(best, abs=0.04)


def test_noise_breaks_the_cells():
    """The same lock with noise in the features: cells no longer are latents, and the way is lost."""
    lock = Lock(horizon=10, n_actions=3, noise=0.4)
    policy = learn(lock, Bins(0.1, projections=None), episodes=1500, seed=0).policy
    assert cvar(roll(lock, policy, ODD).returns, 0.1) < 0.4


def test_rewards_without_a_grid():
    class Noisy(Choice):
        def _move(self, h, latent, action, rng):
            reward, latent, over = super()._move(h, latent, action, rng)
            return reward + 0.01 * rng.normal(), latent, over

    policy = learn(Noisy(), Bins(0.1, projections=1, batch=50), episodes=1000, seed=0).policy
    assert cvar(roll(Noisy(), policy, ODD).returns, 0.1) > 0.7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"projections": 0}, "projections = 0"),
        ({"cells": 1}, "cells = 1"),
        ({"bonus": -1}, "bonus = -1: must not"),
        ({"most": 0.0}, "most = 0.0: must be positive"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        Bins(0.1, **settings)
