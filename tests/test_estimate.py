"""Playing and estimating: episodes follow the law, and intervals hold as often as they say."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import tailrank
from tailrank import FiniteMDP, InputError, evaluate, play, solve
from tailrank.risk import dkw_bounds

MDP = FiniteMDP.from_rows(
    [0, 0, 0, 1, 1],
    [0, 1, 1, 0, 0],
    [1, 0, 1, 0, 1],
    [1, 0.7, 0.3, 0.5, 0.5],
    [1, 3, -4, 0, 2],
    horizon=5,
    discount=0.9,
)


@pytest.mark.parametrize("tau", [0.1, 0.5, 1.0])
def test_episodes_follow_the_exact_law(tau):
    plan = solve(MDP, tau=tau)
    exact = evaluate(plan, MDP)
    sampled = evaluate(plan, MDP, episodes=20_000, rng=np.random.default_rng(0))
    assert exact.method == "exact"
    assert (sampled.method, sampled.episodes, sampled.confidence) == ("dkw", 20_000, 0.95)
    assert sampled.lower <= exact.cvar <= sampled.upper
    assert sampled.mean == pytest.approx(exact.mean, abs=0.1)
    assert sampled.cvar == pytest.approx(exact.cvar, abs=0.15)


@pytest.mark.parametrize(("tau", "n"), [(0.1, 50), (0.1, 400), (0.5, 50), (1.0, 50)])
def test_bounds_hold_as_often_as_they_say(tau, n):
    """Coverage over 2,000 simulated experiments, for a skewed law on [0, 1]."""
    rng = np.random.default_rng(1)
    values, probs = np.array([0.0, 0.2, 0.9, 1.0]), np.array([0.08, 0.3, 0.5, 0.12])
    truth = tailrank.cvar(values, tau, probs)
    samples = rng.choice(values, p=probs, size=(2000, n))
    bounds = np.array([dkw_bounds(sample, tau, 0.9, (0.0, 1.0)) for sample in samples])
    held = ((bounds[:, 0] <= truth + 1e-12) & (truth <= bounds[:, 1] + 1e-12)).mean()
    assert held >= 0.9
    assert (bounds[:, 0] <= bounds[:, 1]).all()
    wider = dkw_bounds(samples[0], tau, 0.99, (0.0, 1.0))
    assert wider[0] <= bounds[0, 0] <= bounds[0, 1] <= wider[1]


def test_playing_in_gymnasium_earns_what_the_table_says():
    read = tailrank.read_mdp("FrozenLake-v1", horizon=100)
    plan = solve(read.mdp, tau=0.5)
    env = gymnasium.make("FrozenLake-v1")
    played = play(plan.policy, env, 300, rng=np.random.default_rng(0), horizon=100)
    assert played.returns.mean() == pytest.approx(plan.mean, abs=0.1)
    again = play(plan.policy, env, 300, rng=np.random.default_rng(0), horizon=100)
    np.testing.assert_array_equal(played.states, again.states)
    estimate = evaluate(plan, env, episodes=100, rng=np.random.default_rng(1), horizon=100)
    assert estimate.method == "bootstrap"
    assert estimate.lower <= estimate.cvar <= estimate.upper


def test_what_is_missing_is_said():
    plan, rng = solve(MDP, tau=0.3), np.random.default_rng(0)
    cases = [
        (lambda: evaluate(plan.policy, MDP), "tau: must be given"),
        (lambda: evaluate(plan, MDP, episodes=5), "rng: a numpy Generator must be given"),
        (lambda: evaluate(plan, MDP, episodes=0, rng=rng), "episodes = 0: must be a whole number of at least 1"),
        (lambda: evaluate(plan, MDP, episodes=5, rng=rng, confidence=1), "confidence = 1: must lie in"),
        (lambda: evaluate(plan, gymnasium.make("FrozenLake-v1")), "episodes: must be given"),
        (lambda: play(plan.policy, gymnasium.make("CartPole-v1"), 1, rng=rng), "observation of episode 0, step 0"),
        (lambda: dkw_bounds(np.array([2.0]), 0.1, 0.9, (0, 1)), "must hold every return, found 2.0"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()
