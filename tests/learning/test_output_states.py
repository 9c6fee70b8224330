"""Which plan is handed out where states are counted: what fresh episodes show is learned, too."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank import ELA, learn, make_episodic, solve
from tailrank.episodes.rollout import walk
from tailrank.episodes.streams import Streams
from tailrank.learning.judge import ExactJudge
from tailrank.learning.output import ROUNDS, OutputRule
from tailrank.learning.playing import PlayedPlan
from tailrank.learning.registry import make_learner


def learned(tau, seed, iterations):
    env, learner, streams = make_episodic("risky-shortcut"), ELA(tau), Streams(seed)
    state = learner.init(env, streams)
    for _ in range(iterations):
        state, _ = learner.step(state, env, streams)
    return env, learner, state, streams


@pytest.mark.parametrize("tau", [0.05, 0.1])
def test_a_crash_that_was_missed_is_found_by_playing_the_plan(tau):
    """After 100 episodes the model believes in a shortcut that crashes one time in twenty."""
    env, learner, state, streams = learned(tau, 2, 20)
    judge = ExactJudge.of(learner, env)
    assert judge.cvar(learner.greedy(state, env, streams)) < 0.8 * judge.star
    chosen = OutputRule().choose(learner, env, state, {}, streams)
    assert judge.cvar(chosen.policy) == pytest.approx(judge.star)
    assert "greedy after" in chosen.returned
    again = OutputRule().choose(learner, env, state, {}, streams)
    assert again.policy.same(chosen.policy)


def test_what_learn_returns_has_been_played():
    env = make_episodic("risky-shortcut")
    found = learn(env, tau=0.1, episodes=100, seed=2)
    assert found.episodes == 100
    assert found.evaluate().cvar == pytest.approx(solve(env.truth, tau=0.1).cvar)


def test_taught_counts_every_transition_and_changes_nothing_else():
    env, learner, state, streams = learned(0.1, 0, 3)
    before = [c.sum() for c in state.seen.counts]
    moves = list(walk(PlayedPlan.of(state.plan, env, state.group), env, 50, np.random.default_rng(0)))
    after = learner.taught(state, moves, env, streams)
    assert [c.sum() - n for c, n in zip(after.seen.counts, before, strict=True)] == [50] * 4
    assert [c.sum() for c in state.seen.counts] == before
    assert (after.k, after.episodes, after.plan) == (state.k, state.episodes, state.plan)


def test_plans_are_played_until_the_model_has_no_other(monkeypatch):
    env, learner, state, streams = learned(0.1, 2, 20)
    rule, asked = OutputRule(episodes=50), []
    monkeypatch.setattr(ELA, "greedy", lambda self, *rest: asked.append(0) or state.plan)
    rule.choose(learner, env, state, {}, streams)
    assert len(asked) == 2  # the plan, and the same again after it was played
    plans = iter(range(100))

    def other(self, *rest):
        asked.append(0)
        return type(state.plan)(state.plan.actions, next(plans) % 7, 0.0, state.plan.curve)

    monkeypatch.setattr(ELA, "greedy", other)
    asked.clear()
    assert f"over all {ROUNDS} candidates" in rule.choose(learner, env, state, {}, streams).returned
    assert len(asked) == ROUNDS + 1


def test_a_rival_that_learns_nothing_from_them_plays_its_plan_once():
    env, learner, streams = make_episodic("risky-shortcut"), make_learner("cvar-q", tau=0.1), Streams(0)
    state, _ = learner.step(learner.init(env, streams), env, streams)
    assert "over all 1 candidates" in OutputRule(episodes=20).choose(learner, env, state, {}, streams).returned
