"""The sampled latent planner: close to the exact one where that can run, and at home where it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank import InputError
from tailrank.envs import make_episodic
from tailrank.planning.latent.planner import plan_latent
from tailrank.planning.latent.sampled import plan_sampled
from tailrank.planning.lsvi.model import GroupModel


def problem(seed):
    env = make_episodic("random-lowrank", horizon=5, n_states=40, n_actions=3, d=3, reward="levels", seed=seed)
    rng = np.random.default_rng(seed)
    bonus = [rng.uniform(0, 0.2, w.shape) * (h < env.horizon - 2) for h, w in enumerate(env.reward_of)]
    exact = plan_latent(env.model, env.rewards, env.reward_of, bonus, 0.2, 0)
    top = env.rewards.top
    return env, GroupModel(env.model, env.reward_of, env.rewards.laws, [b * top for b in bonus], 0), exact


@pytest.mark.parametrize("seed", range(3))
def test_error_falls_with_the_samples(seed):
    _, model, exact = problem(seed)
    errors = [
        np.mean(
            [
                np.abs(plan_sampled(model, 0.2, samples=n, rng=np.random.default_rng(r)).curve - exact.curve).max()
                for r in range(6)
            ]
        )
        for n in (4, 64, 1024)
    ]
    assert errors[2] < 0.5 * errors[1] < 0.25 * errors[0] + 1e-12
    assert errors[2] < 0.02 * exact.curve.size


def test_acts_as_the_exact_plan_where_states_are_listed():
    env, model, exact = problem(0)
    plan = plan_sampled(model, 0.2, samples=4000, rng=np.random.default_rng(0))
    same = []
    for h in range(env.horizon):
        groups = np.repeat(np.arange(env.n_groups), exact.curve.size)
        budgets = np.tile(np.arange(exact.curve.size), env.n_groups)
        same.append(np.mean(plan.act(h, groups, budgets) == exact.act(h, groups, budgets)))
    assert same[-1] == 1.0, "nothing is sampled at the last step"
    assert min(same) > 0.85


class OnTheLine:
    """States are reals: psi_j is a Gaussian at j; the left latent pays surely, the right one gambles."""

    horizon, n_actions = 3, 2

    def rank(self, h):
        return 2

    def start(self):
        return np.array([0.5])

    def features(self, h, states):
        near = 1.0 / (1.0 + np.exp(-4.0 * (np.asarray(states) - 0.5)))
        right = np.stack([0.1 * near, 0.9 + 0.1 * near], axis=1)
        return np.stack([1.0 - right, right], axis=2)

    def reward_laws(self, h, states):
        risky = (np.asarray(states) > 0.5)[:, None, None]
        law = np.where(risky, [0.5, 0.0, 0.5], [0.0, 1.0, 0.0])
        return np.repeat(law, 2, axis=1)

    def bonus(self, h, states):
        return np.zeros((np.size(states), 2))

    def sample_latent(self, h, latent, rng):
        return latent + 0.05 * rng.standard_normal(latent.size)


def test_states_that_cannot_be_listed():
    model = OnTheLine()
    plan = plan_sampled(model, 0.1, samples=200, rng=np.random.default_rng(1))
    assert plan.act(0, np.array([0.5]), np.array([plan.budget]))[0] == 0, "a cautious player goes left"
    # the start pays 1 surely; going left twice risks the right side at most .1 + .1 of the time
    assert plan.objective > 1.0


def test_bad_settings():
    with pytest.raises(InputError, match="samples = 0: must be a whole number of at least 1"):
        plan_sampled(OnTheLine(), 0.1, samples=0, rng=np.random.default_rng(0))
