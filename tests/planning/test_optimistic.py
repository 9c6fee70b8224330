"""Optimistic value iteration: against plain dynamic programs, and its optimism where the bonus is honest."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank.envs import make_episodic
from tailrank.learning.rivals.states.bastani import lowered, plan_shifted
from tailrank.models.counts import SparseCounts
from tailrank.models.lowrank import EmpiricalStep, Model, StepModel
from tailrank.models.problem import PlanningProblem
from tailrank.planning.latent.optimistic import (
    after_rewards,
    best_start,
    expectation,
    lowest,
    plan_bernstein,
    plan_clipped,
)
from tailrank.planning.latent.planner import plan_latent

RNG = np.random.default_rng(0)


def problem_of(env, steps, tau=0.3, visits=None):
    visits = [np.ones(law.shape) for law in env.reward_of[:-1]] if visits is None else visits
    return PlanningProblem(
        Model(tuple(steps), env.group),
        env.rewards,
        env.reward_of,
        0,
        tau,
        tuple(visits),
        10,
        3,
        0.0,
    )


def backward(problem, q_of):
    """The plan for Q_h [G A, C] = q_of(h, V_{h+1} [G', C]), without a kernel."""
    budgets = np.arange(problem.rewards.n_budgets, dtype=np.float64)
    values, actions = budgets[None, :], []
    for h in reversed(range(problem.horizon)):
        chosen, values = lowest(problem, h, q_of(h, values))
        values = np.clip(values, 0.0, budgets)
        actions.append(chosen)
    return best_start(problem, actions, values)


def counted(env, n, seed):
    """Empirical steps from n transitions of every step, and as dense kernels [G, A, G']."""
    rng, steps, kernels = np.random.default_rng(seed), [], []
    for step in env.model.steps:
        G, A, after = step.shape
        g, a = rng.integers(G, size=n), rng.integers(A, size=n)
        to = np.array([rng.choice(after, p=step.kernel[i, j]) for i, j in zip(g, a)])
        table = np.zeros(step.shape)
        np.add.at(table, (g, a, to), 1.0)
        steps.append(EmpiricalStep.of(SparseCounts.of(g, a, to, step.shape)))
        total = table.sum(axis=2, keepdims=True)
        kernels.append(np.where(total > 0, table / np.maximum(total, 1), 1 / after))
    return steps, kernels


def plain(env, kernels, bonus, low=True):
    """V [H + 1] of [G, C], by loops; clipped to [0, c]."""
    H, laws = env.horizon, env.rewards.laws
    C = env.rewards.n_budgets
    V = np.tile(np.arange(C, dtype=float), (kernels[-1].shape[2], 1))
    for h in reversed(range(H)):
        G, A = env.reward_of[h].shape
        now = np.zeros((G, C))
        for g in range(G):
            for c in range(C):
                q = []
                for a in range(A):
                    total = -bonus[h][g, a]
                    for x, p in enumerate(laws[env.reward_of[h][g, a]]):
                        if h == H - 1:
                            total += p * max(c - x, 0)
                        else:
                            total += p * sum(kernels[h][g, a, t] * V[t, max(c - x, 0)] for t in range(V.shape[0]))
                    q.append(total)
                now[g, c] = min(max(min(q), 0.0), c)
        V = now
    return V


@pytest.mark.parametrize("seed", range(3))
def test_rows_and_tables_expect_the_same(seed):
    env = make_episodic("random-lowrank", horizon=3, n_states=7, n_actions=3, seed=seed)
    steps, kernels = counted(env, 25, seed)
    table = RNG.random((7, 11))
    for step, kernel, true in zip(steps, kernels, env.model.steps):
        np.testing.assert_allclose(step.expect(table), (kernel @ table).reshape(21, 11), atol=1e-12)
        np.testing.assert_allclose(true.expect(table), (true.kernel @ table).reshape(21, 11), atol=1e-12)
    assert any((step.first[1:] == step.first[:-1]).any() for step in steps), "some pair was never seen"


@pytest.mark.parametrize("seed", range(4))
def test_a_clipped_plan_is_the_plain_one(seed):
    env = make_episodic("random-lowrank", horizon=3, n_states=5, n_actions=3, seed=seed)
    steps, kernels = counted(env, 60, seed)
    bonus = [*(0.3 * np.random.default_rng(seed).random(law.shape) for law in env.reward_of[:-1]), np.zeros((5, 3))]
    plan = plan_clipped(problem_of(env, steps), bonus, RNG)
    values = plain(env, kernels, [b * env.rewards.top for b in bonus])[0]
    np.testing.assert_allclose(plan.curve, values, atol=1e-10)
    problem = problem_of(env, steps)
    slow = backward(
        problem,
        lambda h, v: after_rewards(problem, h, expectation(problem, h, v)) - env.rewards.top * bonus[h].reshape(-1, 1),
    )
    np.testing.assert_allclose(slow.curve, values, atol=1e-10)
    assert plan.objective == pytest.approx(np.max(np.arange(values.size) - values / 0.3))


@pytest.mark.parametrize("seed", range(4))
def test_without_bonus_it_is_the_latent_plan(seed):
    env = make_episodic("random-lowrank", horizon=4, n_states=9, seed=seed)
    problem = problem_of(env, env.model.steps, tau=0.2)
    exact = plan_latent(env.model, env.rewards, env.reward_of, problem.no_bonus, 0.2, 0)
    for planner in (plan_clipped, plan_bernstein):
        found = planner(problem, problem.no_bonus, RNG)
        np.testing.assert_allclose(found.curve, exact.curve, atol=1e-10)
        assert (found.budget, found.objective) == (exact.budget, pytest.approx(exact.objective))


def test_the_bernstein_bonus_by_hand():
    """H = 2, one action: the first step leads to rich or poor (law q), the second pays 1 or 0."""
    env = make_episodic("random-lowrank", horizon=2, n_states=2, n_actions=1)
    q = np.array([0.25, 0.75])
    step = StepModel(np.tile(q, (2, 1, 1)), np.eye(2))
    laws = np.array([[1.0, 0.0], [0.0, 1.0]])
    rewards = type(env.rewards)(env.rewards.grid, laws, np.array([[[0], [0]], [[0], [1]]]))
    law_of = (np.array([[0], [0]]), np.array([[0], [1]]))
    problem = PlanningProblem(Model((step,), env.group), rewards, law_of, 0, 0.5, (np.ones((2, 1)),), 1, 1, 0.0)
    x = np.full((2, 1), 0.02)
    plan = plan_bernstein(problem, [x, np.zeros((2, 1))], RNG)
    # At budget 1: W = (1, 0) with law q; no doubt yet, as the last step is known; R = 1.
    mean, variance = 0.25, 0.25 * 0.75
    paid = np.sqrt(2 * 0.02 * variance) + 0.02
    assert plan.curve[1] == pytest.approx(mean - paid)
    more = plan_bernstein(problem, [np.stack([x, x + 0.1]), np.zeros((2, 1))], RNG)
    assert more.curve[1] == pytest.approx(mean - paid - 0.1)


@pytest.mark.parametrize("seed", range(6))
def test_a_lowered_law_dominates_every_law_it_covers(seed):
    """If no probability is off by more than eps, the shifted plan promises at least CVaR*."""
    env = make_episodic("random-lowrank", horizon=4, n_states=6, n_actions=3, seed=seed)
    steps, kernels = counted(env, 200, seed)
    eps = [np.abs(k - s.kernel).max(axis=2) for k, s in zip(kernels, env.model.steps)]
    for tau in (0.1, 0.5, 1.0):
        best = plan_latent(env.model, env.rewards, env.reward_of, problem_of(env, steps).no_bonus, tau, 0)
        assert plan_shifted(problem_of(env, steps, tau), eps).objective >= best.objective - 1e-9
    less = [0.2 * e for e in eps]
    assert plan_shifted(problem_of(env, steps), less).objective < plan_shifted(problem_of(env, steps), eps).objective


def test_what_is_lost_goes_to_the_best_state():
    counts = SparseCounts.of(np.array([0, 0, 0, 0]), np.array([0, 0, 0, 0]), np.array([0, 1, 1, 1]), (2, 2, 2))
    rows = lowered(EmpiricalStep.of(counts), np.full((2, 2), 0.3))
    np.testing.assert_allclose(rows.prob, [0.0, 0.45])
    np.testing.assert_allclose(rows.rest, [0.55, 1.0, 1.0, 1.0])


def plain_bernstein(env, kernels, widths, left):
    """Low and high values of the first step, by loops."""
    H, laws, C = env.horizon, env.rewards.laws, env.rewards.n_budgets
    low = high = np.tile(np.arange(C, dtype=float), (kernels[-1].shape[2], 1))
    for h in reversed(range(H)):
        G, A = env.reward_of[h].shape
        now = np.zeros((2, G, C))
        for g in range(G):
            for c in range(C):
                best = None
                for a in range(A):
                    law = laws[env.reward_of[h][g, a]]
                    w, up = (
                        np.array([sum(p * v[t, max(c - x, 0)] for x, p in enumerate(law)) for t in range(len(v))])
                        for v in (low, high)
                    )
                    q = kernels[h][g, a] if h < H - 1 else np.full(len(w), 1 / len(w))
                    x = widths[h][g, a]
                    variance = q @ (w - q @ w) ** 2
                    paid = np.sqrt(2 * x * variance) + np.sqrt(2 * x * (q @ (up - w) ** 2)) + x * left[h + 1]
                    if best is None or q @ w - paid < best[0]:
                        best = q @ w - paid, q @ up + paid
                now[:, g, c] = np.clip(best, 0.0, c)
        low, high = now
    return low


@pytest.mark.parametrize("low_rank", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_bernstein_plan_is_the_plain_one(seed, low_rank):
    env = make_episodic("random-lowrank", horizon=4, n_states=5, n_actions=2, seed=seed)
    steps, kernels = counted(env, 40, seed)
    if low_rank:
        steps, kernels = env.model.steps, [step.kernel for step in env.model.steps]
    rng = np.random.default_rng(seed)
    widths = [*(0.003 * rng.random(law.shape) for law in env.reward_of[:-1]), np.zeros((5, 2))]
    problem = problem_of(env, steps)
    plan = plan_bernstein(problem, widths, RNG)
    np.testing.assert_allclose(plan.curve, plain_bernstein(env, kernels, widths, problem.left)[0], atol=1e-10)
    assert plan.curve.max() > 0.1
