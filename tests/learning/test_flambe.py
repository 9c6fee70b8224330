"""FLAMBE: the elliptical planner, an exploration that knows no rewards, its coverage, and the frontier it gives."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tailrank import InputError
from tailrank.envs import make_episodic
from tailrank.episodes.streams import Streams
from tailrank.learning.judge import ExactJudge
from tailrank.learning.oracles.choices import ModelChoice
from tailrank.learning.rivals.states.flambe import Covering, Flambe, covariance, cover, frontier, widest
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.planning.solve import solve

CLASS = ModelChoice("class")


def explored(learner, env, iterations, seed=0):
    state, streams = learner.init(env, Streams(0)), Streams(seed)
    for _ in range(iterations):
        state, _ = learner.step(state, env, streams)
    return state


def random_model(rng, H=3, G=2, A=2, d=3):
    steps = tuple(StepModel(rng.dirichlet(np.ones(d), (G, A)), rng.dirichlet(np.ones(G), d)) for _ in range(H - 1))
    return LowRankModel(steps, (np.arange(G),) * H)


def expected(model, policy, start, table):
    """E of table [G, A] at the last step of a policy, by enumerating paths."""
    total = 0.0
    for path in product(range(table.shape[0]), repeat=len(policy) - 1):
        groups, p = (start, *path), 1.0
        for h, (g, after) in enumerate(zip(groups, path, strict=False)):
            p *= model.steps[h].kernel[g, policy[h][g], after]
        total += p * table[groups[-1], policy[-1][groups[-1]]]
    return total


@pytest.mark.parametrize("h", [0, 1, 2])
def test_the_elliptical_planner_is_best_among_all_markov_policies(h):
    rng = np.random.default_rng(h)
    for _ in range(5):
        model = random_model(rng, H=4)
        root = rng.normal(size=(3, 3))
        inverse, phi = root @ root.T, model.steps[h].phi
        worth = np.array([[v @ inverse @ v for v in row] for row in phi])
        tables = [np.array(t) for t in product(range(2), repeat=2)]
        values = {
            tuple(map(bytes, policy)): expected(model, policy, 1, worth) for policy in product(tables, repeat=h + 1)
        }
        policy, value = widest(model, h, 1, inverse)
        assert value == pytest.approx(max(values.values()), abs=1e-12)
        assert expected(model, policy, 1, worth) == pytest.approx(value, abs=1e-12)
        own = sum(
            np.outer(phi[g, a], phi[g, a]) * expected(model, policy, 1, np.eye(4)[2 * g + a].reshape(2, 2))
            for g, a in product(range(2), range(2))
        )
        np.testing.assert_allclose(covariance(model, policy, 1), own, atol=1e-12)


@pytest.mark.parametrize("beta", [0.3, 0.1, 0.02])
def test_the_cover_ends_when_nothing_is_left_and_within_the_papers_bound(beta):
    model = random_model(np.random.default_rng(7), H=4, G=4, A=3)
    for h in range(3):
        found = cover(model, h, 0, beta)
        assert found.objectives[-1] <= beta
        assert all(value > beta for value in found.objectives[1:-1])
        assert np.all(np.diff(found.objectives) <= 1e-12)
        assert 1 <= len(found.policies) <= 4 * 3 * np.log(1 + 4 / beta) / beta
        total = np.eye(3) + sum(covariance(model, policy, 0) for policy in found.policies)
        np.testing.assert_allclose(found.sigma, total, atol=1e-9)


@pytest.mark.parametrize("name", ["risky-lock", "random-lowrank"])
def test_exploration_does_not_know_tau_nor_rewards(name):
    env = make_episodic(name, horizon=4, seed=3)
    runs = [explored(Flambe(tau, CLASS), env, 6) for tau in (0.05, 1.0)]
    arrays = [{k: v for k, v in s.to_arrays().items() if not k.startswith("plan")} for s in runs]
    for key in arrays[0]:
        np.testing.assert_array_equal(arrays[0][key], arrays[1][key], err_msg=key)
    assert runs[0].plan.budget != runs[1].plan.budget


def met_by(env, u, policies, H):
    """How likely each (latent, action) is at each step, [H - 1] of [G, A]: policies before step u, then uniform."""
    A, met = env.n_actions, [np.zeros((3, env.n_actions)) for _ in range(H - 1)]
    for policy in policies:
        here = np.eye(3)[0]
        for h in range(H - 1):
            chosen = np.eye(A)[policy[h]] if h < u else np.full((3, A), 1 / A)
            met[h] += here[:, None] * chosen / len(policies)
            here = np.einsum("ga,gan->n", here[:, None] * chosen, env.model.steps[h].kernel)
    return met


def rarest(met):
    """The least probability of a good latent with an action, at any step where the latent can be."""
    return min(table[:2][table[:2].sum(axis=1) > 0].min() for table in met)


def test_the_cover_meets_every_pair_that_uniform_actions_never_reach():
    H, A = 8, 4
    env = make_episodic("risky-lock", horizon=H, n_actions=A, seed=1)
    state = explored(Flambe(0.1, CLASS), env, 40)
    for h, step in enumerate(env.model.steps):
        known = slice(0, 1) if h == 0 else slice(None)  # the start is the only latent of step 0
        np.testing.assert_array_equal(state.model.steps[h].phi[known], step.phi[known])
    mixture = [met_by(env, u, cover(state.model, u - 1, 0, 0.1).policies if u else [[]], H) for u in range(H - 1)]
    least = rarest(np.mean(mixture, axis=0))
    uniform = rarest(mixture[0])
    assert uniform == pytest.approx(A ** -(H - 1) / 2)
    # A cover reaches each good latent with probability near 1/4, one roll-in in H - 1 takes the uniform action there.
    assert least > 1 / (8 * A * (H - 1))
    assert least > 30 * uniform


def test_what_is_played_is_the_cover():
    H, n = 6, 2000
    env = make_episodic("risky-lock", horizon=H, n_actions=3, seed=1)
    learner = Flambe(0.1, CLASS, batch=n)
    state = replace(explored(learner, env, 1), model=env.model)
    after, _ = learner.step(state, env, Streams(9))
    for h in range(H - 1):
        # D_h: episodes that follow their policies at step h, and the one whose uniform actions begin there.
        expected_visits = sum(
            met_by(env, u, cover(env.model, u - 1, 0, 0.1).policies if u else [[]], H)[h] for u in range(h, H - 1)
        )
        found = (after.seen.visits[h] - state.seen.visits[h]) / n
        np.testing.assert_allclose(found, expected_visits, atol=0.1)
        assert found[2].sum() > 0.2 or h == 0  # what earns nothing is explored too


@pytest.mark.parametrize(
    ("name", "settings", "iterations"),
    [("risky-lock", {"horizon": 5, "n_actions": 4, "n_states": 30}, 60), ("random-lowrank", {}, 60)],
)
def test_one_exploration_gives_the_whole_frontier(name, settings, iterations):
    env = make_episodic(name, seed=4, **settings)
    learner = Flambe(0.5, CLASS)
    state, judge = explored(learner, env, iterations, seed=4), ExactJudge.of(learner, env)
    exact = solve(env.truth, tau=0.5).frontier()
    taus = (0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
    points = frontier(state.plan, env, judge, taus)
    assert [p.tau for p in points] == list(taus)
    for point in points:
        best = exact.cvar(point.tau)
        assert point.earned <= best + 1e-9
        assert point.earned >= 0.95 * best
        assert point.promised == pytest.approx(solve_in_model(state, env, point.tau), abs=1e-9)
    assert points[0].earned < points[-1].earned - 0.05


def solve_in_model(state, env, tau):
    """The best CVaR of the fitted model by the exact planner for MDPs."""
    from tailrank.envs.built_in.episodic import product_mdp

    return solve(product_mdp(state.model.steps, env.rewards, int(env.group[0][env.start])), tau=tau).cvar


def test_settings_are_checked():
    for beta in (0.0, 1.5):
        with pytest.raises(InputError, match="beta"):
            Covering(beta)
    with pytest.raises(InputError, match="collect"):
        Flambe(0.1, CLASS, collect="plan")
