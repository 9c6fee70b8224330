"""The decomposition over confidence levels: the inner minimum, the claim, and what its policy earns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

import tailrank
from brute_force import best_cvar_by_brute_force, cvar_by_sorting, follow, random_rows
from domains import case_rows, hau_counter_example, load_case
from tailrank.checks import InputError
from tailrank.models.grid import rounded_grid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.criteria import chow as module
from tailrank.planning.criteria.chow import chow, decompose, default_levels
from tailrank.planning.criteria.mean import risk_neutral
from tailrank.planning.criteria.registry import OVERESTIMATES, evaluate_levels
from tailrank.planning.exact.return_law import return_law
from tailrank.policies.moved import Moved


def least_by_lp(p, r, discount, after, levels, y):
    """min sum p (r z + discount t), t above every line of W', sum p z = y; variables z [n], t [n]."""
    n, lines, right = p.size, [], []
    slope = np.diff(after, axis=1) / np.diff(levels)
    for i in range(n):
        for k in range(levels.size - 1):
            row = np.zeros(2 * n)
            row[i], row[n + i] = slope[i, k], -1.0
            lines.append(row)
            right.append(slope[i, k] * levels[k] - after[i, k])
    total = np.concatenate([p, np.zeros(n)])[None]
    bounds = [(0, 1)] * n + [(None, None)] * n
    answer = linprog(np.concatenate([p * r, discount * p]), lines, right, total, [y], bounds)
    assert answer.status == 0
    return answer.fun


@pytest.mark.parametrize("seed", range(10))
def test_inner_minimum_is_that_of_a_linear_program(seed):
    rng = np.random.default_rng(seed)
    n, K, discount = int(rng.integers(1, 5)), int(rng.integers(3, 7)), float(rng.choice([1.0, 0.7]))
    levels = np.concatenate([[0.0], np.sort(rng.random(K - 2)), [1.0]])
    slope = np.sort(rng.integers(-3, 4, (n, K - 1)) + rng.integers(0, 2) * rng.normal(size=(n, K - 1)))
    after = np.concatenate([np.zeros((n, 1)), np.cumsum(slope * np.diff(levels), axis=1)], axis=1)
    p, r = rng.dirichlet(np.ones(n)), rng.integers(-3, 4, n).astype(float)
    values, actions, next_level = np.zeros((1, K)), np.zeros((1, K), np.uint8), np.zeros((n, K), np.uint8)
    ptr, rows = np.array([0, n]), np.arange(n)
    decompose(levels, ptr, rows, p, r, discount, after, 1, 1e-12, values, actions, next_level)
    for k, y in enumerate(levels):
        assert values[0, k] == pytest.approx(least_by_lp(p, r, discount, after, levels, y), abs=1e-7)
    assert (np.diff(values[0]) / np.diff(levels)[:]).tolist() == pytest.approx(
        np.sort(np.diff(values[0]) / np.diff(levels)).tolist(), abs=1e-9
    )  # convex
    assert (next_level[:, 0] == 0).all()
    assert (next_level[:, -1] == K - 1).all()
    widest = np.diff(levels).max()
    assert np.abs(p @ levels[next_level] - levels).max() <= 0.5 * p.max() * widest + 1e-9


@pytest.mark.parametrize("seed", range(60))
def test_claims_at_least_the_optimum_and_earns_at_most_that(seed):
    rng = np.random.default_rng(seed)
    m = random_rows(rng, leaves=500)
    tau = float(rng.choice([0.05, 0.3, 0.5, 0.8, 1.0]))
    mdp = FiniteMDP.from_rows(**m.columns())
    policy, claim, _ = chow(mdp, tau)
    best = best_cvar_by_brute_force(m, [tau])[0]
    values, probs = follow(m, policy)
    earned = cvar_by_sorting(values, probs, tau)
    assert claim >= best - 1e-9
    assert earned <= best + 1e-9
    assert evaluate_levels(policy, mdp).cvar(tau) == pytest.approx(earned, abs=1e-9)
    assert return_law(policy, mdp).cvar(tau) == pytest.approx(earned, abs=1e-9)
    if tau == 1.0:
        assert claim == pytest.approx(m.start @ risk_neutral(mdp)[1][0], abs=1e-9)


def test_one_step_is_exact():
    """Nothing is decomposed over one step, and a random start only takes the worst of the states."""
    m = {"state": [0, 0, 1], "action": [0, 0, 0], "next_state": [0, 0, 0], "probability": [0.25, 0.75, 1.0]}
    mdp = FiniteMDP.from_rows(**m, reward=[-4.0, 2.0, 1.0], horizon=1, start={0: 0.5, 1: 0.5})
    policy, claim, W = chow(mdp, 0.5, levels=[0, 0.25, 0.5, 0.75, 1])
    assert claim == pytest.approx((0.125 * -4 + 0.375 * 1) / 0.5, abs=1e-12)
    assert W[0] == pytest.approx([0, -1.0, -0.5, 0, 0.5])
    assert policy.levels[policy.start_level].tolist() == [0.25, 0.75]


def test_the_grid_always_holds_tau():
    for tau in (1e-4, 0.0500001, 0.1, 1 / 3, 0.99999, 1.0):
        levels = default_levels(tau)
        assert tau in levels
        assert (np.diff(levels) > 0).all()
        assert (levels[0], levels[-1]) == (0.0, 1.0)
    mdp = FiniteMDP.from_rows(**hau_counter_example().columns())
    assert 0.5 in chow(mdp, 0.5, levels=[0, 0.3, 1])[0].levels


def test_hau_counter_example():
    mdp = FiniteMDP.from_rows(**hau_counter_example().columns())
    policy, claim, _ = chow(mdp, 0.5)
    assert claim == pytest.approx(100.0, abs=1e-9)
    assert return_law(policy, mdp).cvar(0.5) == pytest.approx(0.0, abs=1e-9)
    plan = tailrank.solve(mdp, tau=0.5, criterion="chow")
    assert (plan.lower, plan.upper, plan.status) == (50.0, 50.0, "exact")
    assert (plan.claim, plan.cvar) == pytest.approx((100.0, 0.0), abs=1e-9)
    assert plan.notes == (OVERESTIMATES,)
    assert tailrank.solve(mdp, tau=1.0, criterion="chow").notes == ()


def test_golden_failure_case():
    mdp = FiniteMDP.from_rows(**case_rows(load_case("10_chow_failure")).columns())
    policy, claim, _ = chow(mdp, 0.5)
    assert claim == pytest.approx(0.42, abs=1e-9)
    assert policy.act(0, np.array([0]), policy.start(1)).tolist() == [0]
    assert tailrank.solve(mdp, tau=0.5, criterion="chow").upper == pytest.approx(0.39)


def test_a_law_too_large_to_list_is_bracketed():
    rng = np.random.default_rng(1)
    S, A, H = 4, 2, 12
    mdp = FiniteMDP.from_arrays(rng.dirichlet(np.ones(S), (S, A)), rng.normal(size=(S, A, S)), horizon=H)
    policy, claim, _ = chow(mdp, 0.2)
    result = evaluate_levels(policy, mdp, rounded_grid(0.01, np.zeros(H), 1.0, "nearest"))
    assert result.method == "moments"
    assert result.cvar(0.2) <= result.cvar_upper(0.2) <= claim
    assert result.cvar_upper(0.2) - result.cvar(0.2) < 1e-2


def test_levels_and_size_are_checked(monkeypatch):
    mdp = FiniteMDP.from_rows(**hau_counter_example().columns())
    for bad in ([0.1, 1], [0, 0.5], [0, 0.5, 0.5, 1], [0]):
        with pytest.raises(InputError, match="levels: must increase"):
            chow(mdp, 0.5, bad)
    monkeypatch.setattr(module, "MEMORY_LIMIT", 500)
    with pytest.raises(InputError, match=r"need .* GB"):
        chow(mdp, 0.5)


def test_an_outcome_that_is_not_in_the_model_is_refused():
    mdp = FiniteMDP.from_rows(**hau_counter_example().columns())
    policy = chow(mdp, 0.5)[0]
    one = np.array([1])
    with pytest.raises(InputError, match="no outcome of state 1, action 1 has next state 1"):
        policy.update(1, Moved(one, one, np.array([0.0]), one), one)
