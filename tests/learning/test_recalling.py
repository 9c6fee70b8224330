"""What came before as part of the observation: chosen where what follows depends on it, played and saved the same."""

from __future__ import annotations

import numpy as np
import pytest
from small_simulators import Choice, Simulated

from tailrank import load, save
from tailrank.checks import InputError
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.registry import make_learner
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.learning.simulators.recalling import needed_recall, recalled
from tailrank.policies.recall import Recall, RecallPolicy
from tailrank.policies.tables import UniformPolicy


class Late(Simulated):
    """An action pays 1 where it is the sign that was seen a step before, else nothing; signs come and go at random.

    Whoever sees only the present sign earns a half of what can be had, on average.
    """

    horizon, n_actions, n_features = 6, 2, 1

    def _begin(self, rng):
        sign = int(rng.integers(2))
        return 2 * sign + sign  # the sign before and the present one

    def _see(self, h, latent, rng):
        return np.array([float(latent % 2)])

    def _move(self, h, latent, action, rng):
        return float(action == latent // 2), 2 * (latent % 2) + int(rng.integers(2)), False


class Echo(Simulated):
    """What an action pays is the action before it: only that one tells."""

    horizon, n_actions, n_features = 6, 2, 1

    def _begin(self, rng):
        return 0

    def _see(self, h, latent, rng):
        return rng.normal(size=1)

    def _move(self, h, latent, action, rng):
        return float(action == latent), action, False


class Held(Simulated):
    """The last action is shown beside numbers with fat tails; changing it costs. The past tells nothing more."""

    horizon, n_actions, n_features = 20, 5, 4

    def _begin(self, rng):
        return np.zeros(4)

    def _see(self, h, latent, rng):
        return np.asarray(latent)

    def _move(self, h, latent, action, rng):
        move = rng.standard_t(3) - 0.2 * latent[1]
        there = np.array([action, latent[1] + move, move, rng.normal()])
        return (action - 2) * move - 0.1 * abs(action - latent[0]), there, False


class Walk(Simulated):
    """A walk on 12 places with slips, the place shown one-hot; it ends at either end, 1 is paid on the right."""

    horizon, n_actions, n_features = 40, 2, 12

    def _begin(self, rng):
        return 5

    def _see(self, h, latent, rng):
        return np.eye(12)[latent]

    def _move(self, h, latent, action, rng):
        there = latent + (1 if (action == 1) != (rng.random() < 0.2) else -1)
        return float(there == 11), there, there in (0, 11)


class ToTheRight(UniformPolicy):
    """Uniform draws, of which all but one of twenty go to the right."""

    def start(self, n):
        return (self.rng.random((n, self.horizon)) < 0.95).astype(np.int64)


def random_episodes(env, n=60, seed=0):
    policy = UniformPolicy(env.n_actions, env.horizon, np.random.default_rng(seed))
    batch = play_simulator(policy, env, np.arange(1000 * seed, 1000 * seed + n), keep_features=True)
    return batch, PlayedEpisodes.none(env.horizon, env.n_features).with_played(batch)


@pytest.mark.parametrize(
    ("env", "needed"),
    [(Late(), Recall(1)), (Echo(), Recall(0, True)), (Choice(), Recall())],
    ids=["late", "echo", "one"],
)
def test_the_past_is_taken_where_it_tells_what_follows(env, needed):
    n = 300 if env.horizon == 1 else 60
    for seed in range(3):
        assert needed_recall(random_episodes(env, n, seed)[1], env.n_actions) == needed


def test_a_past_that_the_present_repeats_is_left_out():
    for seed in range(3):
        assert needed_recall(random_episodes(Held(), 100, seed)[1], 5) == Recall()


def test_counts_see_no_past_in_a_walk_that_has_none():
    env = Walk()
    for seed in range(8):  # by nearest neighbours, rare ends look as if the past told them
        policy = ToTheRight(env.n_actions, env.horizon, np.random.default_rng(seed))
        batch = play_simulator(policy, env, np.arange(1000 * seed, 1000 * seed + 60), keep_features=True)
        played = PlayedEpisodes.none(env.horizon, env.n_features).with_played(batch)
        assert needed_recall(played, env.n_actions) == Recall()


class Shows:
    """Notes what it sees."""

    def __init__(self):
        self.log = []

    def start(self, n):
        return np.zeros((n, 2))

    def act(self, h, states, memory):
        self.log.append(states)
        return (states[:, 0] > 0).astype(np.int64)

    def update(self, h, moved, memory):
        np.testing.assert_array_equal(moved.states, self.log[-1])
        return memory + moved.rewards[:, None]


@pytest.mark.parametrize("recall", [Recall(1), Recall(2, True), Recall(0, True)])
def test_a_policy_sees_in_play_what_it_learned_from(recall):
    env, shows = Echo(), Shows()
    policy = RecallPolicy(shows, recall, 1, 2)
    batch = play_simulator(policy, env, np.arange(5), keep_features=True)
    played = recalled(recall, PlayedEpisodes.none(6, 1).with_played(batch), 2)
    assert played.features.shape[1] == recall.width(1, 2)
    learned = played.features.reshape(5, 7, -1)[:, :6]
    np.testing.assert_allclose(np.stack(shows.log, axis=1), learned, rtol=1e-6)
    # By hand, at the third step.
    o, a = batch.features[:, :, 0], np.eye(2)[batch.actions[:, 1]]
    columns = [o[:, 2], o[:, 2] - o[:, 1], o[:, 1] - o[:, 0]][: 1 + recall.observations]
    np.testing.assert_allclose(shows.log[2], np.column_stack([*columns, *([a] if recall.action else [])]))


def test_a_learner_earns_what_only_the_past_tells_and_goes_on_to_the_same_bits(tmp_path):
    env, streams = Late(), Streams(5)
    learner = make_learner("kernel", "simulator", tau=1.0).prepared(env, streams, 100)
    state = learner.init(env, streams)
    while not learner.over(state, env.horizon):
        state = learner.step(state, env, streams)[0]
    again = learner.restored(state.to_arrays(), env, streams)
    assert again.fitted[0].recall == state.fitted[0].recall == Recall(1)
    assert again.fitted[0].promise == state.fitted[0].promise
    policy = learner.policy(state, env, streams)
    # Only the first sign, which was seen before the first step, is known without a past: with it all six pay.
    earned = play_simulator(policy, env, np.arange(1, 201, 2)).returns.mean()
    assert earned == 6.0
    blind = make_learner("kernel", "simulator", tau=1.0, recall="none").prepared(env, streams, 60)
    assert not hasattr(blind.step(blind.init(env, streams), env, streams)[0].fitted[0], "recall")
    save(policy, tmp_path / "p")
    stored = load(tmp_path / "p").policy
    found = play_simulator(stored, env, np.arange(1, 41, 2))
    np.testing.assert_array_equal(found.actions, play_simulator(policy, env, np.arange(1, 41, 2)).actions)


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(InputError, match="recall = 'some'"):
        make_learner("kernel", "simulator", recall="some")
    with pytest.raises(InputError, match="UniformPolicy cannot be saved"):
        save(RecallPolicy(UniformPolicy(2, 3, np.random.default_rng(0)), Recall(1), 1, 2), tmp_path / "p")
