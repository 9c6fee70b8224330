"""Rep-UCB on the augmented MDP: its planner, the lifted class, what is counted; and Rep-UCB as ELA at tau = 1."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank import InputError
from tailrank.envs import make_episodic
from tailrank.episodes.streams import Streams
from tailrank.learning.judge import ExactJudge
from tailrank.learning.oracles.choices import ModelChoice
from tailrank.learning.registry import make_learner
from tailrank.learning.rivals.states import rep_ucb_augmented as module
from tailrank.learning.rivals.states.rep_ucb_augmented import (
    AugmentedOracles,
    RepUCBAugmented,
    budget_moves,
    lifted,
    plan_augmented,
    with_budget,
)
from tailrank.learning.schedule import Schedule
from tailrank.learning.train import train
from tailrank.models.counts import SparseCounts
from tailrank.models.lowrank import EmpiricalStep, Model
from tailrank.models.problem import PlanningProblem
from tailrank.planning.latent.planner import plan_latent

CASES = [("risky-lock", {"horizon": 4, "n_actions": 3}), ("random-lowrank", {"horizon": 3, "n_states": 4, "d": 2})]


def true_kernel(env, h):
    """P((g', c') | (g, c), a) of the environment by its definition, [G, C, A, G', C]."""
    C, (G, A) = env.rewards.n_budgets, env.reward_of[h].shape
    kernel = np.zeros((G, C, A, G, C))
    for g in range(G):
        for a in range(A):
            for x, p in enumerate(env.rewards.laws[env.reward_of[h][g, a]]):
                for c in range(C):
                    kernel[g, c, a, :, max(c - x, 0)] += p * env.model.steps[h].kernel[g, a]
    return kernel


def problem_of(env, steps, tau):
    return PlanningProblem(
        Model(tuple(steps), env.group), env.rewards, env.reward_of, int(env.group[0][env.start]), tau, (), 1, 1, 0.0
    )


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_the_lifted_model_is_the_augmented_mdp(name, settings):
    env = make_episodic(name, seed=1, **settings)
    C = env.rewards.n_budgets
    for h, step in enumerate(env.model.steps):
        up = lifted(step, env.rewards, env.reward_of[h])
        up.check("lifted")
        assert up.psi.shape[0] == step.psi.shape[0] * C
        kernel = true_kernel(env, h)
        flat = kernel.reshape(-1, kernel.shape[2], kernel.shape[3] * C)
        np.testing.assert_allclose(up.kernel, flat, atol=1e-12)


def test_budgets_move_by_rewards_and_stop_at_zero():
    moves = budget_moves(np.array([0.2, 0.0, 0.5, 0.3]), 5)
    assert moves.tolist() == [
        [1.0, 0, 0, 0, 0],
        [0.8, 0.2, 0, 0, 0],
        [0.8, 0, 0.2, 0, 0],
        [0.3, 0.5, 0, 0.2, 0],
        [0, 0.3, 0.5, 0, 0.2],
    ]


@pytest.mark.parametrize(("name", "settings"), CASES)
@pytest.mark.parametrize("tau", [0.1, 0.5, 1.0])
def test_with_exact_counts_the_plan_is_that_of_the_latent_planner(name, settings, tau):
    env = make_episodic(name, seed=2, **settings)
    none = [np.zeros(law.shape) for law in env.reward_of]
    steps = []
    for h in range(env.horizon - 1):
        kernel = true_kernel(env, h)
        flat = kernel.reshape(-1, kernel.shape[2], kernel.shape[3] * kernel.shape[4])
        steps.append(EmpiricalStep.of(SparseCounts.from_dense(1e6 * flat)))
    up = [lifted(step, env.rewards, env.reward_of[h]) for h, step in enumerate(env.model.steps)]
    own = plan_latent(env.model, env.rewards, env.reward_of, none, tau, int(env.group[0][env.start]))
    judge = ExactJudge.of(RepUCBAugmented(tau, AugmentedOracles("class")), env)
    for kind in (steps, up):
        plan = plan_augmented(problem_of(env, kind, tau), none, np.random.default_rng(0))
        np.testing.assert_allclose(plan.curve, own.curve, atol=1e-9)
        assert plan.objective == pytest.approx(own.objective, abs=1e-9)
        assert judge.cvar(plan) == pytest.approx(judge.star, abs=1e-9)


def test_a_bonus_is_paid_for_every_budget():
    env = make_episodic("risky-lock", horizon=3, n_actions=2)
    C, top = env.rewards.n_budgets, env.rewards.top
    up = [lifted(step, env.rewards, env.reward_of[h]) for h, step in enumerate(env.model.steps)]
    bonus = [np.zeros((3 * C, 2)) for _ in range(3)]
    rng = np.random.default_rng(0)
    plain = plan_augmented(problem_of(env, up, 0.2), bonus, rng).curve
    c = 7
    bonus[0][c, :] = 0.25  # the start, group 0, with seven units left
    paid = plan_augmented(problem_of(env, up, 0.2), bonus, rng).curve
    np.testing.assert_allclose(plain - paid, np.where(np.arange(C) == c, 0.25 * top, 0.0), atol=1e-12)


@pytest.mark.parametrize("model", ["class", "counts"])
def test_what_is_counted_are_moves_that_rewards_allow(model):
    env = make_episodic("risky-lock", horizon=4, n_actions=2, n_states=6, seed=3)
    learner, streams = RepUCBAugmented(0.2, AugmentedOracles(model), Schedule(1e-7, 1e-10), batch=5), Streams(0)
    state, moved, could = learner.init(env, Streams(0)), 0.0, 0.0
    for _ in range(15):
        state, _ = learner.step(state, env, streams)
    C, law_of = env.rewards.n_budgets, env.reward_of
    for h, counts in enumerate(state.seen.counts):
        G = 3 if model == "class" else 6
        assert counts.shape == (G * C, 2, G * C)
        here, action = counts.pair // 2, counts.pair % 2
        group, left, after = here // C, here % C, counts.after % C
        group = group if model == "class" else env.group[h][group]
        for g, c, a, then in zip(group, left, action, after, strict=True):
            assert env.rewards.laws[law_of[h][g, a]] @ (np.maximum(c - np.arange(11), 0) == then) > 0
        paid = (env.rewards.laws[law_of[h][group, action]][:, 0] < 1.0) & (left > 0)  # with probability 1/2
        moved += counts.count[paid & (after < left)].sum()
        could += counts.count[paid].sum()
    assert could > 50
    assert abs(moved / could - 0.5) < 0.25
    assert state.seen.counts[0].total == 15 * 5 * 4  # every episode shows the first transition
    assert len({int(x) for x in state.seen.counts[0].pair // 2 % C}) > 1  # several starting budgets were played


def test_on_the_same_counts_the_lifted_class_fits_elas_model():
    env = make_episodic("random-lowrank", horizon=3, n_states=4, d=2, n_models=6, seed=1)
    C, rng = env.rewards.n_budgets, np.random.default_rng(0)
    plain, up = ModelChoice("class").make(env), AugmentedOracles("class").make(env)
    for h in range(2):
        g, a = rng.integers(4, size=300), rng.integers(env.n_actions, size=300)
        after = np.array([rng.choice(4, p=env.model.steps[h].kernel[i, j]) for i, j in zip(g, a, strict=True)])
        laws = env.rewards.laws[env.reward_of[h][g, a]]
        x = np.array([rng.choice(law.size, p=law) for law in laws])
        c = rng.integers(C, size=300)
        small = SparseCounts.of(g, a, after, (4, env.n_actions, 4))
        large = SparseCounts.of(
            with_budget(g, c, C), a, with_budget(after, np.maximum(c - x, 0), C), (4 * C, env.n_actions, 4 * C)
        )
        low, high = plain[h].scores(small), up[h].scores(large)
        np.testing.assert_allclose(low - low[0], high - high[0], atol=1e-8)


def test_it_learns_the_lock_with_the_lifted_class():
    env = make_episodic("risky-lock", horizon=3, n_actions=3, seed=1)
    learner = make_learner("rep-ucb-augmented", tau=0.1, alpha_scale=1e-5)
    *_, (_, row) = train(learner, env, iterations=25, seed=0)
    assert row["cvar"] == pytest.approx(0.8)


def test_errors(monkeypatch):
    with pytest.raises(InputError, match="model"):
        AugmentedOracles("em")
    with pytest.raises(InputError, match="has no finite class"):
        RepUCBAugmented(0.1, AugmentedOracles("class")).init(make_episodic("risky-shortcut"), Streams(0))
    monkeypatch.setattr(module, "MOST_NUMBERS", 1000)
    with pytest.raises(InputError, match="lifted to"):
        RepUCBAugmented(0.1, AugmentedOracles("class")).init(make_episodic("risky-lock"), Streams(0))


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_rep_ucb_is_ela_for_the_mean(name, settings):
    env = make_episodic(name, seed=5, **settings)
    rep, ela = (make_learner(name, tau=tau) for name, tau in (("rep-ucb", 0.1), ("ela", 1.0)))
    judge = ExactJudge.of(rep, env)
    for (state, row), (mine, other) in zip(
        train(rep, env, iterations=12, seed=3), train(ela, env, iterations=12, seed=3), strict=True
    ):
        assert {k: v for k, v in row.items() if k != "cvar"} == {k: v for k, v in other.items() if k != "cvar"}
        for key, value in state.to_arrays().items():
            np.testing.assert_array_equal(value, mine.to_arrays()[key], err_msg=key)
        assert row["cvar"] == judge.cvar(mine.plan)
        assert other["cvar"] == judge.law(mine.plan).cvar(1.0)
