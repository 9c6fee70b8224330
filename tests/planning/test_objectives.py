"""Best policies for risk measures against all policies, one by one, and against published numbers."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

import tailrank
from brute_force import Tiny, count_policies, cvar_by_sorting, follow, random_rows, return_laws
from domains import betting_with_jackpot, domain_columns
from tailrank.checks import InputError
from tailrank.models.mdp import FiniteMDP
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures import (
    CVaR,
    Entropic,
    EVaR,
    Expectile,
    Mean,
    MeanCVaR,
    MeanVariance,
    Measure,
    Spectral,
    Target,
    Utility,
    VaR,
    WorstCase,
)

N = 300
TOLERANCE = {"evar": "1%", "mean-variance": 1e-4}
POINTS = ((-3.0, -6.0), (-1.0, -1.5), (1.0, 0.0), (2.0, 0.25))


# Every measure of a law once more, from its definition and nothing else


def entropic(x, p, beta):
    return -math.log(math.fsum(q * math.exp(-beta * v) for v, q in zip(x, p, strict=True))) / beta


def evar(x, p, tau):
    """The dual: the least mean of a law whose relative entropy to this one is at most -log tau; that law is tilted."""
    x, p = np.array(x)[np.array(p) > 0], np.array(p)[np.array(p) > 0]
    low = x.min()
    if p[x <= low + 1e-12].sum() >= tau or np.ptp(x) < 1e-12:
        return low

    def tilted(beta):
        q = p * np.exp(-beta * (x - low))
        return q / q.sum()

    def entropy(beta):
        q = tilted(beta)
        return q[q > 0] @ np.log(q[q > 0] / p[q > 0]) + math.log(tau)

    top = 1.0
    while entropy(top) < 0:
        top *= 2
    return tilted(brentq(entropy, 0.0, top, xtol=1e-15, rtol=1e-14)) @ x


def expectile(x, p, alpha):
    def balance(m):
        return math.fsum(q * (alpha * max(v - m, 0) - (1 - alpha) * max(m - v, 0)) for v, q in zip(x, p, strict=True))

    return min(x) if max(x) - min(x) < 1e-12 else brentq(balance, min(x), max(x), xtol=1e-14)


def mean_variance(x, p, c):
    def lost(b):
        t = np.minimum(np.array(x) - b, 0.5 / c)
        return -(b + np.array(p) @ (t - c * t**2))

    if max(x) - min(x) < 1e-12:
        return min(x)
    wide = max(x) - min(x) + 0.5 / c
    return -minimize_scalar(lost, bounds=(min(x) - wide, max(x)), method="bounded", options={"xatol": 1e-13}).fun


def quantile(x, p, tau):
    return max(c for c in x if math.fsum(q for v, q in zip(x, p, strict=True) if v >= c - 1e-9) >= 1 - tau - 1e-12)


def utility(x, p):
    total = 0.0
    for v, q in zip(x, p, strict=True):
        pieces = pairwise(POINTS)
        lines = [(u - s * a, s) for (a, u), (b, w) in pieces for s in [(w - u) / (b - a)]]
        total += q * min(c + s * v for c, s in lines)  # U is concave: the least of its lines
    return total


MEASURES: list[tuple[Measure, object]] = [
    (CVaR(0.3), lambda x, p: cvar_by_sorting(x, p, 0.3)),
    (MeanCVaR(0.25, weight=0.4), lambda x, p: 0.4 * np.dot(x, p) + 0.6 * cvar_by_sorting(x, p, 0.25)),
    (Entropic(0.7), lambda x, p: entropic(x, p, 0.7)),
    (EVaR(0.3), lambda x, p: evar(x, p, 0.3)),
    (VaR(0.35), lambda x, p: quantile(x, p, 0.35)),
    (Target(1.0), lambda x, p: math.fsum(q for v, q in zip(x, p, strict=True) if v >= 1.0 - 1e-9)),
    (Expectile(0.2), lambda x, p: expectile(x, p, 0.2)),
    (Expectile(0.8), lambda x, p: expectile(x, p, 0.8)),
    (MeanVariance(0.15), lambda x, p: mean_variance(x, p, 0.15)),
    (Utility(POINTS), utility),
    (Spectral({0.2: 0.5, 0.6: 0.3, 1.0: 0.2}), lambda x, p: sum(
        w * cvar_by_sorting(x, p, t) for t, w in ((0.2, 0.5), (0.6, 0.3), (1.0, 0.2))
    )),
    (Mean(), np.dot),
    (WorstCase(), lambda x, p: min(v for v, q in zip(x, p, strict=True) if q > 0)),
]  # fmt: skip
NAMES = [str(measure) for measure, _ in MEASURES]


def laws_of(m: Tiny) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    return [tuple(zip(*law, strict=True)) for law in return_laws(m)]


def tiny(rng: np.random.Generator, kind: str, most: int) -> Tiny:
    while True:
        m = random_rows(rng, kind, leaves=60)
        if 1 < count_policies(m) <= most and (m.discount == 1.0 or kind == "reals"):
            return m


@cache
def problems_on_grids() -> list[tuple[Tiny, list[tuple[tuple[float, ...], tuple[float, ...]]]]]:
    """Random MDPs and the laws of all their policies; the same for every measure, because drawing takes its time."""
    rng = np.random.default_rng(2)
    drawn = [tiny(rng, str(rng.choice(["integers", "tenths"])), 24) for _ in range(N)]
    return [(m, laws_of(m)) for m in drawn]


@pytest.mark.parametrize(("measure", "by_hand"), MEASURES, ids=NAMES)
def test_a_measure_of_a_law_is_its_definition(measure, by_hand):
    rng = np.random.default_rng(1)
    for _ in range(200):
        n = int(rng.integers(1, 7))
        x, p = rng.choice([rng.normal(0, 3, n), rng.integers(-3, 4, n) * 1.0]), rng.dirichlet(np.ones(n))
        assert measure.of(x, p) == pytest.approx(by_hand(x, p), abs=1e-7 if isinstance(measure, EVaR) else 1e-9)


@pytest.mark.parametrize(("measure", "by_hand"), MEASURES, ids=NAMES)
def test_no_policy_is_better_on_a_grid(measure, by_hand):
    """300 random MDPs: the value is that of the best of all deterministic policies, or within the bracket."""
    for m, laws in problems_on_grids():
        plan = tailrank.solve(
            FiniteMDP.from_rows(**m.columns()), objective=measure, tolerance=TOLERANCE.get(measure.name, 1e-7)
        )
        best = max(by_hand(*law) for law in laws)
        near = 1e-7 if isinstance(measure, EVaR) else 1e-9
        assert plan.lower - near <= best <= plan.upper + near
        assert plan.status == "bracketed" or plan.upper == plan.lower
        x, p = follow(m, plan.policy)
        assert by_hand(x[p > 0], p[p > 0]) >= plan.value - near
        if not isinstance(measure, EVaR | MeanVariance):
            assert plan.status == "exact"


@pytest.mark.filterwarnings("ignore::tailrank.checks.NotConverged")
@pytest.mark.parametrize(("measure", "by_hand"), MEASURES, ids=NAMES)
def test_any_rewards_are_bracketed(measure, by_hand):
    rng = np.random.default_rng([3, NAMES.index(str(measure))])
    for k in range(12):
        m = tiny(rng, "reals", 24)
        unit = 0.05 if k % 2 else None
        plan = tailrank.solve(FiniteMDP.from_rows(**m.columns()), objective=measure, unit=unit, seconds=0.2)
        best = max(by_hand(*law) for law in laws_of(m))
        near = 1e-7 if isinstance(measure, EVaR) else 1e-9
        assert plan.lower - near <= best <= plan.upper + near
        x, p = follow(m, plan.policy)
        assert by_hand(x[p > 0], p[p > 0]) >= plan.value - near


# Published numbers


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        (Target(5), 0.954325),
        (Target(36), 0.484233),
        (VaR(0.1), 8),
        (VaR(0.5), 33),
        (Entropic(0.1), 13.1716559),
        (MeanCVaR(0.2, weight=0.5), 17.8145375),
        (Expectile(0.1), 13.5720621),
    ],
    ids=str,
)
def test_betting_with_jackpot(measure, value):
    plan = tailrank.solve(FiniteMDP.from_rows(**betting_with_jackpot().columns()), objective=measure)
    assert plan.status == "exact"
    assert plan.value == pytest.approx(value, abs=6e-7)


@pytest.mark.parametrize(
    ("domain", "measure", "value"),
    [
        ("machine", EVaR(0.1), -6.728857),
        ("ruin", EVaR(0.1), 5.259937),
        ("machine", Entropic(0.5), -2.289094),
        ("ruin", Entropic(0.5), 9.768779),
    ],
)
def test_domains(domain, measure, value):
    mdp = FiniteMDP.from_rows(**domain_columns(domain))
    plan = tailrank.solve(mdp, objective=measure, tolerance=1e-3)
    assert plan.value == pytest.approx(value, abs=6e-7)
    assert plan.upper - plan.value <= 1e-3


def test_storms_tests_of_cvar():
    safe = FiniteMDP.from_rows([0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 0.2, 0.8], [6, 2, 10], horizon=1)
    assert [tailrank.solve(safe, objective=CVaR(t)).value for t in (0.25, 0.8)] == pytest.approx([6, 8])
    stop = FiniteMDP.from_rows([0, 0, 1], [0, 0, 0], [0, 1, 1], [0.5, 0.5, 1], [1, 1, 0], horizon=60)
    assert tailrank.solve(stop, objective=CVaR(0.8)).value == pytest.approx(1.4375)
    costs = FiniteMDP.from_rows([0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 0.5, 0.5], [-6, -2, -8], horizon=1)
    assert [tailrank.solve(costs, objective=CVaR(t)).value for t in (0.5, 0.9)] == pytest.approx([-6, -16 / 3])


# Order, limits, extremes


@pytest.mark.parametrize("seed", range(10))
def test_order_and_limits(seed):
    m = tiny(np.random.default_rng([4, seed]), "integers", 500)
    mdp = FiniteMDP.from_rows(**m.columns())

    def best(measure):
        return tailrank.solve(mdp, objective=measure, tolerance="1%" if measure.name == "evar" else 1e-9).value

    worst, mean, cvar = best(WorstCase()), best(Mean()), best(CVaR(0.3))
    assert worst - 1e-9 <= best(EVaR(0.3)) <= cvar + 1e-9
    assert cvar <= best(VaR(0.3)) + 1e-9
    assert cvar <= mean + 1e-9
    weights = [best(MeanCVaR(0.3, weight=w)) for w in (0.0, 0.3, 0.7, 1.0)]
    assert weights[0] == pytest.approx(cvar, abs=1e-9)
    assert weights[-1] == pytest.approx(mean, abs=1e-9)
    assert (np.diff(weights) >= -1e-9).all()
    betas = [best(Entropic(b)) for b in (1e-9, 1e-3, 0.1, 1.0, 10.0, 1e4, 1e8)]
    assert (np.diff(betas) <= 1e-9).all()
    assert betas[0] == pytest.approx(mean, abs=1e-6)
    assert betas[-1] == pytest.approx(worst, abs=1e-6)
    assert best(EVaR(1.0)) == pytest.approx(mean, abs=1e-9)
    assert best(Expectile(0.5)) == pytest.approx(mean, abs=1e-9)
    expectiles = [best(Expectile(a)) for a in (1e-6, 0.1, 0.4, 0.7)]
    assert (np.diff(expectiles) >= -1e-9).all()
    assert expectiles[0] >= worst - 1e-9
    targets = [best(Target(c)) for c in (-9, -1, 0, 1, 3, 40)]
    assert (np.diff(targets) <= 1e-12).all()


def test_nothing_overflows():
    """beta R = 1e4 and beyond; two outcomes have a closed form."""
    mdp = FiniteMDP.from_rows([0, 0], [0, 0], [0, 0], [0.25, 0.75], [0, 1e4], horizon=1)
    assert tailrank.solve(mdp, objective=Entropic(1.0)).value == pytest.approx(-math.log(0.25))
    assert tailrank.solve(mdp, objective=Entropic(1e6)).value == pytest.approx(-math.log(0.25) / 1e6)
    many = FiniteMDP.from_rows([0, 0], [0, 0], [0, 0], [0.25, 0.75], [-1e3, 1e3], horizon=50)
    exact = -50 * (math.log(0.25) + 1e4 + math.log1p(3 * math.exp(-2e4))) / 10
    assert tailrank.solve(many, objective=Entropic(10.0)).value == pytest.approx(exact, rel=1e-12)
    far = FiniteMDP.from_rows([0, 0], [0, 0], [0, 0], [0.5, 0.5], [1e12, 1e12 + 1e-3], horizon=1)
    assert tailrank.solve(far, objective=Target(1e12 + 1e-3)).value == pytest.approx(0.5)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_an_outcome_next_to_impossible_counts_for_nothing():
    law = ReturnLaw.of(np.array([0.0, 1.0, 2.0]), np.array([5e-324, 0.5, 0.5]))
    assert MeanVariance(0.15).of_law(law) == pytest.approx(mean_variance([1.0, 2.0], [0.5, 0.5], 0.15))


@pytest.mark.parametrize("beta", [700.0, 740.0, 745.0, 1000.0])
def test_logarithms_of_next_to_nothing_have_all_their_digits(beta):
    """Products below 1e-308 lose digits: EVaR was off by 3e-6."""
    law = ReturnLaw.of(np.array([0.0, 1.0]), np.array([5e-324, 1.0]))
    exact = -(math.log(5e-324) + math.log1p(math.exp(-beta - math.log(5e-324)))) / beta
    assert Entropic(beta).of_law(law) == pytest.approx(exact, rel=1e-15)
    assert EVaR(0.1).of_law(law) == pytest.approx(0.9968785794077759, rel=1e-14)


def test_moments_and_logarithms_agree(monkeypatch):
    """The two backups of the entropic measure, either side of the switch between them."""
    from tailrank.planning.objectives import markov

    rng = np.random.default_rng(5)
    for _ in range(20):
        m = random_rows(rng, "reals", leaves=500)
        mdp = FiniteMDP.from_rows(**m.columns())
        for beta in (0.1, 0.5, 2.0):
            low, high = markov.reward_sums(mdp)
            fast = markov._by_moments(mdp, beta, 0.5 * (low + high))
            monkeypatch.setattr(markov, "MODERATE", (1.0, 0.0))
            safe = markov.entropic(mdp, beta)
            assert fast[1] == pytest.approx(safe[1], abs=1e-10)


@pytest.mark.parametrize("at", [0.75, 0.75 + 1e-12, 0.75 + 1e-7, 0.75 - 1e-12, 0.1 + 0.2])
def test_a_target_next_to_a_return_is_read_in_one_way(at):
    """What the induction takes for reached is what the law takes for reached: no bracket from 0 to 1."""
    rows = [(0, 0, 0, 0.5, 1), (0, 0, 1, 0.5, -2), (0, 1, 0, 1, 0.25), (1, 0, 0, 1, 0)]
    plan = tailrank.solve(FiniteMDP.from_rows(*zip(*rows, strict=True), horizon=3), objective=Target(at))
    assert (plan.status, plan.value) == ("exact", 1.0 if at <= 0.75 else 0.5)


# What must be refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CVaR(0), r"tau = 0: must lie in \(0, 1\]"),
        (lambda: VaR(1.0), r"tau = 1.0: must lie in \(0, 1\)"),
        (lambda: MeanCVaR(0.1, weight=1.5), r"weight = 1.5: must lie in \[0, 1\]"),
        (lambda: Entropic(0), "beta = 0: must be positive"),
        (lambda: Entropic("x"), "beta = 'x': must be a number"),
        (lambda: Expectile(1), r"alpha = 1: must lie in \(0, 1\)"),
        (lambda: MeanVariance(-1), "risk aversion = -1: must be positive"),
        (lambda: Target(math.inf), "at = inf: must be finite"),
        (lambda: Utility([(0, 0)]), "points: at least two pairs"),
        (lambda: Utility([(0, 0), (1, -1)]), "points: a utility must not fall, found 0 at 0 and -1 at 1"),
        (lambda: Utility([(0, 0), (0, 1)]), "points: returns must increase, found 0 before 0"),
        (lambda: Utility([(0, 0), (1e-300, 1)]), "points: .* too steep"),
        (lambda: Spectral({}), "levels: at least one level"),
        (lambda: Spectral("x"), "levels: must be a mapping from tau to weight, found 'x'"),
        (lambda: Spectral({0.1: 0.5}), "levels: their weights sum to 0.5, expected 1"),
        (lambda: Spectral({1.5: 1.0}), r"tau = 1.5: must lie in \(0, 1\]"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("objective", ["mean-cvar", 0.1, MeanCVaR])
def test_an_objective_is_a_measure(objective):
    with pytest.raises(InputError, match=r"objective = .*: must be a measure"):
        tailrank.solve([(0, 0, 0, 1, 1)], horizon=1, objective=objective)
