"""Which plan is handed out, and the batches that grow."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank import InputError, cvar, play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.observed import ela
from tailrank.learning.observed.ela import OUTPUTS, ObservedELA
from tailrank.policies.moved import Moved
from tailrank.policies.tables import UniformPolicy


class Lures:
    """One step. Action 0 pays 8 for sure; the twenty others pay 10 with probability .7, else 0."""

    name, horizon, n_actions, n_features, width, reward_range = "lures", 1, 21, 1, 100, (0.0, 10.0)

    def reset(self, seeds):
        self._chance = np.array([np.random.default_rng(int(seed)).random() for seed in seeds])
        return np.zeros((len(seeds), 1))

    def step(self, actions):
        pays = np.where(actions == 0, 8.0, np.where(self._chance < 0.7, 10.0, 0.0))
        return pays, np.zeros((len(actions), 1)), np.ones(len(actions), dtype=bool)


def learner(**settings):
    oracle = Discriminative(rank=1, model="table", shared=True)
    return ObservedELA(0.2, oracle, bonus="visits", **({"pilot": 60, "longest_pilot": 60} | settings))


def test_fresh_episodes_see_through_luck():
    """After 60 tries of 21 actions some lure was never seen to fail: the plain plan takes it. Caution does not."""
    lures, streams = Lures(), Streams(3)
    state = learner().init(lures, streams)
    state.counts.counts[: np.searchsorted(state.counts.codes, state.counts._outcomes)] *= 30  # action 0: tried often
    plain = learner().output(state, lures, streams, 0)
    assert (plain.prior, plain.caution, plain.scores, plain.episodes) == (0.0, 0.0, (), 0)
    chosen = learner().output(state, lures, streams, 100)
    assert chosen.episodes == 100 * len(OUTPUTS)
    seeds = streams.evaluation_seeds(0, 500)
    assert cvar(play_simulator(plain.policy, lures, seeds).returns, 0.2) == 0.0
    assert cvar(play_simulator(chosen.policy, lures, seeds).returns, 0.2) == 8.0
    assert max(chosen.scores) == chosen.scores[OUTPUTS.index((chosen.prior, chosen.caution))] == 8.0


def test_candidates_are_judged_on_the_same_training_seeds(monkeypatch):

    lures, streams = Lures(), Streams(0)
    state, told = learner().init(lures, streams), []
    monkeypatch.setattr(ela, "play_simulator", lambda *a: (told.append(a[2]), play_simulator(*a))[1])
    learner().output(state, lures, streams, 30)
    assert len(told) == len(OUTPUTS)
    assert all((seeds == told[0]).all() and (seeds % 2 == 0).all() for seeds in told)


def test_batches_grow_with_the_episodes():
    lures, streams, grows = Lures(), Streams(0), learner(batch=10, growth=0.5)
    state, sizes = grows.init(lures, streams), []
    for _ in range(4):
        before = state.episodes
        state, info = grows.step(state, lures, streams)
        sizes.append(state.episodes - before)
        assert info.returns.size == sizes[-1]
    assert sizes == [30, 45, 68, 102]
    with pytest.raises(InputError, match=r"growth = 1.5: must lie in \[0, 1\]"):
        learner(growth=1.5)


def test_uniform_actions():
    policy = UniformPolicy(3, 4, np.random.default_rng(0))
    memory = policy.start(3000)
    played = np.array([policy.act(h, np.zeros((3000, 1)), memory) for h in range(4)])
    assert policy.update(0, Moved(None, None, None, None), memory) is memory
    for h in range(4):
        np.testing.assert_allclose(np.bincount(played[h], minlength=3) / 3000, 1 / 3, atol=0.04)
    assert abs(np.corrcoef(played[0], played[1])[0, 1]) < 0.06


class Late(Lures):
    """A reward that only the second half of a pilot meets."""

    reward_range = None

    def reset(self, seeds):
        self.batches = getattr(self, "batches", 0) + 1
        return super().reset(seeds)

    def step(self, actions):
        rewards, seen, over = super().step(actions)
        late = 40.0 + np.arange(len(actions)) % 3
        return (late if self.batches > 1 else rewards), seen, over


def test_the_whole_pilot_sets_the_grid(monkeypatch):
    monkeypatch.setattr(ObservedELA, "blind", lambda self, state, streams: True)
    late = Late()
    state = learner(pilot=30, longest_pilot=60).init(late, Streams(0))
    assert state.episodes == 60
    assert "60 episodes" in state.grid.source
    assert state.grid.low + state.grid.top * state.grid.unit >= 42
    seen = np.concatenate([state.replay.units[:30, 0], state.replay.units[30:, 0]]) * state.grid.unit + state.grid.low
    assert seen[:30].max() == pytest.approx(10, abs=state.grid.unit / 2)
    assert seen[30:].min() >= 40 - state.grid.unit / 2
