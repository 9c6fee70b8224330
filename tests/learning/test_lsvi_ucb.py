"""LSVI-UCB and its tail form: the statistics, the plans, optimism, what they learn, and what an episode costs."""

from __future__ import annotations

import numpy as np
import pytest
from plain_dp import dense, mean_values

import tailrank
from tailrank import InputError
from tailrank.envs import make_episodic
from tailrank.episodes.streams import Streams
from tailrank.learning.judge import ExactJudge
from tailrank.learning.rivals.states.lsvi_ucb import LSVIUCB, CvarLSVIUCB, KnownFeatures, Ridge, plan_mean, plan_tail
from tailrank.learning.train import train
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.problem import PlanningProblem

RNG = np.random.default_rng(0)


def small(seed=0, H=4, reward="levels"):
    return make_episodic("random-lowrank", horizon=H, n_actions=3, n_states=6, reward=reward, seed=seed)


def problem_of(env, tau, psi=None):
    """The planning problem with the true psi, or with another one."""
    steps = tuple(StepModel(s.phi, s.psi if psi is None else psi[h]) for h, s in enumerate(env.model.steps))
    return PlanningProblem(LowRankModel(steps, env.group), env.rewards, env.reward_of, env.start, tau, (), 1, 3, 0.0)


def run(learner, env, k, seed=0):
    state, streams, infos = learner.init(env, Streams(0)), Streams(seed), []
    for _ in range(k):
        state, info = learner.step(state, env, streams)
        infos.append(info)
    return state, infos


class Spy:
    """An environment that keeps every transition."""

    def __init__(self, env):
        self._env, self.seen = env, [[] for _ in range(env.horizon)]

    def __getattr__(self, name):
        return getattr(self._env, name)

    def step(self, h, states, actions, rng):
        reward, after = self._env.step(h, states, actions, rng)
        self.seen[h] += list(zip(states, actions, reward, after, strict=True))
        return reward, after


# Statistics


@pytest.mark.parametrize("name", ["random-lowrank", "risky-lock"])
@pytest.mark.parametrize("batch", [1, 7])
def test_weights_are_the_ridge_regression_of_all_that_was_seen(name, batch):
    env = Spy(make_episodic(name, horizon=4, n_actions=3, n_states=12, seed=1))
    learner = CvarLSVIUCB(0.2, lam_scale=0.3, batch=batch)
    state, _ = run(learner, env, 40, seed=3)
    assert state.episodes == 40 * batch == len(env.seen[0])
    assert not env.seen[-1]  # nothing is learned from the last step
    for h, ridge in enumerate(state.ridges):
        phi = env.model.steps[h].phi
        features = np.array([phi[env.group[h][s], a] for s, a, _, _ in env.seen[h]])
        after = np.array([env.group[h + 1][t] for *_, t in env.seen[h]])
        value = RNG.normal(size=(env.model.steps[h].psi.shape[1], 5))
        # ridge regression as least squares with d more rows, sqrt(lam) I
        rows = np.vstack([features, np.sqrt(0.3) * np.eye(features.shape[1])])
        targets = np.vstack([value[after], np.zeros((features.shape[1], 5))])
        expected = np.linalg.lstsq(rows, targets, rcond=None)[0]
        np.testing.assert_allclose(ridge.psi @ value, expected, atol=1e-9)


def test_sherman_morrison_is_the_inverse_and_counts_the_determinant():
    d, rng = 6, np.random.default_rng(2)
    features = rng.dirichlet(np.full(d, 0.2), size=5000)
    features[1000:3000] = features[0] + 1e-5 * rng.normal(size=(2000, d))  # nearly one direction
    ridge = Ridge.empty(d, 3, 0.01).plus(features, rng.integers(3, size=5000))
    gram = features.T @ features + 0.01 * np.eye(d)
    np.testing.assert_allclose(ridge.gram, gram, rtol=1e-10)
    np.testing.assert_allclose(ridge.inverse @ gram, np.eye(d), atol=1e-8)
    grown = np.linalg.slogdet(gram)[1] - d * np.log(0.01)
    assert ridge.grown == pytest.approx(grown, rel=1e-9)
    settled = ridge.settled()
    assert settled.grown == 0.0
    np.testing.assert_allclose(settled.inverse, np.linalg.inv(gram), rtol=1e-9)
    few = features[:12]
    expected = [np.sqrt(x @ np.linalg.inv(gram) @ x) for x in few]
    np.testing.assert_allclose(ridge.norms(few.reshape(3, 4, d)).ravel(), expected, rtol=1e-8)


# Plans


def tail_by_loops(env, psi, bonus, tau):
    """max_c { c - V(c) / tau } by the recursion of the docstring, pair by pair and budget by budget."""
    laws, top, H, C = env.rewards.laws, env.rewards.top, env.horizon, env.rewards.n_budgets
    most = [max(x for g in w.ravel() for x in range(top + 1) if laws[g, x] > 0) for w in env.reward_of]
    left = [sum(most[h:]) for h in range(H + 1)]
    G, A = env.reward_of[0].shape
    V = np.tile(np.arange(C, dtype=float), (G, 1))
    for h in reversed(range(H)):
        now = np.empty((G, C))
        for g in range(G):
            for c in range(C):
                found = []
                for a in range(A):
                    q = 0.0
                    for x in range(top + 1):
                        p = laws[env.reward_of[h][g, a], x]
                        rest = max(c - x, 0)
                        base = max(rest - left[h + 1], 0)
                        if h == H - 1:
                            q += p * rest
                            continue
                        weights = psi[h] @ (V[:, rest] - base)
                        q += p * (
                            base + env.model.steps[h].phi[g, a] @ weights - min(rest, left[h + 1]) * bonus[h][g, a]
                        )
                    found.append(q)
                now[g, c] = min(max(min(found), c - left[h], 0.0), c)
        V = now
    curve = V[env.start]
    return max(c - curve[c] / tau for c in range(C)), curve


@pytest.mark.parametrize("seed", range(4))
def test_the_plan_for_the_tail_is_the_recursion(seed):
    env, rng = small(seed, H=3), np.random.default_rng(seed)
    psi = [s.psi + 0.2 * rng.normal(size=s.psi.shape) for s in env.model.steps]
    bonus = [0.3 * rng.random(w.shape) for w in env.reward_of[:-1]] + [np.zeros(env.reward_of[-1].shape)]
    plan = plan_tail(problem_of(env, 0.3, psi), bonus, rng)
    value, curve = tail_by_loops(env, psi, bonus, 0.3)
    np.testing.assert_allclose(plan.curve, curve, atol=1e-10)
    assert plan.objective == pytest.approx(value, abs=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_with_the_true_psi_and_no_bonus_plans_are_optimal(seed):
    env = small(seed)
    for tau in (0.1, 0.4, 1.0):
        problem = problem_of(env, tau)
        plan = plan_tail(problem, problem.no_bonus, RNG)
        unit = float(env.rewards.grid.unit)
        assert plan.objective * unit == pytest.approx(tailrank.solve(env.truth, tau=tau).cvar, abs=1e-10)
    kernels, laws = dense(env)
    best = mean_values(kernels, laws, problem.no_bonus)[0][0][env.start]
    assert plan.objective == pytest.approx(best, abs=1e-10)  # tau = 1 is the mean
    assert plan_mean(problem, problem.no_bonus, RNG).objective == pytest.approx(best, abs=1e-10)


def test_the_bonus_of_the_mean_is_that_of_jin():
    env = small(5)
    bonus = [0.1 * RNG.random(w.shape) for w in env.reward_of[:-1]] + [np.zeros(env.reward_of[-1].shape)]
    problem = problem_of(env, 1.0)
    kernels, laws = dense(env)
    scaled = [b * problem.left[h + 1] for h, b in enumerate(bonus)]
    W, _ = mean_values(kernels, laws, scaled)
    assert all((W[h] < problem.left[h]).all() for h in range(env.horizon))  # nothing to clip
    plan = plan_mean(problem, bonus, RNG)
    assert plan.objective == pytest.approx(W[0][env.start], abs=1e-10)
    assert all((table == table[:, :1]).all() for table in plan.actions)


# Learning


@pytest.mark.parametrize("make", [CvarLSVIUCB, LSVIUCB])
@pytest.mark.parametrize("seed", range(3))
def test_optimism(make, seed):
    env = small(seed, H=3)
    tau = 0.25 if make is CvarLSVIUCB else 1.0
    star = tailrank.solve(env.truth, tau=tau).cvar
    _, infos = run(make(tau, alpha_scale=0.1), env, 200, seed)
    assert min(info.objective for info in infos) >= star
    assert infos[0].objective == pytest.approx(env.horizon)  # nothing known: the most that rewards allow
    assert infos[-1].objective < env.horizon - 0.7
    if seed == 0:  # the bonus is what makes it so
        _, infos = run(make(tau, alpha_scale=0.001), env, 200, seed)
        assert infos[-1].objective < star


CASES = [
    (CvarLSVIUCB, "risky-lock", {"horizon": 5, "n_actions": 4, "n_states": 30}, 0.1, 300),
    (CvarLSVIUCB, "risky-lock", {"horizon": 4, "n_actions": 3, "n_states": 30}, 0.25, 400),
    (CvarLSVIUCB, "random-lowrank", {"horizon": 4, "n_actions": 3, "n_states": 12}, 0.1, 400),
    (CvarLSVIUCB, "random-lowrank", {"horizon": 3, "n_actions": 3, "n_states": 12, "reward": "levels"}, 1.0, 300),
    (LSVIUCB, "risky-lock", {"horizon": 5, "n_actions": 4, "n_states": 30}, 1.0, 300),
    (LSVIUCB, "random-lowrank", {"horizon": 4, "n_actions": 3, "n_states": 12}, 1.0, 300),
]


@pytest.mark.parametrize(("make", "name", "settings", "tau", "episodes"), CASES)
def test_it_learns(make, name, settings, tau, episodes):
    for seed in (0, 1):
        env = make_episodic(name, seed=seed, **settings)
        learner = make(tau)
        judge = ExactJudge.of(learner, env)
        *_, (state, row) = train(learner, env, iterations=episodes, seed=seed, judge=judge)
        assert row["episodes"] == episodes
        assert row["cvar"] >= 0.95 * judge.star
        greedy = learner.greedy(state, env, Streams(seed))
        assert judge.cvar(greedy) >= 0.95 * judge.star


def test_lsvi_ucb_ignores_the_tail():
    """On the lock the mean likes the risky payoff, whose worst tenth is nothing."""
    env = make_episodic("risky-lock", horizon=4, n_actions=3, n_states=9, seed=0)
    *_, (_, row) = train(LSVIUCB(0.1), env, iterations=200, seed=0)
    assert row["cvar"] == pytest.approx(0.0, abs=1e-12)
    assert row["objective"] > 0.85


# Cost


def test_an_episode_costs_the_same_however_many_there_were():
    env, calls = Spy(small(1)), []

    def counting(problem, bonus, rng):
        calls.append(problem.rounds)
        return plan_tail(problem, bonus, rng)

    learner = KnownFeatures(0.2, counting)
    state, streams, sizes, made = learner.init(env, Streams(0)), Streams(0), set(), []
    for k in range(1, 1201):
        state, _ = learner.step(state, env, streams)
        if k >= 2:
            sizes.add(sum(x.size for x in state.to_arrays().values()))
        made.append(len(calls))
        assert all(len(seen) == k for seen in env.seen[:-1])
    assert len(sizes) == 1  # the state does not grow
    assert state.plans == len(calls)
    # det Lambda_h of K unit features is at most (1 + K / d)^d, and it doubles between two plans
    d, H, K = 3, env.horizon, 1200
    assert len(calls) <= 1 + (H - 1) * d * np.log2(1 + K / d)
    assert made[-1] - made[599] <= (H - 1) * d  # from 600 to 1200 every determinant doubles d times at most
    assert made[-1] < 60


def test_switch_one_plans_in_every_iteration():
    state, _ = run(CvarLSVIUCB(0.2, switch=1.0), small(), 20)
    assert state.plans == 21  # and once before the first
    more, _ = run(CvarLSVIUCB(0.2, switch=4.0), small(), 400)
    less, _ = run(CvarLSVIUCB(0.2, switch=2.0), small(), 400)
    assert more.plans < less.plans


# House-keeping


def test_one_step_needs_no_data():
    env = make_episodic("random-lowrank", horizon=1, n_actions=3, n_states=4, seed=0)
    state, infos = run(CvarLSVIUCB(0.3), env, 3)
    assert infos[-1].objective == pytest.approx(tailrank.solve(env.truth, tau=0.3).cvar)
    assert (state.plans, state.steps) == (1, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"switch": 0.5}, "switch = 0.5: must be at least 1"),
        ({"alpha_scale": 0.0}, "alpha_scale = 0.0: must be positive"),
        ({"lam_scale": -1.0}, "lam_scale = -1.0: must be positive"),
        ({"batch": 0}, "batch = 0: must be a whole number of at least 1"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        CvarLSVIUCB(0.1, **settings)


def test_features_that_are_too_many_are_refused():
    class Huge:
        name, horizon, group = "huge", 2, ()
        model = LowRankModel((StepModel(np.empty((1, 1, 20_000)), np.empty((20_000, 1))),), ())

    with pytest.raises(InputError, match="huge: features of dimension 20000 need 800020000 numbers"):
        CvarLSVIUCB(0.1).init(Huge(), Streams(0))
