"""Approximate value iteration with a sampled risk map: exact where nothing is random, 1 / sqrt(n) elsewhere."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import tailrank
from brute_force import cvar_by_sorting
from tailrank import InputError
from tailrank.cli import main
from tailrank.envs import write_mdp
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.criteria.nested import iterated_cvar, nested_value
from tailrank.planning.criteria.sampled_nested import Sampling, empirical_cvar, iteration, sampled_iterated


def random_mdp(seed=3, discount=1.0, horizon=3):
    """Five states, three actions, next states and rewards at random."""
    rng = np.random.default_rng(seed)
    s, a, t = (x.ravel() for x in np.meshgrid(range(5), range(3), range(5), indexing="ij"))
    p = rng.dirichlet(np.ones(5), size=15).ravel()
    return FiniteMDP.from_rows(s, a, t, p, rng.integers(11, size=75) / 10, horizon=horizon, discount=discount)


@pytest.mark.parametrize("n", [1, 2, 7, 50])
@pytest.mark.parametrize("tau", [0.01, 0.3, 0.5, 1.0])
def test_empirical_cvar_is_the_mean_of_the_lowest(n, tau):
    rows = np.random.default_rng(n).normal(size=(4, n))
    expected = [cvar_by_sorting(row, np.full(n, 1 / n), tau) for row in rows]
    np.testing.assert_allclose(empirical_cvar(rows, tau), expected, atol=1e-12)


def test_exact_where_nothing_is_random():
    rng = np.random.default_rng(0)
    s, a = (x.ravel() for x in np.meshgrid(range(6), range(3), indexing="ij"))
    mdp = FiniteMDP.from_rows(s, a, rng.integers(6, size=18), np.ones(18), rng.normal(size=18), horizon=5, discount=0.9)
    found = sampled_iterated(mdp, 0.1, Sampling(samples=3))
    policy, values = iterated_cvar(mdp, 0.1)
    np.testing.assert_allclose(found.values, values, atol=1e-12)
    np.testing.assert_array_equal(found.policy.actions, policy.actions)
    assert (found.error, found.spread) == (0.0, 0.0)


def test_it_converges_at_the_rate_of_a_mean():
    mdp, tau = random_mdp(), 0.3
    best = iterated_cvar(mdp, tau)[1]
    sizes, errors = np.array([100, 400, 1600, 6400]), []
    for n in sizes:
        off = [iteration(mdp, tau, n, np.random.default_rng([n, i]))[1][0] - best[0] for i in range(12)]
        errors.append(np.sqrt(np.mean(np.square(off))))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.6 <= slope <= -0.4
    assert errors[-1] < 0.02


def test_the_bound_holds_and_shrinks():
    mdp, tau = random_mdp(seed=5, discount=0.9), 0.5
    best = nested_value(mdp, tau, iterated_cvar(mdp, tau)[1])
    bounds = {}
    for n in (200, 20_000):
        for seed in range(8):
            found = sampled_iterated(mdp, tau, Sampling(n, seed, repetitions=1))
            assert abs(found.value - best) <= found.error
            assert np.isnan(found.spread)
        bounds[n] = found.error
    assert bounds[20_000] < 0.2 * bounds[200]
    assert bounds[20_000] < 0.1
    # one step, one pair: eps = sqrt(log(2 / .05) / (2 n)), over tau, times the range
    coin = FiniteMDP.from_rows([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 2.0], horizon=1)
    expected = np.sqrt(np.log(2 / 0.05) / 2000) / 0.5 * 2.0
    assert sampled_iterated(coin, 0.5, Sampling(1000)).error == pytest.approx(expected)


def test_the_spread_is_that_of_the_repetitions():
    mdp, tau = random_mdp(), 0.3
    values = [nested_value(mdp, tau, iteration(mdp, tau, 50, np.random.default_rng([4, i]))[1]) for i in range(6)]
    found = sampled_iterated(mdp, tau, Sampling(50, 4, repetitions=6))
    assert found.value == values[0]
    assert found.spread == pytest.approx(np.std(values, ddof=1))


def test_draws_in_parts_are_as_good(monkeypatch):
    mdp = random_mdp()
    whole = iteration(mdp, 0.3, 200, np.random.default_rng(0))[1]
    monkeypatch.setattr("tailrank.planning.criteria.sampled_nested.DRAWS", 1000)
    parts = iteration(mdp, 0.3, 200, np.random.default_rng(0))[1]
    np.testing.assert_allclose(parts, whole)


def test_features():
    mdp, sampling = random_mdp(), Sampling(20_000, repetitions=1)
    tables = sampled_iterated(mdp, 0.3, sampling)
    same = sampled_iterated(mdp, 0.3, sampling, features=2.0 * np.eye(5))
    np.testing.assert_allclose(same.values, tables.values, atol=1e-10)
    assert same.error == np.inf
    mean = sampled_iterated(mdp, 0.3, sampling, features=np.ones((5, 1)))  # one number a step
    last = np.sort(tables.values[-2])
    np.testing.assert_allclose(mean.values[-2], last.mean())
    with pytest.raises(InputError, match=r"features: must have shape \(5, d\), found \(4, 2\)"):
        sampled_iterated(mdp, 0.3, sampling, features=np.ones((4, 2)))


def test_missing_actions_are_never_chosen():
    rows = {"state": [0, 0, 1, 1], "action": [1, 2, 0, 1], "next_state": [1, 1, 0, 0], "probability": [1.0] * 4}
    mdp = FiniteMDP.from_rows(**rows, reward=[-0.3, -0.1 - 0.2, 1.0, 1.0], horizon=3, n_actions=4)
    assert sampled_iterated(mdp, 0.1, Sampling(5)).policy.actions.tolist() == [[1, 0]] * 3


def test_solve_says_how_far_off_it_may_be():
    mdp = random_mdp()
    exact = tailrank.solve(mdp, tau=0.3, criterion="iterated")
    plan = tailrank.solve(mdp, tau=0.3, criterion="sampled-iterated", samples=4000, seed=1)
    found = sampled_iterated(mdp, 0.3, Sampling(4000, 1))
    assert plan.claim == found.value
    assert abs(plan.claim - exact.claim) <= found.error
    assert (plan.lower, plan.upper) == (exact.lower, exact.upper)
    assert f"within {found.error:.3g} of the nested CVaR" in plan.notes[-1]
    assert "4000 outcomes of each pair (seed 1)" in plan.notes[-1]
    again = tailrank.solve(mdp, tau=0.3, criterion="sampled-iterated", samples=4000, seed=1)
    assert again.claim == plan.claim
    for name in ("samples", "seed"):
        with pytest.raises(InputError, match=f"{name}: is only for the criterion sampled-iterated, found cvar"):
            tailrank.solve(mdp, tau=0.3, **{name: 5})
    with pytest.raises(InputError, match="samples = 0: must be a whole number"):
        tailrank.solve(mdp, tau=0.3, criterion="sampled-iterated", samples=0)


def test_command_line(tmp_path):
    path = str(tmp_path / "m.json")
    write_mdp(random_mdp(), path)
    options = ("--criterion", "sampled-iterated", "--samples", "50", "--seed", "3", "--tau", "0.3", "--json")
    result = CliRunner().invoke(main, ["solve", path, *options])
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert data["results"][0]["claim"] == sampled_iterated(random_mdp(), 0.3, Sampling(50, 3)).value
    assert any("50 outcomes of each pair (seed 3)" in line for line in data["notes"])
    refused = CliRunner().invoke(main, ["solve", path, "--samples", "50"])
    assert (refused.exit_code, refused.stdout) == (2, "")
