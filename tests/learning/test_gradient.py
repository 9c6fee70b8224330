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
from tailrank.learning.gradient.kept import KEPT, KeptEpisodes
from tailrank.learning.gradient.networks import SLOW, Critic, TanhTraining
from tailrank.learning.lowrank.candidate import LowRankCandidate
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
    return TanhTraining.begun(sizes, 1.0, rng)


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
    """What followed an action that is half as likely now counts half; one that is likelier counts once."""
    rng = np.random.default_rng(1)
    worth, values, last = rng.normal(size=7), rng.normal(size=7), np.array([2, 6])
    steps = ascent.PracticeSteps(np.zeros((7, 1)), np.zeros(7, dtype=int), worth, last, np.zeros(7))
    likelier = np.array([1.0, 0.5, 1.7, 1.0, 1.0, 0.2, 1.0])
    found = steps.advantages(values, likelier)
    for t in range(7):
        end = 2 if t <= 2 else 6
        errors = [worth[i] + (0.0 if i == end else values[i + 1]) - values[i] for i in range(t, end + 1)]
        trust = ascent.TRACE ** np.arange(len(errors)) * np.cumprod(
            np.append(1.0, np.minimum(likelier, 1)[t + 1 : end + 1])
        )
        assert found[t] == pytest.approx(float(trust @ errors))


def test_values_stay_where_the_critic_is_scaled_anew():
    rng = np.random.default_rng(4)
    z, aims = rng.normal(size=(9, 3)).astype(np.float32), 40.0 + 5.0 * rng.normal(size=9)
    first = Critic(network((3, 4, 1), rng))
    assert not first.values(z).any()
    now = first.about(aims, 0.1)
    assert (now.centre, now.scale) == (pytest.approx(aims.mean()), pytest.approx(aims.std(), rel=1e-4))
    after = now.about(10.0 * aims, 0.1)
    assert after.centre == pytest.approx((SLOW + 10.0 * (1 - SLOW)) * aims.mean())
    assert after.scale == pytest.approx((SLOW + 10.0 * (1 - SLOW)) * aims.std(), rel=1e-4)
    assert np.abs(now.values(z)).max() > 1.0
    np.testing.assert_allclose(after.values(z), now.values(z), rtol=1e-4)
    assert Critic(network((3, 4, 1), rng)).about(np.full(5, 500.0), 0.1).scale > 0.0  # all returns the same


def test_the_critic_learns_values_of_any_size():
    """Nothing is chosen, each step pays 1,000: its value is what is left of the episode."""
    rng, lengths = np.random.default_rng(5), np.full(40, 5)
    actor, critic = network((1, 8, 2), rng), Critic(network((1, 16, 1), rng))
    z = np.tile(np.linspace(-1, 1, 5, dtype=np.float32), 40)[:, None]
    chances = ascent.chances_of(actor, z, np.zeros(200, dtype=int))
    steps = ascent.PracticeSteps(z, np.zeros(200, dtype=int), np.full(200, 1e3), np.cumsum(lengths) - 1, chances)
    for _ in range(60):
        actor, critic = ascent.practise(actor, critic, steps, 3e-3, rng)
    np.testing.assert_allclose(critic.values(z[:5]), [5e3, 4e3, 3e3, 2e3, 1e3], atol=150)


def test_an_older_step_counts_as_much_as_its_action_became_likelier(monkeypatch):
    rng, seen = np.random.default_rng(6), []
    actor, critic = network((1, 4, 2), rng), Critic(network((1, 4, 1), rng))
    z, actions, played = (
        rng.normal(size=(4, 1)).astype(np.float32),
        np.array([0, 1, 0, 1]),
        np.log([0.01, 0.4, 0.9, 0.5]),
    )
    steps = ascent.PracticeSteps(z, actions, np.array([1.0, -2.0, 0.5, 3.0]), np.arange(4), played)
    monkeypatch.setattr(ascent, "EPOCHS", 1)
    monkeypatch.setattr(ascent, "actor_gradient", lambda *given: seen.append(given[2:]))
    ascent.practise(actor, critic, steps, 1e-3, rng)
    now = ascent.chances_of(actor, z, actions)
    ((_, at, worth, before),) = seen
    rows = [int(np.argmin(np.abs(now - one))) for one in before]
    times = np.minimum(np.exp(now - played), ascent.MOST)[rows]
    aim = (steps.worth[rows] - steps.worth.mean()) / steps.worth.std()
    assert times.max() == pytest.approx(ascent.MOST)
    np.testing.assert_allclose(worth, times * aim, rtol=1e-4)
    np.testing.assert_array_equal(at, actions[rows])


def test_episodes_of_the_last_updates_are_kept():
    kept, rng = KeptEpisodes.none(2), np.random.default_rng(7)
    for i in range(KEPT + 2):
        lengths = np.array([2, i + 1])
        T = int(lengths.sum())
        kept = kept.with_portion(
            rng.normal(size=(T, 2)).astype(np.float32), np.full(T, i), np.ones(T), -np.ones(T), lengths
        )
    assert kept.portions.tolist() == [2] * KEPT
    assert np.unique(kept.actions).tolist() == list(range(2, KEPT + 2))
    assert kept.lengths.tolist() == [x for i in range(2, KEPT + 2) for x in (2, i + 1)]
    assert kept.step_numbers()[:5].tolist() == [0, 1, 0, 1, 2]
    arrays = kept.to_arrays()
    again = KeptEpisodes.from_arrays(arrays, 2)
    np.testing.assert_array_equal(again.features, kept.features)
    for name, wrong in (("lengths", kept.lengths[1:]), ("chances", kept.chances[1:]), ("portions", kept.portions[1:])):
        with pytest.raises(InputError, match=r"kept\.|do not fit together"):
            KeptEpisodes.from_arrays(arrays | {f"kept.{name}": wrong}, 2)


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
    parts |= {"gradient": GradientCandidate(hidden=(8,), steps=40), "lowrank": LowRankCandidate(0)}
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
    going, scores = all_but_the_worst([0, 0, 1, 2], batches, 2, 0.5, 3)
    assert going == [0, 2]
    assert scores == [-9.0, 1.0, -1.0, 0.5]  # so few episodes have their mean for a tail
    assert all_but_the_worst([0, 1, 2, 3], batches, 2, 0.5, 4)[0] == [1, 2, 3]
    assert all_but_the_worst([0, 0, 1, 3], batches, 2, 0.5, 4)[0] == [0, 1, 3]  # 2 has nothing to hand out


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


def test_a_fit_to_other_scales_changes_no_action_and_no_value():
    """Features, and budgets, are seen at another scale as more is known; the networks do what they did."""
    env, one, rng = Slope(), GradientCandidate(hidden=(8,)), np.random.default_rng(0)
    played = GradientLearner(0.3)._nothing(env)
    batch = play_simulator(UniformPolicy(2, 3, rng), env, np.arange(1, 41), keep_features=True)
    first = one.fit(FitData(played.with_played(batch), 2, 0.3, random=True), rng)
    wider = replace(batch, rewards=3.0 * batch.rewards, features=2.0 * batch.features + 0.1)
    after = one.fit(FitData(played.with_played(batch).with_played(wider), 2, 0.3), rng, first)
    assert after.width > 1.5 * first.width
    features, budgets = rng.normal(size=(20, 1)), rng.normal(size=20)
    before, now = (fit._seen(features, np.arange(20) % 3, budgets) for fit in (first, after))
    assert np.abs(before - now).max() > 0.1
    np.testing.assert_allclose(after.actor.outputs(now), first.actor.outputs(before), atol=1e-5)
    np.testing.assert_allclose(after.critic.values(now), first.critic.values(before), atol=1e-5)
