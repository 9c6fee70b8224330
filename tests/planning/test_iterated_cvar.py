"""The nested CVaR planner against its definition and against published figures."""

from __future__ import annotations

import numpy as np
import pytest

import tailrank
from brute_force import best_cvar_by_brute_force, cvar_by_sorting, random_rows
from domains import domain_columns
from tailrank.models.grid import rounded_grid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.criteria.mean import risk_neutral
from tailrank.planning.criteria.nested import iterated_cvar, nested_value
from tailrank.planning.exact.return_law import return_law


def by_definition(m, tau):
    """J_0 by plain recursion, [S]; outcomes come with discounted rewards, so J_h is in units of step 0."""
    after = [0.0] * len(m.start)
    for h in reversed(range(m.horizon)):
        after = [
            max(
                cvar_by_sorting([r + after[t] for t, _, r in out], [p for _, p, _ in out], tau)
                for out in m.outcomes(h, s).values()
            )
            for s in range(len(m.start))
        ]
    return np.array(after)


@pytest.mark.parametrize("seed", range(40))
def test_values_are_the_recursion(seed):
    rng = np.random.default_rng(seed)
    m = random_rows(rng, leaves=500)
    tau = float(rng.choice([0.05, 0.25, 0.5, 0.9, 1.0]))
    mdp = FiniteMDP.from_rows(**m.columns())
    policy, values = iterated_cvar(mdp, tau)
    np.testing.assert_allclose(values[0], by_definition(m, tau), atol=1e-10)
    expected = cvar_by_sorting(by_definition(m, tau), m.start, tau)
    assert nested_value(mdp, tau, values) == pytest.approx(expected, abs=1e-10)
    assert return_law(policy, mdp).cvar(tau) <= best_cvar_by_brute_force(m, [tau])[0] + 1e-9


def test_tau_one_is_the_mean():
    mdp = FiniteMDP.from_rows(**random_rows(np.random.default_rng(3)).columns())
    np.testing.assert_allclose(iterated_cvar(mdp, 1.0)[1][0], risk_neutral(mdp)[1][0], atol=1e-12)


def test_lowest_action_wins_ties_and_missing_actions_are_never_chosen():
    rows = {"state": [0, 0, 1, 1], "action": [1, 2, 0, 1], "next_state": [1, 1, 0, 0], "probability": [1.0] * 4}
    mdp = FiniteMDP.from_rows(**rows, reward=[-0.3, -0.1 - 0.2, 1.0, 1.0], horizon=3, n_actions=4)
    policy, values = iterated_cvar(mdp, 0.1)
    assert policy.actions.tolist() == [[1, 0]] * 3
    assert values[0] == pytest.approx([0.4, 1.7])


PUBLISHED = {"machine": (-10.0, 0.01), "ruin": (0.0, 0.01), "inventory": (0.0, 0.1), "inventory_generic": (135, 1)}


@pytest.mark.parametrize("name", [*PUBLISHED, "riverswim"])
def test_published_cvar_of_the_nested_policy(name):
    mdp = FiniteMDP.from_rows(**domain_columns(name))
    value, noise = PUBLISHED.get(name, (217, 2))
    grid = rounded_grid(0.5 if name == "riverswim" else 0.1, np.zeros(mdp.horizon), mdp.discount, "nearest")
    result = return_law(iterated_cvar(mdp, 0.1)[0], mdp, grid)
    assert result.cvar(0.1) - noise <= value <= result.cvar_upper(0.1) + noise


def test_solve_reports_the_nested_value_as_claim():
    m = random_rows(np.random.default_rng(11), "integers")
    mdp = FiniteMDP.from_rows(**m.columns())
    best, plan = tailrank.solve(mdp, tau=0.3), tailrank.solve(mdp, tau=0.3, criterion="iterated")
    expected = cvar_by_sorting(by_definition(m, 0.3), m.start, 0.3)
    assert plan.claim == pytest.approx(expected, abs=1e-9)
    assert (plan.criterion, plan.budget, plan.notes) == ("iterated", None, ())
    assert plan.cvar <= best.cvar + 1e-9
    assert (plan.lower, plan.upper) == (best.lower, best.upper)
