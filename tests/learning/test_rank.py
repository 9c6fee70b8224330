"""The rank that transitions need: never above the true one, found where it shows, and said when it is far above."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tailrank.envs.built_in.rich_lock import rich_lock
from tailrank.episodes.replay import Replay
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.decoding.rank import numerical_rank
from tailrank.learning.observed.doubts import FAR, doubts, ranks
from tailrank.learning.observed.ela import ObservedELA
from tailrank.policies.tables import UniformPolicy


def episodes(rank, seed, S=30, A=3, H=5, n=3000):
    """Random play in a random MDP of that rank: labels [n, H] and the episodes, which show a number of noise beside."""
    rng = np.random.default_rng([seed, rank])
    phi = rng.dirichlet(np.full(rank, 0.2), size=(S, A))
    psi = rng.dirichlet(np.full(S, 0.2), size=rank)
    law = np.cumsum(phi @ psi, axis=-1)
    states, actions = np.zeros((n, H), dtype=int), rng.integers(0, A, size=(n, H))
    states[:, 0] = rng.integers(0, S, size=n)
    for h in range(H - 1):
        now = law[states[:, h], actions[:, h]]
        states[:, h + 1] = np.minimum((now < rng.random(n)[:, None]).sum(axis=1), S - 1)
    replay = Replay(H, 2)
    features = np.stack([states, rng.normal(size=states.shape)], axis=-1)
    replay.add(features, actions, np.zeros((n, H), dtype=int), np.full(n, H))
    return states, replay


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rank", [1, 2, 4, 8])
def test_a_table_of_known_rank(rank, seed):
    labels, replay = episodes(rank, seed)
    found = numerical_rank(replay, 3, shared=True, rng=np.random.default_rng(0), labels=labels)
    assert max(1, rank - 1) <= found <= rank + (rank == 1), "at rank 1 the edge is crossed once in a while"


def test_more_data_shows_more():
    found = []
    for n in (100, 1000, 10_000):
        labels, replay = episodes(20, 0, n=n)
        found.append(numerical_rank(replay, 3, shared=True, rng=np.random.default_rng(0), labels=labels))
    assert found[0] < found[1] < found[2] <= 20


@pytest.mark.parametrize("seed", range(3))
def test_steps_and_short_episodes(seed):
    labels, replay = episodes(3, seed)
    short = Replay(5, 2)
    lengths = np.random.default_rng(seed).integers(1, 6, size=replay.n)
    short.add(replay.features, replay.actions, replay.units, lengths)
    found = numerical_rank(short, 3, shared=False, rng=np.random.default_rng(0), labels=labels)
    assert 2 <= found <= 4
    one = Replay(1, 2)
    one.add(replay.features[:, :1], replay.actions[:, :1], replay.units[:, :1], np.ones(replay.n))
    assert numerical_rank(one, 3, shared=True, rng=np.random.default_rng(0)) == 1


@pytest.mark.parametrize("seed", range(3))
def test_features_of_the_lock(seed):
    """Two good latents and the bad one: rank 3, seen through 512 noisy numbers or few."""
    lock = rich_lock(horizon=4, n_actions=3, seed=seed)
    played = play_simulator(
        UniformPolicy(3, 4, np.random.default_rng(seed)), lock, np.arange(0, 1200, 2), keep_features=True
    )
    replay = Replay(4, lock.n_features)
    replay.add(played.features[:, :-1], played.actions, np.zeros_like(played.actions), played.lengths)
    assert 2 <= numerical_rank(replay, 3, shared=False, rng=np.random.default_rng(0)) <= 4


def test_many_directions_are_seen_in_features():
    """x' = x of the same place plus noise, in ten independent numbers: no three latents explain that."""
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.normal(size=(500, 4, 10)), axis=1)
    replay = Replay(4, 10)
    replay.add(x, rng.integers(0, 2, size=(500, 4)), np.zeros((500, 4), dtype=int), np.full(500, 4))
    assert numerical_rank(replay, 2, shared=False, rng=rng) == 11
    assert numerical_rank(replay, 2, shared=True, rng=rng) == 11


class Walk:
    """Ten numbers that walk independently; the first action pays."""

    name, horizon, n_actions, n_features, width, reward_range = "walk", 4, 2, 10, 64, (0.0, 1.0)

    def reset(self, seeds):
        self._rngs = [np.random.default_rng(int(seed)) for seed in seeds]
        self._x = np.array([rng.normal(size=10) for rng in self._rngs])
        self._h = 0
        return self._x.copy()

    def step(self, actions):
        self._x += np.array([rng.normal(size=10) for rng in self._rngs])
        self._h += 1
        return (actions == 0) * 1.0, self._x.copy(), np.full(len(actions), self._h == 4)


def test_the_program_says_so():
    walk, learner, streams = Walk(), ObservedELA(0.2, Discriminative(rank=3), pilot=150, longest_pilot=150), Streams(0)
    state = learner.init(walk, streams)
    needed, rank = ranks(learner, state, 2, np.random.default_rng(0))
    assert rank == 3
    assert 7 <= needed <= 11
    promise = learner.promise(state, walk)
    found = doubts(learner, state, walk, (promise, promise), np.random.default_rng(0))
    assert found[0].startswith("misspecified: ")
    assert "of what the model leaves open of the next observation can be told" in found[0]
    assert found[1:] == [
        f"misspecified: the transitions that were seen have a numerical rank of at least {needed}, the model's is 3"
    ]
    far = doubts(learner, state, walk, (promise - 9, promise - 8), np.random.default_rng(0))
    assert far[0].startswith("overpromised: the model promises a CVaR of 4 (give or take 0), fresh episodes give -5 to")
    assert far[1:] == found


def test_a_lock_is_not_doubted():
    lock, learner, streams = rich_lock(horizon=3, n_actions=2, seed=0), ObservedELA(1.0), Streams(0)
    state = learner.init(lock, streams)
    while state.episodes < 60:
        state, _ = learner.step(state, lock, streams)
    promise = learner.promise(state, lock)
    assert doubts(learner, state, lock, (promise, promise), np.random.default_rng(0)) == []
    # Below the promise, but above what the data make certain, and below both.
    sure = learner.cautious_promise(state, lock)
    error = 2 * learner.promise_error(state, lock, np.random.default_rng(0))
    assert sure < promise - 2 * error
    for fresh, word in (
        (promise - 1.5 * error, "too little data: the model"),
        (sure - 2 * error, "overpromised: the model"),
    ):
        (said,) = doubts(learner, state, lock, (fresh, fresh), np.random.default_rng(0))
        assert said.startswith(f"{word} promises a CVaR of {promise:.4g} (give or take ")


def test_icu_sepsis_has_no_low_rank():
    """Random play of admissible treatments, drawn from the simulator's own tables."""
    package = find_spec("icu_sepsis")
    if package is None or package.origin is None:
        pytest.skip("icu_sepsis is not installed")
    with np.load(Path(package.origin).parent / "envs" / "assets" / "dynamics.npz") as data:
        law, start = data["tx_mat"], np.cumsum(data["d_0"])
    rng, n, H = np.random.default_rng(0), 8000, 8
    states, actions, lengths = np.zeros((n, H), dtype=int), rng.integers(0, 25, size=(n, H)), np.full(n, H)
    states[:, 0] = np.searchsorted(start, rng.random(n) * start[-1])
    for h in range(H - 1):
        now = np.cumsum(law[states[:, h], actions[:, h]], axis=1)
        states[:, h + 1] = (now < rng.random(n)[:, None] * now[:, -1:]).sum(axis=1)
        lengths = np.where((lengths == H) & (states[:, h + 1] >= 713), h + 1, lengths)
    replay = Replay(H, 1)
    replay.add(states[:, :, None], actions, np.zeros((n, H), dtype=int), lengths)
    learner = ObservedELA(1.0, Discriminative(rank=16, model="table", shared=True))
    needed = numerical_rank(replay, 25, shared=True, rng=rng, labels=states)
    assert needed > FAR * learner.oracle.largest_rank
