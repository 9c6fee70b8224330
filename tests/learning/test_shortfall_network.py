"""The shortfall network: targets by brute force, gradients by differences, learning on a tiny MDP, resuming, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_simulators import Gamble, Simulated

from tailrank import cvar
from tailrank.checks import InputError
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.dense import layer_views
from tailrank.learning.shortfall.targets import ELSEWHERE, TeachingSteps
from tailrank.learning.shortfall.training import NetworkTraining, gradient
from tailrank.learning.simulators.candidates import FitData
from tailrank.learning.simulators.learners import ShortfallLearner
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.kernel import BudgetScale
from tailrank.policies.shortfall import ShortfallPolicy, forward, mean_slopes, network_input, shortfalls
from tailrank.policies.tables import UniformPolicy
from tailrank.runs.policy_files import budgeted, storage


def candidate(**more):
    from tailrank.learning.shortfall.candidate import ShortfallCandidate

    return ShortfallCandidate(**({"hidden": (16,), "members": 2, "budgets": 16, "effort": 60.0, "batch": 32} | more))


def layers(rng, inputs=3, hidden=4, outputs=2 * 5):
    sizes = [(inputs, hidden), (hidden, outputs)]
    return tuple((rng.normal(size=s).astype(np.float32), rng.normal(size=s[1]).astype(np.float32)) for s in sizes)


def test_targets_against_a_plain_recursion():
    """Three episodes of 4, 1 and 3 steps; every budget by itself, values looked up by np.interp."""
    rng = np.random.default_rng(0)
    lengths, C, trust = np.array([4, 1, 3]), 7, 0.8
    T = int(lengths.sum())
    slopes = rng.random((T, 2, C - 1))
    q = np.concatenate([np.zeros((T, 2, 1)), np.cumsum(slopes, axis=2)], axis=2)
    actions, shift, end = rng.integers(0, 2, size=T), 2 * rng.normal(size=T), rng.normal(size=T)
    steps = TeachingSteps(np.zeros((T, 1)), actions, shift, end, lengths)
    found = steps.targets(slopes, trust)
    stops = np.cumsum(lengths)
    for begin, stop in zip(stops - lengths, stops, strict=True):
        after = None
        for t in range(stop - 1, begin - 1, -1):
            places = np.arange(C) - shift[t]
            if after is None:
                aim = np.maximum(places + end[t], 0.0)
            else:
                aim = np.interp(places, np.arange(C), after) + np.maximum(places - (C - 1), 0.0)
            np.testing.assert_allclose(found[t], np.clip(np.diff(aim), 0.0, 1.0), atol=1e-6)
            part = np.where(q[t].argmin(axis=0) == actions[t], trust, trust * ELSEWHERE)
            after = q[t].min(axis=0) + part * (aim - q[t, actions[t]])


def test_targets_of_greedy_episodes_are_what_was_paid():
    """Where every action is the network's own and all is trusted, the target is the shortfall of the real return."""
    scale, lengths = BudgetScale(1.0, -4.0, 12, 0.0), np.array([3])
    rewards = np.array([1.0, -2.0, 3.0])
    slopes = np.zeros((3, 2, 11))
    steps = TeachingSteps(np.zeros((3, 1)), np.zeros(3, dtype=int), rewards, np.full(3, scale.low), lengths)
    slopes[:, 0, 4:] = 0.3
    slopes[:, 1] = slopes[:, 0] + 0.1
    found = steps.targets(slopes, 1.0)
    for t in range(3):
        short = np.maximum(scale.budget(np.arange(12), 0) - rewards[t:].sum(), 0.0)
        np.testing.assert_allclose(found[t], np.diff(short), atol=1e-6)


def test_gradient_against_differences():
    """Two networks with batches of their own, one of which never saw the second action."""
    rng = np.random.default_rng(1)
    two = [layers(rng), layers(rng)]
    state = NetworkTraining.begun(
        [(np.stack([n[i][0] for n in two]), np.stack([n[i][1] for n in two])) for i in (0, 1)]
    )
    x, aim = rng.normal(size=(2, 6, 3)).astype(np.float32), rng.random((2, 6, 5)).astype(np.float32)
    action = np.array([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
    slope = np.full_like(state.weights, 7.0)
    gradient(layer_views(state.weights, state.sizes), layer_views(slope, state.sizes), x, action, aim)

    def plain(e, flat):
        net = tuple((w[0], b[0]) for w, b in layer_views(flat[None], state.sizes))
        chosen = forward(net, x[e].astype(np.float64)).reshape(6, 2, -1)[np.arange(6), action[e]]
        return float((np.logaddexp(0.0, chosen) - aim[e] * chosen).mean())

    for e in (0, 1):
        exact = state.weights[e].astype(np.float64)
        for i in range(exact.size):
            step = np.where(np.arange(exact.size) == i, 1e-5, 0.0)
            wanted = (plain(e, exact + step) - plain(e, exact - step)) / 2e-5
            assert -slope[e, i] == pytest.approx(wanted, abs=1e-4)


def test_new_standardisation_leaves_the_networks_as_they_were():
    env, streams = Slope(), Streams(0)
    batch = play_simulator(UniformPolicy(2, 3, streams.planner(0)), env, streams.train_seeds(0, 40), keep_features=True)
    played = PlayedEpisodes.none(3, 1).with_played(batch)
    fitted = candidate(effort=5.0).fit(FitData(played, 2, 0.3), np.random.default_rng(0))
    other = fitted.restandardised(replace(played, observations=3.0 * played.observations + 1.0))
    assert other.spread != pytest.approx(fitted.spread)
    seen = np.linspace(-1, 1, 5)[:, None]
    np.testing.assert_allclose(
        other.policy((0, 1), 0.5)[0].values(seen, 1), fitted.policy((0, 1), 0.5)[0].values(seen, 1), atol=1e-4
    )


def test_shortfalls_have_slopes_between_zero_and_one():
    net = layers(np.random.default_rng(0), outputs=2 * 9)
    x = 50 * np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32)
    q = shortfalls(mean_slopes(tuple((w[None], b[None]) for w, b in net), x, 2).astype(np.float64))
    assert q.shape == (3, 2, 10)
    assert (q[..., 0] == 0).all()
    assert (np.diff(q, axis=-1) >= -1e-12).all()
    assert (np.diff(q, axis=-1) <= 1 + 1e-12).all()


def gambles():
    env, streams = Gamble(), Streams(0)
    batch = play_simulator(
        UniformPolicy(2, 2, streams.planner(0)), env, streams.train_seeds(0, 400), keep_features=True
    )
    played = PlayedEpisodes.none(2, 1).with_played(batch)
    return env, played


def test_network_learns_the_shortfall_of_a_tiny_mdp():
    """Gamble: at its last step action 0 pays .7 and action 1 pays 2 or nothing."""
    _, played = gambles()
    fitted = candidate(members=1, budgets=40, effort=120.0).fit(FitData(played, 2, 0.3), np.random.default_rng(0))
    policy, promise = fitted.policy((0,), fitted.tau)
    budgets = fitted.scale.budget(np.arange(fitted.scale.count), 1)
    q = policy.values(np.zeros((1, 1)), 1)[0] * fitted.scale.unit
    exact = np.stack([np.maximum(budgets - 0.7, 0), 0.5 * np.maximum(budgets, 0) + 0.5 * np.maximum(budgets - 2, 0)])
    assert np.abs(q - exact).max() < 0.2
    assert 0.7 - 0.25 < promise < 0.7 + 0.05  # the safe way is the best tail; the targets err to the side of caution


def test_the_plan_for_the_mean_is_handed_out_beside_that_for_the_tail():
    """Gamble: 2 or nothing is worth 1 on average, and nothing in the tail."""
    env, played = gambles()
    one, rng = candidate(members=1, budgets=40, effort=120.0), np.random.default_rng(0)
    fitted = one.fit(FitData(played, 2, 0.3), rng)
    tail, mean = fitted.outputs()
    earned = [play_simulator(x.policy, env, np.arange(1, 801, 2)).returns for x in (tail, mean)]
    assert cvar(earned[0], 0.3) > cvar(earned[1], 0.3) + 0.3
    assert earned[1].mean() > earned[0].mean() + 0.1
    assert mean.promise < tail.promise  # both are promises of the CVaR
    assert len(one.fit(FitData(played, 2, 1.0), rng).outputs()) == 1


def test_exploration_plans_for_the_mean_at_first_and_for_the_tail_in_the_end():
    _, played = gambles()
    one, begun = candidate(members=1, budgets=40, effort=120.0), []
    for done in (0.0, 0.3, 0.6, 1.0):
        data = FitData(played, 2, 0.25, done=done)
        fitted = one.fit(data, np.random.default_rng(0))
        assert fitted.tried == pytest.approx({0.0: 1.0, 0.3: 0.5}.get(done, 0.25))
        again = one.restored(fitted.to_arrays(), data, np.random.default_rng(1))
        explorers = [fit.explorer(np.random.default_rng(0)).start(1)[0] for fit in (fitted, again)]
        np.testing.assert_array_equal(*explorers)
        begun.append(explorers[0][0])
    first, *_, last = (float(fitted.policy((0,), tau)[0].budget) for tau in (1.0, 0.5, 0.25))
    assert first > last
    assert [begun[0], begun[2], begun[3]] == [first, last, last]


class Slope(Simulated):
    """One number; action 1 pays it, action 0 pays nothing; three steps."""

    horizon, n_actions, n_features = 3, 2, 1

    def _begin(self, rng):
        return rng.normal()

    def _see(self, h, latent, rng):
        return np.array([latent])

    def _move(self, h, latent, action, rng):
        return action * latent, rng.normal(), False


def test_learner_resumes_and_saves(tmp_path):
    one = ShortfallLearner(0.3, network=candidate(), total=150, pilot=40, choice=0.1)
    env, streams = Slope(), Streams(1)
    state = again = one.init(env, streams)
    while not one.over(state, env.horizon):
        state, _ = one.step(state, env, streams)
        again = one.restored(again.to_arrays(), env, streams) if again.k else again
        again, _ = one.step(again, env, streams)
    for name, array in state.to_arrays().items():
        np.testing.assert_array_equal(again.to_arrays()[name], array, err_msg=name)
    policy, seeds = one.policy(state, env, streams), streams.evaluation_seeds(0, 200)
    returns = play_simulator(policy, env, seeds).returns
    assert cvar(returns, 0.3) > -0.1  # without risk where the number is negative
    storage.save(policy, tmp_path / "slope.policy")
    loaded = storage.load(tmp_path / "slope.policy").policy
    np.testing.assert_array_equal(play_simulator(loaded, env, seeds).returns, returns)


def test_damaged_networks_are_refused():
    rng = np.random.default_rng(0)
    net = tuple((w[None], b[None]) for w, b in layers(rng))
    scale = BudgetScale(1.0, 0.0, 6, 0.0)
    arrays, scalars = budgeted.shortfall_parts(ShortfallPolicy(net, np.zeros(1), np.ones(1), scale, 1.0, 4))
    assert budgeted.shortfall_policy(arrays, scalars).n_actions == 2
    for name, value in (("spread", np.zeros(1)), ("layer.0.weight", net[0][0][:, 1:]), ("centre", np.zeros(2))):
        with pytest.raises(InputError):
            budgeted.shortfall_policy(arrays | {name: value}, scalars)
    with pytest.raises(InputError):
        budgeted.shortfall_policy(arrays, scalars | {"count": 5})


def test_inputs_are_standardised_and_cut():
    x = network_input(np.array([[3.0], [1e9]]), np.array([2, 1]), 4, np.ones(1), np.full(1, 2.0))
    np.testing.assert_allclose(x, [[1.0, 0.5, 0.5], [10.0, 0.25, 1.0]])
