"""Learning where a simulator says which actions are allowed."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank.episodes.masks import ever_allowed, packed
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.registry import make_learner
from tailrank.learning.simulators.learners import AutoLearner, KernelLearner
from tailrank.policies.tables import UniformPolicy
from tailrank.runs.policy_files import storage


class Corridor:
    """Four steps in a place x of 0..4 (noise: seen with noise). Action a of 4 pays a / 10 and moves to a random place;
    it is allowed unless a = x mod 4 or a = x + 1 mod 4. One that is not allowed seems best: it pays 10."""

    name, horizon, n_actions, n_features, width = "corridor", 4, 4, 1, 8

    def __init__(self, masks=True, noise=0.0):
        self.masks, self.noise, self.wrong = masks, noise, 0

    def reset(self, seeds):
        self.rngs, self.h = [np.random.default_rng(seed) for seed in seeds], 0
        self.x = np.array([rng.integers(5) for rng in self.rngs])
        return self._seen()

    @property
    def allowed(self):
        return rule(self.x) if self.masks else None

    def step(self, actions):
        fine = rule(self.x)[np.arange(len(actions)), actions]
        self.wrong += int((~fine).sum())
        self.x, self.h = np.array([rng.integers(5) for rng in self.rngs]), self.h + 1
        return np.where(fine, actions / 10, 10.0), self._seen(), np.full(len(actions), self.h == self.horizon)

    def _seen(self):
        shown = self.x + self.noise * np.array([rng.normal() for rng in self.rngs])
        return shown[:, None].astype(float)


def rule(x):
    """[n, A]."""
    return ~((np.arange(4) == x[:, None] % 4) | (np.arange(4) == (x[:, None] + 1) % 4))


def run(learner, env, seed=0, again=False):
    streams = Streams(seed)
    state = learner.init(env, streams)
    while not learner.over(state, env.horizon):
        state = learner.restored(state.to_arrays(), env, streams) if again and state.k else state
        state, _ = learner.step(state, env, streams)
    return state


def test_a_saved_policy_needs_no_info_where_observations_are_counted(tmp_path):
    learner, env = KernelLearner(0.5, total=300), Corridor()
    state = run(learner, env)
    assert env.wrong == 0
    storage.save(learner.policy(state, env, Streams(0)), tmp_path / "plan.policy")
    policy = storage.load(tmp_path / "plan.policy").policy
    alone = Corridor(masks=False)
    returns = play_simulator(policy, alone, np.arange(1, 2001, 2)).returns
    assert alone.wrong == 0
    best = rule(np.arange(5)) * np.arange(4)
    assert returns.mean() == pytest.approx(4 * best.max(axis=1).mean() / 10, abs=0.02)


def test_a_masked_action_would_be_taken_if_masks_were_ignored():
    env = Corridor(masks=False)
    run(KernelLearner(0.5, total=300), env)
    assert env.wrong > 300


def test_the_kernel_model_takes_no_action_that_was_never_allowed_near():
    fitted = run(KernelLearner(0.5, total=300), Corridor(noise=0.02)).fitted[0]
    assert not fitted.model.counted
    alone = Corridor(masks=False, noise=0.02)
    play_simulator(fitted.outputs()[0].policy, alone, np.arange(1, 2001, 2))
    assert alone.wrong < 0.01 * 4000  # an observation beside all others may be taken for another place


def test_the_search_plays_what_is_allowed():
    env = Corridor(noise=0.3)
    state = run(AutoLearner(0.5, total=200), env)
    assert len(state.fitted) == 4  # the worst was given up
    assert env.wrong == 0


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_resumed_run_is_the_same_run(noise):
    whole, parts = (run(KernelLearner(0.5, total=200), Corridor(noise=noise), again=again) for again in (False, True))
    assert whole.played.allowed is not None
    for name, array in whole.to_arrays().items():
        np.testing.assert_array_equal(parts.to_arrays()[name], array, err_msg=name)


def test_masks_that_come_late_or_not_in_every_batch():
    env, learner = Corridor(), make_learner("kernel", "simulator", tau=0.5)
    policy = UniformPolicy(4, 4, np.random.default_rng(0))
    none = learner.init(env, Streams(0)).played
    some = play_simulator(policy, env, np.arange(0, 20, 2), keep_features=True)
    said_nothing = play_simulator(policy, Corridor(masks=False), np.arange(20, 30, 2), keep_features=True)
    played = none.with_played(said_nothing).with_played(some).with_played(said_nothing)
    found = np.unpackbits(played.allowed, axis=1, count=4)
    assert found[:20].all()
    assert found[60:].all()
    np.testing.assert_array_equal(found[20:60], some.allowed[:, :4].reshape(40, 4))
    np.testing.assert_array_equal(played.head(10).allowed, played.allowed[:40])


def test_what_was_ever_allowed():
    masks = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=bool)
    found = ever_allowed(packed(masks), np.array([0, 0, 2]), 3, 3)
    np.testing.assert_array_equal(found, [[True, True, False], [True, True, True], [False, False, True]])
