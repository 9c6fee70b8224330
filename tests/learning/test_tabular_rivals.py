"""CVaR-UCBVI and Bastani's learner: optimism, regret, single states, and that counts are counts."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank.envs import from_mdp, make_episodic
from tailrank.envs.built_in.single_states import raw_truth
from tailrank.episodes.streams import Streams
from tailrank.learning.ela.bonus import none
from tailrank.learning.ela.ela import ELA
from tailrank.learning.judge import ExactJudge
from tailrank.learning.oracles.choices import ModelChoice, SingleStates
from tailrank.learning.registry import make_learner
from tailrank.learning.train import train
from tailrank.planning.exact.return_law import return_law
from tailrank.planning.latent.optimistic import plan_clipped


def cvar_ucbvi(tau, scale=1.0, bernstein=False, **more):
    return make_learner("cvar-ucbvi-bernstein" if bernstein else "cvar-ucbvi", tau=tau, alpha_scale=scale, **more)


def bastani(tau, scale=1.0, **more):
    return make_learner("bastani", tau=tau, alpha_scale=scale, **more)


TABULAR = {
    "hoeffding": lambda tau, **more: cvar_ucbvi(tau, **more),
    "bernstein": lambda tau, **more: cvar_ucbvi(tau, bernstein=True, **more),
    "bastani": bastani,
}


@pytest.mark.parametrize("name", TABULAR)
@pytest.mark.parametrize(("env", "tau"), [("random-lowrank", 0.1), ("random-lowrank", 1.0), ("risky-shortcut", 0.25)])
def test_with_the_constants_of_the_theory_every_plan_is_optimistic(name, env, tau):
    for seed in range(3):
        more = {"horizon": 3, "n_states": 5, "n_actions": 3, "seed": seed} if env == "random-lowrank" else {}
        world = make_episodic(env, **more)
        learner = TABULAR[name](tau)
        judge = ExactJudge.of(learner, world)
        for _, row in train(learner, world, iterations=60, seed=seed, judge=judge):
            assert row["objective"] >= judge.star - 1e-9


@pytest.mark.parametrize("name", TABULAR)
def test_regret_levels_off_with_a_small_bonus(name):
    env = make_episodic("risky-shortcut")
    learner = TABULAR[name](0.25, scale=0.02, growth=0.02)
    judge = ExactJudge.of(learner, env)
    gap = [judge.star - row["cvar"] for _, row in train(learner, env, iterations=200, seed=1, judge=judge)]
    assert np.mean(gap[-20:]) < 0.25 * np.mean(gap[:100])


@pytest.mark.parametrize("name", TABULAR)
def test_one_episode_is_played_and_counted_whole(name):
    env = make_episodic("risky-lock", horizon=5, n_actions=3, n_states=9)
    state, streams = TABULAR[name](0.2).init(env, Streams(0)), Streams(0)
    for k in range(1, 8):
        state, _ = TABULAR[name](0.2).step(state, env, streams)
        assert (state.episodes, state.steps) == (k, 4 * k)
        assert all(v.sum() == c.total == k for v, c in zip(state.seen.visits, state.seen.counts))


def test_growth_plays_a_share_of_what_was_played():
    env = make_episodic("risky-lock", n_states=9)
    learner, streams = cvar_ucbvi(0.2, growth=0.5), Streams(0)
    state, played = learner.init(env, Streams(0)), []
    for _ in range(7):
        state, _ = learner.step(state, env, streams)
        played.append(state.episodes)
    assert played == [1, 2, 3, 4, 6, 9, 13]


def test_rows_are_the_counts_of_tables():
    """The same data without bonus: the plan of rows is that of ELA's tables of single states."""
    env = make_episodic("risky-lock", horizon=4, n_actions=3, n_states=9, seed=2)
    parts = {"bonus": none, "collect": "uniform", "planner": plan_clipped}
    rows, tables = ELA(0.2, SingleStates(), **parts), ELA(0.2, ModelChoice("counts"), bonus=none, collect="uniform")
    states, streams = [rows.init(env, Streams(0)), tables.init(env, Streams(0))], Streams(3)
    for _ in range(30):
        (a, _), (b, _) = rows.step(states[0], env, streams), tables.step(states[1], env, streams)
        for sparse, dense in zip(a.seen.counts, b.seen.counts):
            filled = np.zeros(dense.shape).reshape(-1)
            filled[sparse.pair * dense.shape[2] + sparse.after] = sparse.count
            np.testing.assert_array_equal(filled.reshape(dense.shape), dense)
        assert a.plan.objective == pytest.approx(b.plan.objective, abs=1e-9)
        states = [a, b]


def test_plans_on_single_states_are_judged_exactly():
    env = make_episodic("risky-lock", horizon=4, n_actions=3, n_states=12, seed=4)
    learner = cvar_ucbvi(0.3, scale=0.01)
    judge, truth = ExactJudge.of(learner, env), raw_truth(env)
    assert judge.quick
    for state, row in train(learner, env, iterations=40, seed=0, judge=judge):
        law = return_law(state.plan.policy(env.rewards), truth)
        assert row["cvar"] == pytest.approx(law.cvar(0.3), abs=1e-10)
        assert judge.law(state.plan).mean == pytest.approx(law.mean, abs=1e-10)


def test_many_single_states_fit_into_memory():
    env = make_episodic("risky-lock", n_states=30_000)
    learner = cvar_ucbvi(0.1, scale=0.001, growth=0.5)
    judge = ExactJudge.of(learner, env)
    *_, (state, row) = train(learner, env, iterations=9, seed=0, judge=judge)
    assert row["cvar"] is not None
    assert sum(c.count.size for c in state.seen.counts) <= 4 * state.episodes


def test_a_random_start_is_one_more_step():
    """An MDP that is read, with rewards that are not the same at every pair."""
    env = from_mdp(make_episodic("risky-shortcut").truth)
    learner = bastani(0.25, scale=0.02)
    judge = ExactJudge.of(learner, env)
    rows = [row["cvar"] for _, row in train(learner, env, iterations=300, seed=0, judge=judge)]
    assert max(rows) == pytest.approx(judge.star)


@pytest.mark.parametrize("bernstein", [False, True])
def test_a_pair_never_tried_promises_the_most(bernstein):
    """However small the scale of the bonus: the first plans of a lock try every first action once."""
    env = make_episodic("risky-lock", horizon=4, n_actions=6, n_states=3)
    learner, streams = cvar_ucbvi(0.2, scale=1e-9, bernstein=bernstein), Streams(0)
    state = learner.init(env, Streams(0))
    for _ in range(6):
        state, _ = learner.step(state, env, streams)
    assert state.seen.visits[0][env.start].tolist() == [1.0] * 6
