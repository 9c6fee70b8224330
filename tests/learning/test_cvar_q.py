"""CVaR Q-learning: right where the decomposition is, wrong where it is, and its policy judged exactly."""

from __future__ import annotations

import numpy as np
import pytest

from brute_force import cvar_by_sorting
from domains import case_rows, hau_counter_example, load_case
from tailrank import InputError
from tailrank.envs import from_mdp, make_episodic
from tailrank.episodes.streams import Streams
from tailrank.learning.rivals.states.cvar_q import CvarQ, learn, least_shortfall, slopes
from tailrank.learning.train import train
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.criteria.chow import chow
from tailrank.planning.solve import solve


def last(learner, env, iterations, seed=0):
    *_, (state, row) = train(learner, env, iterations=iterations, seed=seed)
    return state, row


def test_claims_what_chow_claims_on_the_counter_example():
    """Hau: no policy has more than 50 at tau = .5; the levels promise 100. What is best at the level earns 0."""
    mdp = FiniteMDP.from_rows(**hau_counter_example().columns())
    assert chow(mdp, 0.5)[1] == pytest.approx(100.0)
    assert solve(mdp, tau=0.5).cvar == pytest.approx(50.0)
    env = from_mdp(mdp)
    learner = CvarQ(0.5, epsilon=1.0, batch=500)
    claims = []
    for seed in range(3):
        state, row = last(learner, env, 40, seed)
        claims.append(row["objective"])
        assert row["cvar"] == pytest.approx(50.0)  # one s for the whole episode repairs it here
        half = int(np.searchsorted(learner.levels, 0.5))
        assert (state.plan.actions[0][0] == state.cvar[0, 0, :, half].argmax()).all()  # the first action: by CVaR
        assert state.cvar[1, 1, :, half].argmax() in (0, 1)  # both earn 0 in the end; the best action is 2
    assert np.mean(claims) == pytest.approx(100.0, abs=4.0)


def test_the_policy_can_fail_too():
    """A case where the claim is above the optimum and the VaR-based policy stays below it."""
    mdp = FiniteMDP.from_rows(**case_rows(load_case("10_chow_failure")).columns())
    best = solve(mdp, tau=0.5).cvar
    _, row = last(CvarQ(0.5, epsilon=1.0, batch=500), from_mdp(mdp), 40)
    assert row["objective"] == pytest.approx(chow(mdp, 0.5)[1], abs=0.01)
    assert row["objective"] > best + 0.01
    assert row["cvar"] < best - 0.01


@pytest.mark.parametrize("tau", [0.1, 0.3, 1.0])
def test_one_step_is_right(tau):
    """Nothing is decomposed: the claim is the best CVaR of three gambles."""
    gambles = [([0.0, 1.0, 4.0], [0.2, 0.3, 0.5]), ([1.0], [1.0]), ([0.0, 2.0], [0.1, 0.9])]
    rows = [(0, a, 0, p, x) for a, (xs, ps) in enumerate(gambles) for x, p in zip(xs, ps)]
    mdp = FiniteMDP.from_rows(*(np.array(c) for c in zip(*rows)), horizon=1)
    best = max(cvar_by_sorting(np.array(xs), ps, tau) for xs, ps in gambles)
    _, row = last(CvarQ(tau, epsilon=1.0, batch=500), from_mdp(mdp), 40)
    assert row["objective"] == pytest.approx(best, abs=0.1)
    assert row["cvar"] == pytest.approx(best)


def test_deterministic_chain_is_right():
    """Three steps, every action pays its number or less later; the best return is found and claimed exactly."""
    rows = [(h, s, a, (s + a) % 3, 1.0, float((s * a + h) % 3)) for h in range(3) for s in range(3) for a in range(3)]
    h, s, a, t, p, r = (np.array(c) for c in zip(*rows))
    mdp = FiniteMDP.from_rows(s, a, t, p, r, step=h, start=0, n_states=3)
    best = solve(mdp, tau=0.1).cvar
    _, row = last(CvarQ(0.1, epsilon=0.5, batch=100), from_mdp(mdp), 50)
    assert row["objective"] == pytest.approx(best, abs=0.1)
    assert row["cvar"] == pytest.approx(best)


def test_slopes_are_the_law():
    levels = np.array([0.2, 0.5, 1.0])
    values, weights = np.array([1.0, 2.0, 7.0]), np.array([0.2, 0.3, 0.5])
    tail = np.array([cvar_by_sorting(values, weights, y) for y in levels])
    got, p = slopes(tail, levels)
    np.testing.assert_allclose(got, values)
    np.testing.assert_allclose(p, weights)
    sure = np.full(3, 3.0)
    chosen = least_shortfall(np.stack([tail, sure]), levels, 9)
    for c in range(9):
        short = [weights @ np.maximum(c - values, 0), max(c - 3.0, 0)]
        want = 0 if short[0] == pytest.approx(short[1]) else int(np.argmin(short))  # the first has the larger mean
        assert chosen[c] == want


def test_kernel_is_the_update_rule():
    """One transition, written out with NumPy."""
    rng, levels = np.random.default_rng(0), np.array([0.1, 0.4, 1.0])
    var, tail = rng.uniform(0, 6, (2, 2, 2, 3)), np.sort(rng.uniform(0, 6, (2, 2, 2, 3)), axis=3)
    visits = rng.integers(3, 9, (2, 2, 2))
    got_var, got_tail, got_visits = var.copy(), tail.copy(), visits.copy()
    states, actions, units = np.array([[0], [1], [0]]), np.array([[1], [0], [0]]), np.array([[2], [1], [0]])
    learn(got_var, got_tail, got_visits, states, actions, units, levels, 3.0)
    for h, s, a, r in ((1, 1, 0, 1), (0, 0, 1, 2)):
        values, weights = np.array([0.0]), np.array([1.0])
        if h == 0:
            values, weights = slopes(tail[1, 1].max(axis=0), levels)
        n = visits[h, s, a] + 1
        for k, y in enumerate(levels):
            v = var[h, s, a, k]
            below = weights[r + values <= v].sum()
            short = weights @ np.minimum(r + values - v, 0)
            tail[h, s, a, k] += 3 / (2 + n) * (v + short / y - tail[h, s, a, k])
            var[h, s, a, k] = np.clip(v + 3.0 * (2 - h) * n**-0.8 * (y - below) / np.sqrt(y), 0, 3.0 * (2 - h))
    np.testing.assert_allclose(got_var, var)
    np.testing.assert_allclose(got_tail, tail)
    assert got_visits.sum() == visits.sum() + 2


def test_goes_on_from_arrays():
    env, learner = make_episodic("risky-shortcut"), CvarQ(0.1, batch=20)
    states = [s for s, _ in train(learner, env, iterations=6, seed=1)]
    again = learner.init(env, Streams(0)).from_arrays(states[2].to_arrays())
    for _ in range(3):
        again, _ = learner.step(again, env, Streams(1))
    np.testing.assert_array_equal(again.cvar, states[5].cvar)
    np.testing.assert_array_equal(again.plan.actions[1], states[5].plan.actions[1])


def test_bad_settings():
    with pytest.raises(InputError, match="epsilon = 2"):
        CvarQ(0.1, epsilon=2)
    with pytest.raises(InputError, match="optimistic = 1: must be true or false"):
        CvarQ(0.1, optimistic=1)
    with pytest.raises(InputError, match="states = 100000: H S A K"):
        CvarQ(0.1).init(make_episodic("risky-lock", n_states=100_000), Streams(0))
