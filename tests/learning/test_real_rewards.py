"""Continuous rewards: what is reported is about the rewards that are paid, not about their rounded versions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate

from tailrank import ELA, InputError, cvar, learn, make_episodic
from tailrank.envs.built_in.continuous_rewards import KINDS, moments, quantile
from tailrank.learning.aim import Aim
from tailrank.learning.judge import ExactJudge
from tailrank.learning.output import play_plan
from tailrank.planning.latent.planner import law_of_plan, plan_latent
from tailrank.runs.config import RunConfig
from tailrank.runs.run import run

each = pytest.mark.parametrize("kind", KINDS)


def best_plan(env, tau):
    none = [np.zeros(law.shape) for law in env.reward_of]
    return plan_latent(env.model, env.rewards, env.reward_of, none, tau, env.start)


@each
def test_partial_moments_are_integrals_of_the_quantile(kind):
    a, b = {"beta": (0.7, 2.5), "uniform": (0.2, 0.85), "normal": (0.4, 0.3)}[kind]
    x = np.array([0.1, 0.33, 0.6, 1.0])
    found = moments(kind, a, b, x)
    np.testing.assert_allclose(quantile(kind, a, b, found[0]), np.clip(x, *((a, b) if kind == "uniform" else (0, 1))))
    for i, level in enumerate(found[0]):
        for power in (1, 2):
            area, _ = integrate.quad(lambda u, p=power: quantile(kind, a, b, u) ** p, 0.0, level, limit=200)
            assert found[power, i] == pytest.approx(area, abs=1e-7)


@each
def test_atoms_have_the_moments_of_their_cells(kind):
    laws = make_episodic("random-lowrank", reward=kind, seed=5).real.laws
    values, probs = laws.atoms(Fraction(1, 8))
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-12)
    assert (np.ceil(8 * values - 1e-9) == np.tile(np.arange(1, 9), 2)).all()
    for i in range(laws.first.size):
        parts = np.diff(moments(kind, laws.first[i], laws.second[i], np.arange(9) / 8), axis=1)
        for power in range(3):
            got = (probs[i] * values[i] ** power).reshape(2, 8).sum(axis=0)
            np.testing.assert_allclose(got, parts[power], atol=1e-7)


@each
@pytest.mark.parametrize("tau", [0.05, 0.3, 1.0])
def test_one_step_against_the_closed_form(kind, tau):
    env = make_episodic("random-lowrank", horizon=1, n_actions=5, reward=kind, upsilon=0.1, seed=7)
    laws, mine = env.real.laws, env.reward_of[0][env.start]
    real = [
        integrate.quad(lambda u, i=i: quantile(kind, laws.first[i], laws.second[i], u), 0.0, tau, limit=200)[0] / tau
        for i in mine
    ]
    judge = ExactJudge.of(ELA(tau), env)
    assert judge.star_low - 1e-6 <= max(real) <= judge.star + 1e-6
    assert judge.star - judge.star_low == pytest.approx(0.002)
    plan = best_plan(env, tau)
    verdict = judge.verdict(plan, 1)
    earned = real[int(plan.act(0, np.array([env.start]), np.array([plan.budget]))[0])]
    assert verdict["cvar"] - 1e-6 <= earned <= verdict["cvar_upper"] + 1e-6
    assert verdict["cvar"] == judge.cvar(plan)


@each
def test_bounds_hold_what_is_played_and_rounded_values_do_not(kind):
    env = make_episodic("random-lowrank", reward=kind, seed=3)
    judge, plan = ExactJudge.of(ELA(0.1), env), best_plan(env, 0.1)
    verdict = judge.verdict(plan, 1)
    played = cvar(play_plan(env, plan, env.group, 60_000, np.random.default_rng(1)), 0.1)
    assert verdict["cvar"] - 0.01 <= played <= verdict["cvar_upper"] + 0.01
    assert verdict["cvar_upper"] - verdict["cvar"] < 0.08
    assert verdict["cvar"] <= judge.star
    rounded = law_of_plan(env.model, env.rewards, env.reward_of, plan, env.start).cvar(0.1)
    assert rounded > verdict["cvar_upper"] + 0.1  # what used to be printed


def test_what_learn_returns_is_evaluated_by_playing():
    learned = learn("random-lowrank", tau=0.3, episodes=20, horizon=3, n_states=6, reward="beta")
    assert learned.known_law is None
    found = learned.evaluate(episodes=2000)
    assert found.lower < found.upper


def test_other_objectives_are_not_judged_by_rounded_rewards():
    learner = ELA(tau=0.2, goal=Aim(objective="mean-cvar", weight=0.5))
    with pytest.raises(InputError, match="rewards off a grid, where only the CVaR is judged"):
        ExactJudge.of(learner, make_episodic("random-lowrank", reward="beta", seed=5))


def test_a_run_that_cannot_be_judged_leaves_no_folder(tmp_path):
    config = RunConfig.of("random-lowrank", settings={"reward": "beta"}, objective="mean-cvar", iterations=2)
    with pytest.raises(InputError, match="rewards off a grid"):
        run(config, tmp_path / "r")
    assert not (tmp_path / "r").exists()
