"""Importance weights against hand computations, fresh episodes, and UnO's construction on a small example."""

from __future__ import annotations

import math

import numpy as np
import pytest

from logged import frame_of, small_mdp
from tailrank import FiniteMDP, InputError, MarkovPolicy, ReturnLaw, evaluate, solve
from tailrank.envs.logs.read import read_log
from tailrank.learning.offline.importance import band_laws, chosen_thresholds, frequencies, judged, weigh, weights_of
from tailrank.policies.moved import Moved

SMALL = {
    "episode": [0, 0, 1, 1, 2, 2],
    "state": [0, 1, 0, 1, 0, 0],
    "action": [0, 1, 0, 0, 1, 1],
    "reward": [1.0, 3.0, 1.0, 0.0, 2.0, 2.0],
    "probability": [0.5, 0.25, 0.5, 0.75, 0.5, 0.5],
}


def test_weights_by_hand():
    """The policy plays 0 in state 0 and 1 in state 1: only the first episode is one of its own, 1 / (0.5 0.25)."""
    log = read_log(SMALL)
    policy = MarkovPolicy(np.array([[0, 1], [0, 1]]))
    assert log.probability is not None
    assert weights_of(policy, log, log.probability).tolist() == [8.0, 0.0, 0.0]
    found = weigh(policy, log, 0.5, delta=0.1, ends=(0.0, 8.0), thresholds=np.array([1.0, 4.0]))
    assert (found.cvar, found.mean, found.matched, found.effective, found.largest) == (4.0, 4.0, 1, 1.0, 8.0)
    assert frequencies(log).tolist() == pytest.approx([0.5, 0.5, 0.5, 0.5, 0.5, 0.5])


def test_weights_use_the_budget():
    """A budget policy acts on what it has earned: the second action depends on the first reward."""
    rows = [(0, 0, 1, 0.5, 0), (0, 0, 1, 0.5, 2), (1, 0, 1, 1.0, 1), (1, 1, 1, 0.5, 0), (1, 1, 1, 0.5, 3)]
    mdp = FiniteMDP.from_rows(*zip(*rows), horizon=2)
    policy = solve(mdp, 0.25).policy
    memory = policy.start(2)
    states, rewards = np.array([0, 0]), np.array([0.0, 2.0])
    memory = policy.update(0, Moved(states, np.zeros(2, dtype=int), rewards, np.array([1, 1])), memory)
    second = policy.act(1, np.array([1, 1]), memory)
    frame = {
        "episode": [0, 0, 1, 1],
        "state": [0, 1, 0, 1],
        "action": [0, second[0], 0, 1 - second[1]],
        "reward": [0.0, 1.0, 2.0, 0.0],
        "probability": [1.0, 0.5, 1.0, 0.5],
    }
    log = read_log(frame, states=(0, 1), actions=(0, 1))
    assert weights_of(policy, log, log.probability).tolist() == [2.0, 0.0]


def test_band_laws_by_hand():
    """P(R >= 1) >= 0.6, P(R >= 3) >= 0.2 | P(R <= 1) >= 0.1, P(R <= 3) >= 0.5, returns in [0, 10]."""
    worse, better = band_laws(np.array([1.0, 3.0]), np.array([0.6, 0.2]), np.array([0.1, 0.5]), (0.0, 10.0))
    assert dict(zip(worse.values, worse.probs)) == pytest.approx({0.0: 0.4, 1.0: 0.4, 3.0: 0.2})
    assert dict(zip(better.values, better.probs)) == pytest.approx({1.0: 0.1, 3.0: 0.4, 10.0: 0.5})
    assert worse.cvar(0.5) == pytest.approx(0.1 / 0.5)
    assert better.cvar(0.5) == pytest.approx((0.1 * 1 + 0.4 * 3) / 0.5)


def test_against_unos_construction():
    """UnO bounds P(R <= x) by an interval for the mean of w 1{R <= x} at each threshold, then takes the worst CDF.

    Done by hand with Hoeffding's interval for weights of at most 2 (one step, two actions): ours is at least as tight
    here, and both hold.
    """
    n, delta, tau = 4000, 0.1, 0.25
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, n)
    reward = np.where(rng.random(n) < 0.3, 0.0, 1.0) * (action == 0) + (action == 1)
    frame = {
        "episode": np.arange(n), "state": np.zeros(n, int), "action": action, "reward": reward,
        "probability": np.full(n, 0.5),
    }  # fmt: skip
    policy = MarkovPolicy(np.array([[0]]))
    found = weigh(policy, read_log(frame), tau, delta=delta, ends=(0.0, 1.0), thresholds=np.array([0.0, 1.0]))
    w = 2.0 * (action == 0)
    least = (w * (reward >= 1.0)).mean() - 2.0 * math.sqrt(
        math.log(2 * 2 / delta) / (2 * n)
    )  # two thresholds, one side
    uno = ReturnLaw.of([0.0, 1.0], [1 - least, least]).cvar(tau)
    true = ReturnLaw.of([0.0, 1.0], [0.3, 0.7]).cvar(tau)
    assert uno <= found.lower <= true <= found.upper


def test_agrees_with_fresh_episodes():
    """In 60 logs the interval of each measure holds the exact value, and the estimates are about right."""
    mdp, tau = small_mdp(2), 0.3
    policy = solve(mdp, tau).policy
    exact = evaluate(policy, mdp, tau)
    points = []
    for seed in range(60):
        log = read_log(frame_of(mdp, 1500, 7000 + seed), states=(0, 1, 2), actions=(0, 1))
        found = judged(policy, log, tau, delta=0.1, ends=(0.0, 9.0), discount=1.0, rng=np.random.default_rng(seed))
        assert found.lower <= exact.cvar <= found.upper
        assert found.var_lower <= exact.var <= found.var_upper
        assert found.mean_lower <= exact.mean <= found.mean_upper
        points.append((found.cvar, found.mean, found.clipped))
    assert np.mean(points, axis=0) == pytest.approx([exact.cvar, exact.mean, exact.cvar], abs=0.15)


def test_estimated_probabilities_are_marked():
    frame = dict(SMALL)
    del frame["probability"]
    found = weigh(
        MarkovPolicy(np.zeros((2, 2), int)), read_log(frame), 0.5, delta=0.1, ends=(0, 8), thresholds=np.ones(1)
    )
    assert found.estimated


def test_cut_episodes_support_nothing():
    frame = dict(SMALL) | {"terminated": [False] * 6}
    log = read_log(frame, horizon=3)
    assert log.cut.all()
    found = weigh(MarkovPolicy(np.zeros((3, 2), int)), log, 0.5, delta=0.1, ends=(0.0, 9.0), thresholds=np.ones(1))
    assert (found.lower, found.upper, found.cvar) == (0.0, 9.0, None)


def test_thresholds_are_few():
    assert chosen_thresholds(np.array([3.0, 1.0, 1.0]), (0, 5)).tolist() == [1.0, 3.0]
    many = chosen_thresholds(np.random.default_rng(0).random(1000), (0, 1))
    assert 10 < many.size <= 24
    assert (np.diff(many) > 0).all()


def test_too_long_for_the_policy():
    with pytest.raises(InputError, match="2 steps"):
        weights_of(MarkovPolicy(np.zeros((1, 2), int)), read_log(SMALL), np.ones(6))


def test_probabilities_next_to_nothing_cut_the_weights():
    """No bound becomes NaN; a weight that is cut only lowers bounds on chances."""
    frame = frame_of(small_mdp(), 40, 0)
    log = read_log(frame | {"probability": np.full(len(frame["state"]), 5e-324)})
    always = MarkovPolicy(np.zeros((3, 3), dtype=np.int64))
    with np.errstate(all="raise"):
        found = judged(always, log, 0.3, delta=0.1, ends=(-9.0, 9.0), discount=1.0, rng=np.random.default_rng(0))
    assert found.matched > 0
    assert all(math.isfinite(x) for x in (found.lower, found.upper, found.effective, found.largest, found.cvar))
