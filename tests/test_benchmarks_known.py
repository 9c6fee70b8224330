"""Benchmarks whose answers were published: counter-examples, betting games, the five domains."""

from __future__ import annotations

import numpy as np
import pytest

import tailrank
from brute_force import Tiny, best_cvar_by_enumeration
from domains import (
    DOMAINS,
    betting_in_eighths,
    betting_with_jackpot,
    case_rows,
    domain_columns,
    hau_counter_example,
    load_case,
)
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.criteria.chow import chow
from tailrank.planning.exact.return_law import return_law
from tailrank.policies.moved import Moved


def build(m: Tiny) -> FiniteMDP:
    return FiniteMDP.from_rows(**m.columns())


# Where the decomposition over confidence levels fails


def test_hau_counter_example_optimum():
    m = hau_counter_example()
    plan = tailrank.solve(build(m), tau=0.5)
    assert plan.status == "exact"
    assert plan.cvar == pytest.approx(50.0, abs=1e-9)
    assert best_cvar_by_enumeration(m, [0.5])[0] == pytest.approx(50.0, abs=1e-12)
    memory = plan.policy.start(1)
    memory = plan.policy.update(0, Moved(np.array([0]), np.array([0]), np.array([0.0]), np.array([1])), memory)
    assert plan.policy.act(1, np.array([1]), memory).tolist() == [2]


def test_hau_counter_example_chow_claims_100_and_earns_0():
    plan = tailrank.solve(build(hau_counter_example()), tau=0.5, criterion="chow")
    assert plan.claim == pytest.approx(100.0, abs=1e-6)
    assert plan.cvar == pytest.approx(0.0, abs=1e-9)


def test_chow_failure_case_claims_too_much():
    """With the level 0.4, where the decomposition has its kink, among the levels, its claim is exact."""
    case = load_case("10_chow_failure")
    mdp = build(case_rows(case))
    assert chow(mdp, 0.5, np.linspace(0, 1, 11))[1] == pytest.approx(case["chow_value_tau_0.5"], abs=1e-9)
    plan = tailrank.solve(mdp, tau=0.5, criterion="chow")
    assert case["chow_value_tau_0.5"] - 1e-9 <= plan.claim <= 1.02 * case["chow_value_tau_0.5"]
    assert plan.cvar <= 0.36 + 1e-9


# Betting games


@pytest.mark.parametrize(("tau", "money"), [(0.02, 5.000), (0.2, 8.662), (1.0, 41.619)])
def test_betting_with_jackpot(tau, money):
    plan = tailrank.solve(build(betting_with_jackpot()), tau=tau)
    assert plan.status == "exact"
    assert 5 + plan.cvar == pytest.approx(money, abs=5e-4)


def test_betting_in_eighths():
    known = {0.05: 22.778, 0.2: 39.883, 1.0: 167.523}
    plans = tailrank.solve(build(betting_in_eighths()), tau=list(known), tolerance="0.02%")
    for plan, money in zip(plans, known.values(), strict=True):
        assert plan.lower - 5e-4 <= money <= plan.upper + 5e-4
        assert plan.upper - plan.lower <= 2e-4 * plan.upper + 1e-9
        assert plan.risk_neutral.mean == pytest.approx(167.523, abs=5e-4)


# Five domains, tau = 0.1, every figure of a policy's CVaR from 100,000 Monte Carlo episodes

EPISODES = 100_000
PUBLISHED = {
    "machine": {
        "evar": "-4.62",
        "risk neutral": "-4.56",
        "nested": "-10.00",
        "erm": "-4.58",
        "chow": "-4.83",
        "interpolated": "-4.59",
        "mean": "-0.98",
    },
    "ruin": {
        "evar": "7.87",
        "risk neutral": "5.47",
        "nested": "0.00",
        "erm": "7.64",
        "chow": "8.27",
        "interpolated": "9.03",
        "mean": "17.1",
    },
    "inventory": {
        "evar": "76.6",
        "risk neutral": "52.3",
        "nested": "0.0",
        "erm": "56.0",
        "chow": "55.1",
        "interpolated": "77.8",
        "mean": "128",
    },
    "inventory_generic": {
        "evar": "195",
        "risk neutral": "193",
        "nested": "135",
        "erm": "182",
        "chow": "82",
        "interpolated": "195.5",
        "mean": "219",
    },
    "riverswim": {
        "evar": "382",
        "risk neutral": "379",
        "nested": "217",
        "erm": "217",
        "chow": "101",
        "interpolated": "380.7",
        "mean": "871",
    },
}


def last_digit(text: str) -> float:
    """Half a unit of the last digit printed."""
    return 0.5 * 10.0 ** -len(text.partition(".")[2])


def cvar_noise(law: tailrank.ReturnLaw, tau: float) -> float:
    """Four standard errors of the CVaR of EPISODES draws from the law: sd of (VaR - X)^+ / tau."""
    short = np.maximum(law.var(tau) - law.values, 0.0)
    spread = np.sqrt(law.probs @ short**2 - (law.probs @ short) ** 2)
    return float(4 * spread / tau / np.sqrt(EPISODES))


def mean_noise(law: tailrank.ReturnLaw) -> float:
    """Four standard errors of the mean of EPISODES draws from the law."""
    return float(4 * np.sqrt(law.probs @ (law.values - law.mean) ** 2 / EPISODES))


@pytest.fixture(scope="module", params=DOMAINS)
def domain(request):
    mdp = FiniteMDP.from_rows(**domain_columns(request.param))
    return request.param, mdp, tailrank.solve(mdp, tau=0.1, tolerance="1%")


def test_domain_bracket_is_within_one_percent(domain):
    _, _, plan = domain
    assert plan.lower <= plan.cvar <= plan.upper
    assert plan.upper - plan.lower <= 0.01 * abs(plan.cvar) + 1e-9


def test_domain_no_published_policy_is_above_the_bracket(domain):
    name, _, plan = domain
    noise = cvar_noise(plan.law, 0.1)
    for method, text in PUBLISHED[name].items():
        if method != "mean":
            assert float(text) <= plan.upper + noise + last_digit(text), method


def test_domain_the_plan_is_at_least_as_good_as_the_best_published(domain):
    name, _, plan = domain
    best = max((text for method, text in PUBLISHED[name].items() if method != "mean"), key=float)
    assert plan.lower >= float(best) - cvar_noise(plan.law, 0.1) - last_digit(best)


def test_domain_risk_neutral_row(domain):
    name, mdp, plan = domain
    neutral = return_law(plan.risk_neutral.policy, mdp, plan.policy.grid)
    mean, cvar = PUBLISHED[name]["mean"], PUBLISHED[name]["risk neutral"]
    assert plan.risk_neutral.mean == pytest.approx(neutral.mean, rel=1e-9)
    assert plan.risk_neutral.mean == pytest.approx(float(mean), abs=mean_noise(neutral.law) + last_digit(mean))
    noise = cvar_noise(neutral.law, 0.1) + last_digit(cvar)
    assert plan.risk_neutral.cvar == pytest.approx(float(cvar), abs=noise)
    assert plan.risk_neutral.cvar <= plan.upper


def test_domain_nested_row(domain):
    name, mdp, _ = domain
    nested = tailrank.solve(mdp, tau=0.1, criterion="iterated", tolerance="20%")
    text = PUBLISHED[name]["nested"]
    assert nested.cvar == pytest.approx(float(text), abs=cvar_noise(nested.law, 0.1) + last_digit(text))


def test_criterion_mean_is_the_risk_neutral_policy():
    mdp = FiniteMDP.from_rows(**domain_columns("machine"))
    neutral, plan = tailrank.solve(mdp, tau=0.1, criterion="mean"), tailrank.solve(mdp, tau=0.1)
    assert neutral.mean == pytest.approx(plan.risk_neutral.mean, rel=1e-9)
    assert neutral.cvar == pytest.approx(plan.risk_neutral.cvar, rel=0.01)
