"""The planner on the observed support: exact where the model is, and close to CVaR* where states cannot be listed."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank import make_episodic, solve
from tailrank.envs import make_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.planning.observed.support import RewardKinds, SupportStep, nearest_kind, plan_support, reward_kinds
from tailrank.policies.lowrank import LowRankPolicy
from tailrank.risk.law import cvar


@pytest.mark.parametrize("tau", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_exact_planner_on_a_finite_mdp(tau, seed):
    env = make_episodic("random-lowrank", horizon=4, n_states=6, n_actions=3, seed=seed)
    laws = env.rewards.laws
    rewards = RewardKinds(tuple(np.array([float(i)]) for i in range(laws.shape[1])), 1.0, True)

    def phi(h):
        kinds = env.model.steps[h].phi if h < env.horizon - 1 else np.tile([1.0, 0.0, 0.0], (6, 3, 1))
        return (kinds[..., None] * laws[env.rewards.which[h]][:, :, None, :]).reshape(6, 3, -1)

    plan = plan_support(
        lambda h: SupportStep(phi(h + 1), env.model.steps[h].psi),
        phi(0)[:1],
        rewards,
        env.horizon,
        tau,
        undominated=False,
    )
    assert plan.objective == pytest.approx(solve(env.truth, tau=tau).cvar, abs=1e-9)
    assert plan.grid_error == 0.0


class TrueModel:
    """The phi of the simulator itself."""

    def __init__(self, env):
        self.env, self.n_features, self.n_actions = env, env.n_features, env.n_actions

    def split(self, h, x):
        kinds, law = self.env.features(h, x), self.env.reward_laws(h, x)
        return kinds, np.repeat(law[:, :, None, :], kinds.shape[2], axis=2)


@pytest.mark.parametrize("name", ["continuous-lowrank", "lowrank-lock"])
def test_a_plan_in_the_true_model_reaches_the_best_cvar(name):
    """Its support are 600 points of each psi; the star of the simulator comes from a table of its own."""
    env = make_simulator(name, horizon=5)
    rng, d = np.random.default_rng(0), env.d
    y = env.centres[:, None] + env.spread[:, None, None] * rng.normal(size=(d, 600, env.n_features))
    x = y.reshape(-1, env.n_features) @ env.seen
    weights = np.kron(np.eye(d), np.full((1, 600), 1 / 600))
    model = TrueModel(env)

    def phi(h, states):
        kinds, law = model.split(h, states)
        return (kinds[..., None] * law).reshape(len(states), env.n_actions, -1)

    first = env.reset(np.arange(1, 801, 2))
    rewards = RewardKinds(tuple(env.levels[:, None]), env.unit, True)
    plan = plan_support(lambda h: SupportStep(phi(h + 1, x), weights), phi(0, first), rewards, env.horizon, 0.1)
    star, error = env.star(0.1)
    assert error < 0.005 * star
    assert plan.objective == pytest.approx(star, rel=0.03)
    returns = play_simulator(LowRankPolicy(model, plan), env, np.arange(1, 40_001, 2)).returns
    assert cvar(returns, 0.1) == pytest.approx(star, rel=0.03)


def test_interpolated_budgets_stay_within_their_bound():
    """One state, two actions: .3 for sure, or 1 with probability .45; real numbers that share no unit of the grid."""
    sure = RewardKinds((np.array([0.0]), np.array([0.3]), np.array([1.0])), 0.037, False)
    phi = np.array([[[0.0, 1.0, 0.0], [0.55, 0.0, 0.45]]])
    for tau, best in ((0.1, 0.9), (1.0, 1.35)):
        plan = plan_support(lambda h: SupportStep(phi, np.ones((1, 1))), phi, sure, 3, tau)
        assert abs(plan.objective - best) <= plan.grid_error + 1e-9
    exact = RewardKinds(sure.values, 0.1, True)
    plan = plan_support(lambda h: SupportStep(phi, np.ones((1, 1))), phi, exact, 3, 1.0)
    assert plan.objective == pytest.approx(1.35, abs=1e-12)


def test_laws_of_rewards():
    few, kind = reward_kinds(np.array([0.5, 0.0, 0.5, 1.0]), 4)
    assert few.exact
    assert few.spacing == 0.5
    assert kind.tolist() == [1, 0, 1, 2]
    seen = np.random.default_rng(0).normal(size=2000)
    many, kind = reward_kinds(seen, 10)
    assert not many.exact
    assert len(many.values) == 12
    assert np.mean([v.mean() for v in many.values]) == pytest.approx(seen.mean(), abs=0.01)
    assert (nearest_kind(many, seen) == kind).mean() > 0.9
