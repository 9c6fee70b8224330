"""ELA on observations: it learns small simulators, plays the same again, and says what is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tailrank import InputError, cvar, play_simulator
from tailrank.envs.built_in.rich_lock import rich_lock
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.observed.ela import ObservedELA
from tailrank.learning.observed.state import ObservedState
from tailrank.runs._episodes import NAMES


class Small:
    """Episodes side by side, a generator for each; subclasses say how latents move and pay."""

    name, n_features, width, noise = "small", 8, 50, 0.05
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]

    def reset(self, seeds):
        assert len(seeds) <= self.width
        self._rngs = [np.random.default_rng(int(s)) for s in seeds]
        self._h, self.latent = 0, np.array([int(r.integers(2)) for r in self._rngs])
        self._over = np.zeros(len(seeds), dtype=bool)
        self._features = np.array([self._see(z, r) for z, r in zip(self.latent, self._rngs)])
        return self._features.copy()

    def _see(self, z, rng):
        return self.axes[z] + self.noise * rng.normal(size=self.n_features)

    def step(self, actions):
        rewards = np.zeros(len(actions))
        for i in np.flatnonzero(~self._over):
            rng = self._rngs[i]
            rewards[i], self.latent[i], self._over[i] = self._move(int(self.latent[i]), int(actions[i]), rng)
            self._features[i] = self._see(self.latent[i], rng)
        self._h += 1
        self._over |= self._h == self.horizon
        return rewards, self._features.copy(), self._over.copy()


class OneStep(Small):
    """Action 0 pays .8; action 1 pays 1 or, with probability .2, nothing; action 2 pays 0."""

    horizon, n_actions = 1, 3

    def _move(self, z, a, rng):
        chance = rng.random()
        return (0.8, float(chance >= 0.2), 0.0)[a], z, True


class Mine(Small):
    """Latents 0 and 1; one action of three goes on, the next one ends with a gain of .5, the third with a loss of 1.

    Going on pays -.1, and 2 at the last step: best is to go on throughout.
    """

    horizon, n_actions, reward_range = 3, 3, (-1.0, 2.0)

    def _move(self, z, a, rng):
        after = int(rng.integers(2))
        if a == (z + self._h) % 3:
            last = self._h == self.horizon - 1
            return (2.0 if last else -0.1), after, last
        return (0.5 if a == (z + self._h + 1) % 3 else -1.0), after, True


class Endless(Small):
    """Goes on for ever; the action with the latent's number pays 1, the other .5. Only the horizon ends it."""

    horizon, n_actions, reward_range = 10, 2, (0.0, 1.0)

    def _move(self, z, a, rng):
        return (1.0 if a == z else 0.5), int(rng.integers(2)), False


class Surprise(Mine):
    """One day everything pays 50."""

    late = False

    def _move(self, z, a, rng):
        reward, after, over = super()._move(z, a, rng)
        return (50.0 if self.late else reward), after, over


def trained(learner, simulator, seed, episodes):
    streams = Streams(seed)
    state = learner.init(simulator, streams)
    while state.episodes < episodes:
        state, info = learner.step(state, simulator, streams)
    return state, info, streams


def judged(learner, state, simulator, streams, tau, n=500):
    played = play_simulator(learner.greedy(state, simulator), simulator, streams.evaluation_seeds(state.k, n))
    return cvar(played.returns, tau)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_small_rich_lock_is_opened(seed):
    lock = rich_lock(horizon=4, n_actions=3, seed=seed)
    learner, streams = ObservedELA(0.1), Streams(seed)
    state, best = learner.init(lock, streams), 0.0
    while state.episodes < 150 and best < 0.95 * lock.optimum(0.1):
        state, info = learner.step(state, lock, streams)
        if info.refitted:
            best = max(best, judged(learner, state, lock, streams, 0.1))
    assert best >= 0.95 * lock.optimum(0.1)


def test_the_same_seed_gives_the_same_bits():
    runs = []
    for _ in range(2):
        lock = rich_lock(horizon=4, n_actions=3, seed=5)
        runs.append(trained(ObservedELA(0.1), lock, 5, 45)[0])
    one, two = runs
    for name in ("features", "actions", "units", "lengths"):
        np.testing.assert_array_equal(getattr(one.replay, name), getattr(two.replay, name))
    for name, array in one.fitted.decoder.to_arrays().items():
        np.testing.assert_array_equal(array, two.fitted.decoder.to_arrays()[name])
    for a, b in zip(one.policy.plan.values, two.policy.plan.values):
        np.testing.assert_array_equal(a, b)
    other = trained(ObservedELA(0.1), rich_lock(horizon=4, n_actions=3, seed=5), 6, 45)[0]
    assert not np.array_equal(one.replay.actions, other.replay.actions)


def test_a_state_from_arrays_goes_on_to_the_same_bits():
    lock, learner, streams = rich_lock(horizon=4, n_actions=3, seed=5), ObservedELA(0.1), Streams(5)
    state, _, _ = trained(learner, lock, 5, 33)
    arrays = {name: array.copy() for name, array in state.to_arrays().items()}
    replay = replace(state.replay, n=0)
    replay.add(*(getattr(state.replay, name).copy() for name in NAMES))
    again = learner.resumed(ObservedState.from_arrays(arrays, replay), lock)
    for _ in range(12):
        state, _ = learner.step(state, lock, streams)
        again, _ = learner.step(again, lock, streams)
    np.testing.assert_array_equal(state.replay.actions, again.replay.actions)
    np.testing.assert_array_equal(state.policy.plan.curve, again.policy.plan.curve)


def test_the_pilot_does_not_depend_on_how_many_play_at_once():
    seen = []
    for width in (1, 7, 50):
        mine = Mine()
        mine.width = width
        seen.append(ObservedELA(0.2, pilot=30, longest_pilot=30).init(mine, Streams(3)).replay)
    for other in seen[1:]:
        np.testing.assert_array_equal(seen[0].features, other.features)
        np.testing.assert_array_equal(seen[0].actions, other.actions)
    first = seen[0].actions[:, 0]
    assert np.bincount(first, minlength=3).min() >= 3, "uniform: each action about 10 of 30 times"
    assert not np.array_equal(first[:7], first[7:14])


def test_the_greedy_policy_starts_from_its_budget():
    mine = Mine()
    learner = ObservedELA(0.2)
    state, info, _ = trained(learner, mine, 0, 45)
    policy = learner.greedy(state, mine)
    memory = policy.start(4)
    assert memory.shape == (4, 1), "observations are sure: nothing to filter"
    assert (memory[:, 0] == policy.plan.budget).all()
    looks_back = replace(policy, filtered=True).start(4)
    assert looks_back.shape == (4, 1 + policy.decoder.n_latents)
    np.testing.assert_allclose(looks_back[:, 1:].sum(axis=1), 1)
    assert policy.horizon == 3
    assert info.returns.shape == (1,)
    assert state.episodes == state.replay.n == 45
    assert not info.refitted
    assert state.counts.visits().sum() == state.replay.lengths.sum(), "counted also between two fits"
    # Without bonus nothing is promised beyond what pays: 2 - .1 - .1 at most, in units of rewards.
    assert learner.promise(state, mine) <= 1.8 + 1e-9


def test_one_step():
    """CVaR at .2 prefers .8 for sure, the mean too (1 with probability .8): both beat 0."""
    learner = ObservedELA(0.2, Discriminative(rank=2))
    state, info, streams = trained(learner, OneStep(), 0, 60)
    assert judged(learner, state, OneStep(), streams, 0.2) == pytest.approx(0.8)
    visits = state.counts.visits().sum(axis=(0, 1))
    assert visits.min() >= 3
    assert info.bonus_mean > 0
    # What was tried still has a bonus: rewards of the last step are found by visits of the pair.
    assert np.isfinite(info.objective)


def test_the_bonus_of_the_last_step_counts_visits(monkeypatch):
    """Also when it is the only one."""
    told = []
    original = ObservedELA._with_plan
    monkeypatch.setattr(ObservedELA, "_with_plan", lambda *a, **k: (told.append(a[3]), original(*a, **k))[1])
    state, _, _ = trained(ObservedELA(0.2, Discriminative(rank=2)), OneStep(), 0, 22)
    visits, bonus = state.counts.visits(), told[-1]
    for z in range(2):
        order = np.argsort(visits[0, z])
        assert (np.diff(bonus[0, z][order]) <= 1e-12).all(), "more visits, less bonus"
    assert bonus.min() > 0


def test_episodes_that_end_early():
    mine = Mine()
    learner = ObservedELA(0.2, Discriminative(rank=3))
    state, _, streams = trained(learner, mine, 1, 120)
    assert judged(learner, state, mine, streams, 0.2) == pytest.approx(1.8)
    assert state.replay.lengths.min() == 1
    assert state.grid.zero > 0


def test_the_horizon_is_not_taken_for_an_end():
    """With one table for all steps a tenth of the transitions would end otherwise, and the model promise far less."""
    endless = Endless()
    learner = ObservedELA(0.2, Discriminative(rank=2, shared=True), bonus="visits", longest_pilot=20)
    state, _, streams = trained(learner, endless, 0, 50)
    assert learner.promise(state, endless) == pytest.approx(10.0)
    assert judged(learner, state, endless, streams, 0.2) == pytest.approx(10.0)


def test_a_reward_out_of_range_widens_the_range():
    learner = ObservedELA(0.2, Discriminative(rank=2), pilot=30, longest_pilot=30)
    surprise, streams = Surprise(), Streams(0)
    surprise.reward_range = None
    before = learner.init(surprise, streams)
    narrow = before.replay.units.copy()
    surprise.late = True
    with pytest.warns(UserWarning, match=r"a reward outside .* after 31 episodes; the range is now .*"):
        state, info = learner.step(before, surprise, streams)
    replay, grid = state.replay, state.grid
    assert (state.episodes, info.refitted) == (31, True)
    np.testing.assert_allclose(grid.low + grid.unit * replay.units, replay.rewards, atol=grid.unit / 2 + 1e-9)
    assert replay.rewards[-1].max() == 50.0
    assert state.counts.top == grid.top
    assert info.objective <= 50.0 * surprise.horizon
    # Files of a run hold the units of the grid of their time.
    replay.measure(np.concatenate([narrow, np.zeros_like(narrow[:1])]))
    again = learner.resumed(ObservedState.from_arrays(state.to_arrays(), replay), surprise)
    np.testing.assert_allclose(grid.low + grid.unit * again.replay.units, replay.rewards, atol=grid.unit / 2 + 1e-9)
    assert again.policy.plan.objective == state.policy.plan.objective


def test_a_reward_outside_a_declared_range_is_named():
    surprise, streams = Surprise(), Streams(0)
    learner = ObservedELA(0.2, Discriminative(rank=2), pilot=30, longest_pilot=30, reward_range=(-1.0, 5.0))
    state = learner.init(surprise, streams)
    surprise.late = True
    with pytest.raises(InputError, match=r"reward = 50 at step 0: lies outside .*declared.*wider reward_range"):
        learner.step(state, surprise, streams)
    assert state.episodes == 30, "what was refused is not kept"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tau": 0.0}, "tau = 0.0: must lie in"),
        ({"bonus": "nothing"}, "bonus = 'nothing': must be one of"),
        ({"batch": 0}, "batch = 0: must be a whole number of at least 1"),
        ({"pilot": 2.5}, "pilot = 2.5: must be a whole number"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(InputError, match=message):
        ObservedELA(**({"tau": 0.1} | settings))
