"""The gradient against finite differences of the exact CVaR; blindness to success; the options."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from small_simulators import Choice, Listed, Lock

from tailrank import InputError, cvar, var
from tailrank.learning.learn import learn
from tailrank.learning.rivals.ascent import Adam, Tracker, tail_weights
from tailrank.learning.rivals.observations.playing import PlayedBatch, roll
from tailrank.learning.rivals.observations.policy_gradient import PolicyGradient, gradient
from tailrank.policies.softmax import Network, SoftmaxPolicy


def random_network(rng, hidden):
    network = Network.fresh(3, 2, 2, hidden, rng)
    for w in network.weights:
        w += 0.5 * rng.normal(size=w.shape)
    return network


def listed(mdp):
    """All episodes of the tiny MDP as one batch, and the chances of the environment's part of each."""
    chance, states, actions, rewards = (np.array(x) for x in zip(*mdp.episodes()))
    features = np.stack([*mdp.seen[states.T], np.zeros((len(chance), 3))])
    return chance, PlayedBatch(features, actions.T, rewards.T, np.ones(rewards.T.shape, dtype=bool))


def law(network, chance, batch):
    """Probability of every episode under the policy, by the softmax written out once more."""
    p = chance.copy()
    for h in range(2):
        x = batch.features[h]
        for w, b in network.trunk:
            x = np.tanh(x @ w + b)
        e = np.exp(x @ network.head[h] + network.shift[h])
        p = p * (e / e.sum(axis=1, keepdims=True))[np.arange(len(p)), batch.actions[h]]
    return p


def finite_differences(network, of, step=1e-6):
    """Gradient of `of()` in all parameters, which are moved one by one."""
    found = []
    for w in network.weights:
        g = np.zeros_like(w)
        for i in np.ndindex(w.shape):
            kept, ends = w[i], []
            for sign in (1, -1):
                w[i] = kept + sign * step
                ends.append(of())
            w[i] = kept
            g[i] = (ends[0] - ends[1]) / (2 * step)
        found.append(g)
    return found


@pytest.mark.parametrize("hidden", [(), (3,), (4, 2)])
@pytest.mark.parametrize("tau", [0.07, 0.3, 0.8, 1.0])
def test_expected_estimate_is_the_gradient_of_the_exact_cvar(hidden, tau):
    rng = np.random.default_rng(3)
    network = random_network(rng, hidden)
    chance, batch = listed(Listed(rng))
    p = law(network, chance, batch)
    assert p.sum() == pytest.approx(1.0)
    weights = tail_weights(batch.returns, tau, var(batch.returns, tau, p))
    expected = gradient(network, batch, p * weights)
    exact = finite_differences(network, lambda: cvar(batch.returns, tau, law(network, chance, batch)))
    assert max(np.abs(g).max() for g in exact) > 1e-3
    for got, want in zip(expected, exact):
        np.testing.assert_allclose(got, want, atol=1e-7)


def test_variance_reduction_leaves_the_expectation():
    """All pairs of episodes as batches of two: the mean estimate is the same with the other's weight taken off."""
    rng = np.random.default_rng(5)
    network, tau = random_network(rng, ()), 0.3
    chance, batch = listed(Listed(rng))
    p = law(network, chance, batch)
    v = var(batch.returns, tau, p)
    plain = gradient(network, batch, p * tail_weights(batch.returns, tau, v))
    weights = np.zeros(p.size)
    for i, j in itertools.product(range(p.size), repeat=2):
        pair = tail_weights(batch.returns[[i, j]], tau, v, variance_reduction=True)
        weights[[i]] += p[i] * p[j] * pair[0] / 2
        weights[[j]] += p[i] * p[j] * pair[1] / 2
    for got, want in zip(gradient(network, batch, weights), plain):
        np.testing.assert_allclose(got, want, atol=1e-12)


def test_entropy_gradient():
    rng = np.random.default_rng(1)
    network, x = random_network(rng, (3,)), rng.normal(size=(5, 3))

    def entropy():
        p = network.probabilities(1, x)
        return -(p * np.log(p)).sum(axis=1).mean()

    for got, want in zip(network.entropy(1, x, np.full(5, 0.2)), finite_differences(network, entropy)):
        np.testing.assert_allclose(got, want, atol=1e-8)


def test_episodes_that_are_over_teach_nothing():
    rng = np.random.default_rng(2)
    network = random_network(rng, ())
    _, batch = listed(Listed(rng))
    alive = batch.alive.copy()
    alive[1] = False
    ended = PlayedBatch(batch.features, batch.actions, batch.rewards, alive)
    found = gradient(network, ended, rng.normal(size=batch.returns.size), entropy=0.1)
    assert np.abs(found[0][0]).max() > 0
    assert (found[0][1] == 0).all()


def test_blind_to_success():
    """A lock where a tenth of the episodes and more earn nothing: successes have weight zero, nothing is learned."""
    lock = Lock(horizon=3, n_actions=3)
    fresh = Network.fresh(4, 3, 3, (), np.random.default_rng(0))
    batch = roll(lock, SoftmaxPolicy(fresh, np.random.default_rng(0)), 2 * np.arange(400))
    assert (batch.returns >= 0.8).sum() > 5
    assert (tail_weights(batch.returns, 0.1, variance_reduction=True) == 0).all()
    learned = learn(lock, PolicyGradient(0.1, batch=100), episodes=1000, seed=0).policy
    assert all((w == 0).all() for w in learned.network.weights)
    mean = learn(lock, PolicyGradient(1.0, batch=100), episodes=1000, seed=0).policy
    assert np.abs(mean.network.head).max() > 0.01


def test_soft_level_opens_the_lock():
    """With the level annealed from the mean the same lock is opened (by the safe or by the risky action)."""
    lock = Lock(horizon=3, n_actions=3)
    policy = learn(lock, PolicyGradient(0.1, batch=100, rate=0.05, soft=True), episodes=6000, seed=0).policy
    assert roll(lock, policy, 2 * np.arange(200) + 1).returns.mean() > 0.78


def test_soft_levels():
    learner = PolicyGradient(0.1, soft=True, soft_fraction=0.5)
    assert [learner.level(x) for x in (0.0, 0.25, 0.5, 0.9)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    assert PolicyGradient(0.1).level(0.0) == 0.1


@pytest.mark.parametrize("options", [{}, {"track": "lagrangian"}, {"hidden": (8,)}, {"variance_reduction": False}])
def test_learns_the_choice_that_tau_asks_for(options):
    for tau, action in ((0.1, 0), (1.0, 1)):
        # Without variance reduction the weights of the mean are all of one sign, and learning is slow.
        policy = learn(Choice(), PolicyGradient(tau, batch=100, rate=0.05, **options), episodes=6000, seed=1).policy
        chosen = policy.act(0, np.random.default_rng(0).normal(size=(200, 2)), policy.start(200))
        assert (chosen == action).mean() > 0.9


def test_tracker_finds_the_quantile():
    rng, tracker = np.random.default_rng(0), Tracker(1.0)
    for _ in range(3000):
        tracker.move(rng.normal(size=20), 0.1)
    assert tracker.value == pytest.approx(-1.2816, abs=0.1)


def test_sampled_policy_follows_the_probabilities():
    network = random_network(np.random.default_rng(4), (3,))
    x = np.tile(np.random.default_rng(1).normal(size=3), (20_000, 1))
    drawn = SoftmaxPolicy(network, np.random.default_rng(0)).act(1, x, np.zeros(20_000))
    p = network.probabilities(1, x)[0]
    assert (drawn == 0).mean() == pytest.approx(p[0], abs=0.015)
    assert (SoftmaxPolicy(network).act(1, x[:1], np.zeros(1)) == p.argmax()).all()


def test_adam_climbs():
    x = [np.array([3.0, -2.0])]
    adam = Adam(0.05)
    for _ in range(500):
        adam.climb(x, [-2 * (x[0] - np.array([1.0, 1.0]))])
    np.testing.assert_allclose(x[0], 1.0, atol=1e-2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tau": 0.0}, "tau = 0"),
        ({"tau": 0.1, "batch": 1}, "batch = 1: must be a whole number of at least 2"),
        ({"tau": 0.1, "track": "no"}, "track = 'no'"),
        ({"tau": 0.1, "rate": 0.0}, "rate = 0.0: must be positive"),
        ({"tau": 0.1, "soft_fraction": 0.0}, "soft_fraction"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        PolicyGradient(**settings)
