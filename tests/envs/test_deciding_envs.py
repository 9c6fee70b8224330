"""The environments in which something decides: the model in `lowrank-conflict`, the bonus in `walled-lock`."""

from __future__ import annotations

import numpy as np
import pytest

import tailrank
from tailrank import InputError, make_episodic
from tailrank.learning.registry import make_learner
from tailrank.learning.train import train
from tailrank.models.lowrank import LowRankModel
from tailrank.planning.latent.planner import law_of_plan, plan_latent


def share_of_star(env, model, tau, aim=None):
    """What a plan made in `model` for the tail `aim` earns in the environment, over CVaR*."""
    start = int(env.group[0][env.start])
    none = [np.zeros(law.shape) for law in env.reward_of]
    plan = plan_latent(model, env.rewards, env.reward_of, none, aim or tau, start)
    earned = law_of_plan(env.model, env.rewards, env.reward_of, plan, start).cvar(tau)
    return earned / tailrank.solve(env.truth, tau).cvar


@pytest.mark.parametrize("tau", [0.05, 0.25])
@pytest.mark.parametrize("settings", [{}, {"horizon": 8, "n_actions": 6, "d": 6}])
def test_only_the_right_model_and_the_right_tail_will_do(tau, settings):
    for seed in range(500, 504):
        env = make_episodic("lowrank-conflict", seed=seed, **settings)
        other = make_episodic("lowrank-conflict", seed=seed + 100, **settings)
        assert share_of_star(env, env.model, tau) == pytest.approx(1.0, abs=1e-9)
        assert share_of_star(env, LowRankModel(other.model.steps, env.group), tau) < 0.95
        assert share_of_star(env, env.model, tau, aim=1.0) < 0.95


def test_no_state_of_the_conflict_tells_the_latent():
    env = make_episodic("lowrank-conflict", seed=3)
    for step in env.model.steps:
        assert (step.psi > 0.0).all()
        assert np.linalg.matrix_rank(step.kernel.reshape(-1, env.n_states)) == 3


@pytest.mark.parametrize("seed", [40, 41])
def test_only_the_bonus_gets_through_the_walled_lock(seed):
    env, reached = make_episodic("walled-lock", horizon=8, n_states=30, seed=seed), {}
    for name in ("ela", "greedy"):
        values = (row["cvar"] for _, row in train(make_learner(name, tau=0.1), env, iterations=100, seed=seed))
        reached[name] = max(takewhile_below(values, env.optimum(0.1)))
    assert reached["ela"] == pytest.approx(env.optimum(0.1))
    assert reached["greedy"] <= 0.08 + 1e-12  # the bait of the first step


def takewhile_below(values, goal):
    """The values up to the first that reaches the goal."""
    for value in values:
        yield value
        if value >= goal - 1e-9:
            return


def test_walled_lock_closed_form_and_class():
    env = make_episodic("walled-lock", horizon=6, n_actions=5, n_states=12, seed=1)
    for tau in (0.05, 0.25, 0.75, 1.0):
        assert tailrank.solve(env.truth, tau).cvar == pytest.approx(env.optimum(tau), abs=1e-9)
    wall, *others = env.candidates[0]
    assert len(others) == 35
    assert (wall.kernel[..., 2] == 1.0).all()
    assert sum((model.kernel[:2, :, 2] == 1.0).all(axis=1).any() for model in env.candidates[0]) == 11


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("walled-lock", {"bait": 0.1}, "safe = 0.8: must lie between bait"),
        ("lowrank-conflict", {"n_actions": 2}, "n_actions = 2: must be a whole number of at least 3"),
        ("lowrank-conflict", {"mixing": 1.0}, r"mixing = 1.0: must lie in \[0, 1\)"),
    ],
)
def test_bad_settings(name, settings, message):
    with pytest.raises(InputError, match=message):
        make_episodic(name, **settings)
