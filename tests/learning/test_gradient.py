"""Policy gradient with budgets: worths by hand, gradients by differences, a tiny problem, resuming, the trial."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_simulators import Gamble, Simulated

from tailrank import cvar
from tailrank.checks import InputError
from tailrank.episodes.rollout import Observed, play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.gradient import ascent
from tailrank.learning.gradient.candidate import FittedGradient, GradientCandidate
from tailrank.learning.search.candidate import SearchCandidate
from tailrank.learning.shortfall.candidate import ShortfallCandidate
from tailrank.learning.simulators import learner as learner_module
from tailrank.learning.simulators import sharing
from tailrank.learning.simulators.candidates import FitData
from tailrank.learning.simulators.kernel import KernelCandidate
from tailrank.learning.simulators.learners import AutoLearner, GradientLearner
from tailrank.learning.simulators.trial import all_but_the_worst
from tailrank.policies.softmax import softmax
from tailrank.policies.tables import UniformPolicy
from tailrank.runs.policy_files import budgeted, storage


def network(sizes, rng):
    return ascent.TanhTraining.begun(sizes, 1.0, rng)


def plain_outputs(one, flat, z):
    """The network by hand, in double precision."""
    at, x = 0, z.astype(np.float64)
    for i, (k, j) in enumerate(zip(one.sizes[:-1], one.sizes[1:])):
        w, b = flat[at : at + k * j].reshape(k, j), flat[at + k * j : at + k * j + j]
        x = x @ w + b
        x = np.tanh(x) if i + 2 < len(one.sizes) else x
        at += k * j + j
    return x


def differences(function, flat):
    steps = 1e-5 * np.eye(flat.size)
    return np.array([(function(flat + step) - function(flat - step)) / 2e-5 for step in steps])


@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0])
def test_worths_add_up_to_mean_and_shortfall(kappa):
    rng, lengths, tau = np.random.default_rng(0), np.array([3, 1, 5]), 0.2
    rewards = rng.normal(size=9)
    for budget in (-2.0, 0.0, 1.5):
        budgets, worth = ascent.step_worths(rewards, lengths, budget, tau, kappa)
        ends = np.cumsum(lengths)
        for begin, end in zip(ends - lengths, ends):
            total = rewards[begin:end].sum()
            short = max(budget, 0.0) - max(budget - total, 0.0)
            assert worth[begin:end].sum() == pytest.approx(kappa * total + (1 - kappa) / tau * short)
            np.testing.assert_allclose(budgets[begin:end], budget - np.append(0.0, np.cumsum(rewards[begin:end]))[:-1])


def test_advantages_against_a_double_sum():
    rng = np.random.default_rng(1)
    worth, values, last = rng.normal(size=7), rng.normal(size=7), np.array([2, 6])
    steps = ascent.PracticeSteps(np.zeros((7, 1)), np.zeros(7, dtype=int), worth, last)
    found = steps.advantages(values)
    for t in range(7):
        end = 2 if t <= 2 else 6
        errors = [worth[i] + (0.0 if i == end else values[i + 1]) - values[i] for i in range(t, end + 1)]
        assert found[t] == pytest.approx(sum(ascent.TRACE**j * error for j, error in enumerate(errors)))


def test_gradient_of_the_actor_against_differences():
    rng = np.random.default_rng(2)
    one, z = network((3, 4, 3), rng), rng.normal(size=(8, 3)).astype(np.float32)
    actions, worth = rng.integers(0, 3, size=8), rng.normal(size=8)
    now = softmax(plain_outputs(one, one.weights[0].astype(np.float64), z))[np.arange(8), actions]
    before = np.log(now) + np.array([0.0, 0.1, -0.1, 0.5, -0.5, 0.5, -0.5, 0.05])  # some far outside of what is near
    slope = np.zeros_like(one.weights)
    ascent.actor_gradient(one, slope, z, actions, worth, before)

    def objective(flat):
        p = softmax(plain_outputs(one, flat, z))
        ratio = p[np.arange(8), actions] / np.exp(before)
        near = np.clip(ratio, 1 - ascent.NEAR, 1 + ascent.NEAR)
        entropy = -(p * np.log(p)).sum(axis=1)
        return float((np.minimum(ratio * worth, near * worth) + ascent.ENTROPY * entropy).mean())

    wanted = differences(objective, one.weights[0].astype(np.float64))
    assert np.abs(wanted).max() > 0.01
    np.testing.assert_allclose(slope[0], wanted, atol=1e-5)


def test_gradient_of_the_critic_against_differences():
    rng = np.random.default_rng(3)
    one, z = network((2, 5, 1), rng), rng.normal(size=(6, 2)).astype(np.float32)
    aim, slope = rng.normal(size=6).astype(np.float32), np.zeros_like(one.weights)
    ascent.critic_gradient(one, slope, z, aim)

    def objective(flat):
        return float(-0.5 * ((plain_outputs(one, flat, z)[:, 0] - aim) ** 2).mean())

    np.testing.assert_allclose(slope[0], differences(objective, one.weights[0].astype(np.float64)), atol=1e-5)


@pytest.mark.parametrize(("tau", "safe"), [(0.3, True), (1.0, False)])
def test_it_gambles_for_the_mean_and_not_for_the_tail(tau, safe):
    """Gamble: at its last step action 0 pays .7 and action 1 pays 2 or nothing."""
    env, streams = Gamble(), Streams(0)
    one = GradientLearner(tau, gradient=GradientCandidate(hidden=(16,), rate=3e-3, steps=128), total=3000, choice=0.1)
    state = one.init(env, streams)
    while not one.over(state, env.horizon):
        state, _ = one.step(state, env, streams)
    returns = play_simulator(one.policy(state, env, streams), env, streams.evaluation_seeds(0, 400)).returns
    assert cvar(returns, 0.3) == pytest.approx(0.7 if safe else 0.0, abs=0.02)


class Slope(Simulated):
    """One number; action 1 pays it, action 0 pays nothing; three steps."""

    horizon, n_actions, n_features = 3, 2, 1

    def _begin(self, rng):
        return rng.normal()

    def _see(self, h, latent, rng):
        return np.array([latent])

    def _move(self, h, latent, action, rng):
        return action * latent, rng.normal(), False


def small_auto(**more):
    parts = {"kernel": KernelCandidate(representatives=30, budgets=16), "search": SearchCandidate(rounds=2)}
    parts |= {"network": ShortfallCandidate(hidden=(8,), budgets=12, effort=10.0)}
    parts |= {"gradient": GradientCandidate(hidden=(8,), steps=40)}
    return AutoLearner(0.3, **parts, **({"total": 260, "pilot": 30, "choice": 0.2} | more))


@pytest.mark.parametrize("one", [GradientLearner(0.3, total=150, pilot=40, choice=0.1), small_auto()])
def test_learner_resumes_and_saves(one, tmp_path):
    env, streams = Slope(), Streams(1)
    state = again = one.init(env, streams)
    while not one.over(state, env.horizon):
        state, _ = one.step(state, env, streams)
        again = one.restored(again.to_arrays(), env, streams) if again.k else again
        again, _ = one.step(again, env, streams)
    assert state.episodes == one.total
    for name, array in state.to_arrays().items():
        np.testing.assert_array_equal(again.to_arrays()[name], array, err_msg=name)
    policy, seeds = one.policy(state, env, streams), streams.evaluation_seeds(0, 100)
    storage.save(policy, tmp_path / "slope.policy")
    loaded = storage.load(tmp_path / "slope.policy").policy
    returns = play_simulator(policy, env, seeds).returns
    np.testing.assert_array_equal(play_simulator(loaded, env, seeds).returns, returns)


def test_after_a_third_the_worst_is_given_up(monkeypatch):
    env, streams, one = Slope(), Streams(2), small_auto()
    played, tried = [], []

    def watched(policy, simulator, seeds, **more):
        batch = play_simulator(policy, simulator, seeds, **more)
        tried.append((seeds, batch.returns))
        return batch

    state = one.init(env, streams)
    while len(state.fitted) != 3:
        before = state
        tried.clear()
        monkeypatch.setattr(learner_module, "play_simulator", watched)
        state, info = one.step(state, env, streams)
        played.append(state.played.n)
    assert info.about.startswith(f"trial of {tried[0][0].size} episodes each (kernel")
    assert before.going == (0, 1, 2, 3)
    kernel, *others = (fit.outputs() for fit in before.fitted)
    assert len(kernel) > 1
    assert [len(one) for one in others] == [1, 2, 1]
    assert len(tried) == 6  # two of the kernel model and of the network
    assert state.played.n == before.played.n + 6 * tried[0][0].size  # the trial is learned from
    assert all(np.array_equal(seeds, tried[0][0]) for seeds, _ in tried)
    scores = [cvar(returns, max(0.3, 5 / returns.size)) for _, returns in tried]
    scores = [max(scores[:2]), scores[2], max(scores[3:5]), scores[5]]
    assert state.going == tuple(sorted(np.argsort([-score for score in scores], kind="stable")[:3]))
    assert before.played.n >= 0.8 * one.total / 3
    assert state.earlier == ()


def test_few_episodes_have_no_trial():
    env, streams, one = Slope(), Streams(2), small_auto(total=60, pilot=10)
    state = one.init(env, streams)
    while not one.over(state, env.horizon):
        state, _ = one.step(state, env, streams)
    assert len(state.fitted) == 4


def test_it_learns_from_its_own_episodes_only(monkeypatch):
    """An update for every portion of its part of the batch; the episodes of others change nothing but the scale."""
    env, streams, told = Slope(), Streams(3), []
    one = small_auto(total=400, pilot=100)
    state, _ = one.step(one.init(env, streams), env, streams)
    practised = FittedGradient.practised
    monkeypatch.setattr(
        FittedGradient, "practised", lambda fit, played, rng: told.append(played.n) or practised(fit, played, rng)
    )
    after, _ = one.step(state, env, streams)
    assert sum(told) == pytest.approx((after.played.n - 100) / 2, abs=1)
    told.clear()
    again = one.gradient.fit(FitData(after.played, 2, 0.3), np.random.default_rng(0), state.fitted[3])
    assert told == []
    np.testing.assert_allclose(
        again.policy().act(0, np.linspace(-2, 2, 9)[:, None], np.zeros(9)),
        state.fitted[3].policy().act(0, np.linspace(-2, 2, 9)[:, None], np.zeros(9)),
    )


def test_damaged_actors_are_refused(tmp_path):
    env, streams, one = Slope(), Streams(1), GradientLearner(0.3, total=60, pilot=20)
    state, _ = one.step(one.init(env, streams), env, streams)
    arrays, scalars = budgeted.actor_parts(state.fitted[0].policy())
    assert budgeted.actor_policy(arrays, scalars).n_actions == 2
    for name, value in (("spread", np.zeros(1)), ("layer.0.weight", np.zeros((2, 64), dtype=np.float32))):
        with pytest.raises(InputError):
            budgeted.actor_policy(arrays | {name: value}, scalars)
    with pytest.raises(InputError):
        budgeted.actor_policy(arrays, scalars | {"width": 0.0})
    other = replace(one, gradient=GradientCandidate(hidden=(8,)))
    with pytest.raises(InputError, match="do not fit"):
        other.restored(state.to_arrays(), env, streams)


def test_a_trial_in_small_portions_is_the_same(monkeypatch):
    """Only so many features are in memory at a time."""
    env, streams, one, found = Slope(), Streams(2), small_auto(), []
    state = one.init(env, streams)
    while not one._tried(state, env):
        state, _ = one.step(state, env, streams)
    sizes = []

    def watched(policy, simulator, seeds, **more):
        sizes.append(seeds.size)
        return play_simulator(policy, simulator, seeds, **more)

    monkeypatch.setattr(learner_module, "play_simulator", watched)
    for most in (20_000_000, 3 * env.n_features * (env.horizon + 1)):
        sizes.clear()
        monkeypatch.setattr(sharing, "MOST_KEPT", most)
        after, info = one.step(state, env, streams)
        found.append((info.about, after.played.rewards.tobytes(), after.going))
    assert max(sizes) < 1.5 * 3
    assert found[0] == found[1]


def test_the_better_output_of_a_candidate_counts_in_the_trial():
    """A kernel model whose plain plan fails and whose crossed plan is the best goes on."""

    def batch(*returns):
        n = len(returns)
        return Observed(*(np.zeros((n, 1)),) * 2, np.array(returns), np.ones(n), np.arange(n))

    batches = [batch(-9.0, -9.0), batch(2.0, 0.0), batch(-1.0, -1.0), batch(0.5, 0.5)]
    going, scores = all_but_the_worst([0, 0, 1, 2], batches, 2, 0.5)
    assert going == [0, 2]
    assert scores == [-9.0, 1.0, -1.0, 0.5]  # so few episodes have their mean for a tail
    assert all_but_the_worst([0, 1, 2, 3], batches, 2, 0.5)[0] == [1, 2, 3]


def test_a_trial_without_a_seed_that_went_well_with_all():
    def batch(seeds, returns):
        seeds = np.array(seeds)
        return Observed(*(np.zeros((seeds.size, 1)),) * 2, np.array(returns), np.ones(seeds.size), seeds)

    batches = [batch([1, 3], [0.1, 0.3]), batch([5], [0.5])]
    np.testing.assert_array_equal(sharing.on_same_seeds(batches, 3), [[0.1], [0.5]])
    np.testing.assert_array_equal(sharing.on_same_seeds([*batches[:1], batch([3, 5], [3, 5])], 3), [[0.3], [3]])


def test_budgets_are_seen_where_the_first_returns_were_all_the_same():
    """Random episodes that all pay nothing say nothing about how far returns will spread."""
    env, one, rng = Slope(), GradientCandidate(hidden=(8,)), np.random.default_rng(0)
    played = GradientLearner(0.3)._nothing(env)
    batch = play_simulator(UniformPolicy(2, 3, rng), env, np.arange(1, 41), keep_features=True)
    nothing = replace(batch, rewards=np.zeros_like(batch.rewards))
    first = one.fit(FitData(played.with_played(nothing), 2, 0.3), rng)
    assert first.width == 1e-6
    more = FitData(played.with_played(nothing).with_played(batch), 2, 0.3)
    after = one.fit(more, rng, first)
    assert after.width == pytest.approx(more.played.returns().std())
    assert one.fit(more, rng, replace(first, width=0.5)).width == 0.5
