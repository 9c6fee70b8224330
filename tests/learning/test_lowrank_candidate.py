"""The low-rank model beside the other candidates of `auto`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_simulators import Simulated

from tailrank.checks import InputError
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.gradient.candidate import GradientCandidate
from tailrank.learning.lowrank import candidate as module
from tailrank.learning.lowrank.candidate import FittedLowRank, LowRankCandidate, replay_of
from tailrank.learning.search.candidate import SearchCandidate
from tailrank.learning.shortfall.candidate import ShortfallCandidate
from tailrank.learning.simulators.candidates import FitData
from tailrank.learning.simulators.kernel import KernelCandidate
from tailrank.learning.simulators.learners import AutoLearner
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.tables import UniformPolicy
from tailrank.runs.policy_files import storage


class Doors(Simulated):
    """Two numbers say which of two doors pays; what is behind the right one is shown next; it may end early."""

    horizon, n_actions, n_features = 3, 2, 2

    def _begin(self, rng):
        return rng.integers(2)

    def _see(self, h, latent, rng):
        return rng.normal(size=2) * 0.3 + 2.0 * latent

    def _move(self, h, latent, action, rng):
        return float(action == latent), rng.integers(2), bool(rng.random() < 0.1)


def uniform_episodes(env, n, seed=1):
    seeds = np.arange(2 * seed, 2 * (seed + n), 2)
    played = play_simulator(
        UniformPolicy(env.n_actions, env.horizon, np.random.default_rng(seed)), env, seeds, keep_features=True
    )
    return PlayedEpisodes.none(env.horizon, env.n_features).with_played(played), played


def small_auto(**more):
    parts = {"kernel": KernelCandidate(representatives=30, budgets=16), "search": SearchCandidate(rounds=2)}
    parts |= {"network": ShortfallCandidate(hidden=(8,), budgets=12, effort=10.0)}
    parts |= {"gradient": GradientCandidate(hidden=(8,), steps=40)}
    return AutoLearner(0.3, **parts, **({"total": 260, "pilot": 60, "choice": 0.2} | more))


@pytest.mark.parametrize(
    ("horizon", "features", "actions", "takes_part"),
    [(2, 64, 16, True), (10, 3, 2, True), (1, 3, 2, False), (11, 3, 2, False), (5, 65, 2, False), (5, 3, 17, False)],
)
def test_where_it_takes_part(horizon, features, actions, takes_part):
    assert LowRankCandidate().suits(horizon, features, actions) == takes_part
    assert LowRankCandidate(horizon).suits(horizon, features, actions) == (
        horizon >= 2 and features <= 64 and actions <= 16
    )
    assert not LowRankCandidate(0).suits(horizon, features, actions)


def test_episodes_are_those_that_were_played(monkeypatch):
    """Against the rollout's own arrays, whole and cut to the last episodes."""
    kept, played = uniform_episodes(Doors(), 60)
    assert played.lengths.min() < 3
    replay = replay_of(kept)
    for row, n in enumerate(played.lengths):
        np.testing.assert_array_equal(replay.features[row, :n], played.features[row, :n].astype(np.float32))
        np.testing.assert_array_equal(replay.actions[row, :n], played.actions[row, :n])
        np.testing.assert_array_equal(replay.rewards[row], played.rewards[row])
    monkeypatch.setattr(module, "MOST_STEPS", 50)
    last = replay_of(kept)
    assert 50 <= last.lengths.sum() < 53
    np.testing.assert_array_equal(last.features, replay.features[-last.n :])
    both = replay_of(kept, last)
    assert both.n == 2 * last.n
    np.testing.assert_array_equal(both.rewards, np.tile(last.rewards, (2, 1)))


def test_it_plans_what_pays():
    """Behind the door that the numbers say there is 1 at every step: nothing is in the tail but what ends early."""
    env = Doors()
    kept, _ = uniform_episodes(env, 300)
    fit = LowRankCandidate().fit(FitData(kept, 2, 0.5), np.random.default_rng(0))
    (output,) = fit.outputs()
    found = play_simulator(output.policy, env, np.arange(1, 2001, 2))
    assert (found.returns == found.lengths).mean() > 0.97
    assert output.promise == fit.promise


def test_too_little_is_no_model():
    env = Doors()
    kept, _ = uniform_episodes(env, 30)
    fit = LowRankCandidate().fit(FitData(kept, 2, 0.5), np.random.default_rng(0))
    assert (fit.outputs(), fit.portion, fit.about()) == ([], 0, "no low-rank model yet")
    assert np.isnan(fit.promise)
    assert fit.practised(kept, np.random.default_rng(0)) is fit
    explorer = fit.explorer(np.random.default_rng(0))
    assert set(explorer.act(0, np.zeros((50, 2)), explorer.start(50))) == {0, 1}
    again = LowRankCandidate().restored(fit.to_arrays(), FitData(kept, 2, 0.5), np.random.default_rng(1))
    assert again.outputs() == []


def test_auto_learns_and_resumes_with_it(tmp_path):
    env, streams, one = Doors(), Streams(1), small_auto()
    assert len(one.candidates(env)) == 5
    state = again = one.init(env, streams)
    trial = ""
    while not one.over(state, env.horizon):
        state, info = one.step(state, env, streams)
        trial = trial or (info.about if info.about.startswith("trial") else "")
        again = one.restored(again.to_arrays(), env, streams) if again.k else again
        again, _ = one.step(again, env, streams)
    assert state.episodes == one.total
    assert "low-rank model" in trial
    for name, array in state.to_arrays().items():
        np.testing.assert_array_equal(again.to_arrays()[name], array, err_msg=name)
    for i, fit in enumerate(state.fitted):
        for output in fit.outputs():
            path = tmp_path / f"{i}.policy"
            storage.save(output.policy, path)
            seeds = streams.evaluation_seeds(0, 50)
            mine, loaded = (play_simulator(p, env, seeds).returns for p in (output.policy, storage.load(path).policy))
            np.testing.assert_array_equal(mine, loaded)


def test_damaged_models_are_refused():
    kept, _ = uniform_episodes(Doors(), 60)
    data = FitData(kept, 2, 0.5)
    arrays = LowRankCandidate().fit(data, np.random.default_rng(0)).to_arrays()
    assert LowRankCandidate().restored(arrays, data, np.random.default_rng(0)).outputs()
    for name, value in (("setting", np.full(5, 99.0)), ("laws", arrays["laws"] + 1), ("network.heads", np.zeros(3))):
        with pytest.raises(InputError):
            LowRankCandidate().restored(arrays | {name: value}, data, np.random.default_rng(0))


def test_who_has_nothing_to_hand_out_is_given_up():
    """A model that needs more episodes than there are is the first to go, whatever the others earn."""
    env, streams, one = Doors(), Streams(1), small_auto()
    state = one.init(env, streams)
    while len(state.fitted) != 4:
        fitted = tuple(replace(fit, fit=None) if isinstance(fit, FittedLowRank) else fit for fit in state.fitted)
        state, _ = one.step(replace(state, fitted=fitted), env, streams)
    assert state.going == (0, 2, 3, 4)
