"""ICVaR-RM and its linear form: exact where the model is, optimistic, learning, and not the static CVaR."""

from __future__ import annotations

import numpy as np
import pytest

import tailrank
from brute_force import cvar_by_sorting
from tailrank import FiniteMDP, InputError
from tailrank.envs import from_mdp, make_episodic
from tailrank.episodes.streams import Streams
from tailrank.learning.registry import make_learner
from tailrank.learning.rivals.states.icvar import NestedPlanner, outcomes, plan_nested
from tailrank.learning.train import train
from tailrank.models.lowrank import EmpiricalStep, Model
from tailrank.models.problem import PlanningProblem
from tailrank.planning.criteria.nested import iterated_cvar

RNG = np.random.default_rng(0)


def icvar_rm(tau, scale, **more):
    return make_learner("icvar-rm", tau=tau, alpha_scale=scale, **more)


def icvar_linear(tau, scale, **more):
    return make_learner("icvar-linear", tau=tau, alpha_scale=scale, **more)


def cvar_ucbvi(tau, scale):
    return make_learner("cvar-ucbvi", tau=tau, alpha_scale=scale)


def small(seed=0, H=4):
    return make_episodic("random-lowrank", horizon=H, n_actions=3, n_states=6, reward="levels", seed=seed)


def rows_of(kernel):
    """A kernel [G, A, G'] as rows."""
    flat = kernel.reshape(-1, kernel.shape[2])
    pair, after = np.nonzero(flat)
    first = np.searchsorted(pair, np.arange(len(flat) + 1))
    return EmpiricalStep(first, after, flat[pair, after], kernel.shape)


def problem_of(env, tau, rows):
    steps = tuple(rows_of(s.kernel) if rows else s for s in env.model.steps)
    return PlanningProblem(Model(steps, env.group), env.rewards, env.reward_of, env.start, tau, (), 1, 3, 0.0)


def nested_value_of(env, plan, tau):
    """The nested CVaR of a Markov plan in the truth, by plain recursion, in reward units."""
    laws, H, unit = env.rewards.laws, env.horizon, float(env.rewards.grid.unit)
    after = None
    for h in reversed(range(H)):
        G, _ = env.reward_of[h].shape
        now = np.empty(G)
        for g in range(G):
            a = int(plan.actions[h][g, 0])
            law = laws[env.reward_of[h][g, a]]
            chance = np.ones(1) if h == H - 1 else env.model.steps[h].kernel[g, a]
            then = np.zeros(1) if h == H - 1 else after
            joint = [(x + v, p * q) for x, p in enumerate(law) for v, q in zip(then, chance, strict=True) if p * q > 0]
            now[g] = cvar_by_sorting([y for y, _ in joint], [p for _, p in joint], tau)
        after = now
    return after[env.start] * unit


# Plans


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tau", [0.1, 0.35, 1.0])
def test_in_the_true_model_the_plan_is_the_iterated_cvar(seed, tau):
    env = small(seed)
    policy, values = iterated_cvar(env.truth, tau)
    unit, start = float(env.rewards.grid.unit), env.start
    problem = problem_of(env, tau, rows=True)
    plan = plan_nested(problem, problem.no_bonus, RNG)
    assert plan.objective * unit == pytest.approx(values[0][start], abs=1e-12)
    assert nested_value_of(env, plan, tau) == pytest.approx(values[0][start], abs=1e-12)
    assert policy.actions[0][start] == plan.actions[0][start, 0]

    problem = problem_of(env, tau, rows=False)
    for points in (100, 1000):
        linear = NestedPlanner(points)(problem, problem.no_bonus, RNG)
        spacing = env.horizon / points  # in reward units
        off = values[0][start] - linear.objective * unit
        assert -1e-12 <= off <= env.horizon * spacing
    assert nested_value_of(env, linear, tau) >= values[0][start] - 2 * env.horizon * spacing


def test_outcomes_are_the_joint_law():
    env = small(1)
    problem = problem_of(env, 0.2, rows=True)
    values = RNG.random(6)
    ptr, prob, value = outcomes(problem, 1, values, 7.5)
    law, kernel = env.rewards.laws[env.reward_of[1]], env.model.steps[1].kernel
    for k in range(18):
        g, a = divmod(k, 3)
        mine = slice(ptr[k], ptr[k + 1])
        expected = sorted((x + values[t], law[g, a, x] * kernel[g, a, t]) for x in range(6) for t in range(6))
        found = sorted(zip(value[mine], prob[mine], strict=True))
        np.testing.assert_allclose(found, expected, atol=1e-14)


def test_a_pair_that_was_never_tried_has_the_value_given():
    env = small(1, H=2)
    whole = rows_of(env.model.steps[0].kernel)
    keep = whole.pair != 4  # pair (1, 1)
    first = np.searchsorted(whole.pair[keep], np.arange(19))
    step = EmpiricalStep(first, whole.after[keep], whole.prob[keep], whole.shape)
    problem = PlanningProblem(Model((step,), env.group), env.rewards, env.reward_of, 0, 0.2, (), 1, 3, 0.0)
    ptr, prob, value = outcomes(problem, 0, np.zeros(6), 7.5)
    law = env.rewards.laws[env.reward_of[0][1, 1]]
    np.testing.assert_allclose(value[ptr[4] : ptr[5]], np.flatnonzero(law) + 7.5)
    np.testing.assert_allclose(prob[ptr[4] : ptr[5]], law[law > 0])
    np.testing.assert_allclose(np.add.reduceat(prob, ptr[:-1]), 1.0)


# Learning


@pytest.mark.parametrize("make", ["icvar-rm", "icvar-linear"])
def test_optimism(make):
    """The objective never falls below the nested optimum (with the bonus of the paper, or one tenth of it)."""
    for seed in range(2):
        env = small(seed, H=3)
        best = iterated_cvar(env.truth, 0.3)[1][0][env.start]
        learner = make_learner(make, tau=0.3, alpha_scale=1.0 if make == "icvar-rm" else 0.1)
        objectives = [row["objective"] for _, row in train(learner, env, iterations=120, seed=seed)]
        assert objectives[0] == pytest.approx(env.horizon)  # all is possible
        assert min(objectives) >= best


def regrets(learner, env, n, seed):
    """Nested optimum less the nested value of every plan."""
    best = iterated_cvar(env.truth, learner.tau)[1][0][env.start]
    known: dict[bytes, float] = {}
    found = []
    for state, _ in train(learner, env, iterations=n, seed=seed):
        key = b"".join(table[:, 0].tobytes() for table in state.plan.actions)
        if key not in known:
            known[key] = best - nested_value_of(env, state.plan, learner.tau)
        found.append(known[key])
    return np.array(found), best


@pytest.mark.parametrize("make", [lambda tau: icvar_rm(tau, 0.02), lambda tau: icvar_linear(tau, 0.003)])
def test_regret_in_the_nested_criterion_falls(make):
    env = make_episodic("risky-shortcut", horizon=5)
    found, best = regrets(make(0.25), env, 400, seed=2)
    assert found.min() >= -1e-12
    assert found[-100:].mean() <= 0.1 * found[:40].mean()
    assert found[-100:].mean() <= 0.03 * best


# Nested is not static


FERRY = [  # step, s, a, s', p, r: harbour 0, calm 1, storm 2
    (0, 0, 0, 1, 0.9, 0.0),
    (0, 0, 0, 2, 0.1, 0.0),
    (0, 0, 1, 1, 1.0, -5.0),
    (0, 1, 0, 1, 1.0, 0.0),
    (0, 2, 0, 2, 1.0, 0.0),
    (1, 0, 0, 0, 1.0, 0.0),
    (1, 1, 0, 1, 1.0, 10.0),
    (1, 2, 0, 2, 0.9, 10.0),
    (1, 2, 0, 2, 0.1, 0.0),
]


def crossing():
    step, *rest = zip(*FERRY, strict=True)
    return FiniteMDP.from_rows(*rest, step=step, n_states=3, n_actions=2, start=0)


def test_the_crossing_in_closed_form():
    """The bridge fails in one of 100 crossings; a worst tenth of a worst tenth sees nothing else."""
    static = tailrank.solve(crossing(), tau=0.1)
    nested = tailrank.solve(crossing(), tau=0.1, criterion="iterated")
    assert static.cvar == pytest.approx((0.01 * 0 + 0.09 * 10) / 0.1)
    assert (nested.claim, nested.cvar) == pytest.approx((5.0, 5.0))
    assert tailrank.solve(crossing(), tau=0.01, criterion="cvar").cvar == pytest.approx(5.0)


def test_learners_go_the_way_of_their_criterion():
    env = from_mdp(crossing())
    nested, static = icvar_rm(0.1, 0.02), cvar_ucbvi(0.1, 0.02)
    *_, (state, row) = train(nested, env, iterations=400, seed=0)
    assert state.plan.actions[0][env.start, 0] == 1
    assert row["cvar"] == pytest.approx(5.0)
    *_, (_, row) = train(static, env, iterations=400, seed=0)
    assert row["cvar"] == pytest.approx(9.0)


def test_share_pools_the_steps():
    """In an MDP that is the same at every step pooled counts know more after the same episodes."""
    env = make_episodic("risky-shortcut", horizon=5)
    alone, pooled = (
        [row["objective"] for _, row in train(icvar_rm(0.25, 0.05, share=share), env, iterations=60, seed=0)]
        for share in (False, True)
    )
    assert pooled[-1] < alone[-1]
    assert pooled[-1] >= iterated_cvar(env.truth, 0.25)[1][0][env.start]


def test_points_must_be_positive_and_greedy_plans_exist():
    with pytest.raises(InputError, match="points = 0: must be a whole number of at least 1"):
        make_learner("icvar-linear", points=0)
    env = make_episodic("risky-shortcut", horizon=5)
    for learner in (icvar_rm(0.25, 0.02), icvar_linear(0.25, 0.003)):
        *_, (state, _) = train(learner, env, iterations=300, seed=0)
        plan = learner.greedy(state, env, Streams(0))
        best = iterated_cvar(env.truth, 0.25)[1][0][env.start]
        assert nested_value_of(env, plan, 0.25) >= 0.95 * best
