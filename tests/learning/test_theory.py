"""The lemmas behind Theorem 4.1 in their corrected form, on random instances with plain NumPy."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from plain_dp import evaluate, shortfall

from tailrank.cli.theory import Theory
from tailrank.learning.oracles.finite_class import FiniteClass
from tailrank.learning.schedule import THEORY, Schedule
from tailrank.models.grid import BudgetGrid
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.rewards import RewardLaw
from tailrank.planning.latent.planner import plan_latent

H, G, A, N = 4, 3, 2, 3  # N: rewards 0, 1/2, 1


def instance(rng, d=2):
    """Two low-rank models and the reward laws that they share; rewards are in halves."""
    models = [[(rng.dirichlet(np.ones(d), (G, A)), rng.dirichlet(np.ones(G), d)) for _ in range(H - 1)] for _ in "ab"]
    laws = [rng.dirichlet(np.ones(N), (G, A)) for _ in range(H)]
    return models, [[phi @ psi for phi, psi in model] for model in models], laws


def policy_of(rng):
    """A random policy of (h, g, units spent so far)."""
    table = rng.integers(A, size=(H, G, (N - 1) * H + 1))
    return lambda h, g, y: int(table[h, g, y])


def expected_gap(kernels, laws, gaps, act):
    """sum over h < H - 1 of E gap_h(s_h, a_h) under a policy."""
    padded = [*gaps, np.zeros((G, A))]
    return evaluate(kernels, laws, padded, 0, act)[1]


def shortfall_of(law, c):
    """E (c - R)^+ for a law in units."""
    return sum(p * max(c - y, 0) for y, p in law.items())


@pytest.mark.parametrize("seed", range(10))
def test_simulation_lemma(seed):
    """|V_P(c) - V_P'(c)| <= (H / 2) sum_h E f_h, with either model's occupancy, for every c in [0, H]."""
    rng = np.random.default_rng(seed)
    _, (one, two), laws = instance(rng)
    act, none = policy_of(rng), [np.zeros((G, A))] * H
    gaps = [np.abs(p - q).sum(axis=2) for p, q in zip(one, two)]
    first, second = (evaluate(kernels, laws, none, 0, act)[0] for kernels in (one, two))
    bound = min(expected_gap(kernels, laws, gaps, act) for kernels in (one, two)) * H / 2
    worst = max(abs(shortfall_of(first, c) - shortfall_of(second, c)) for c in range(2 * H + 1)) / 2
    assert 0 < worst <= bound


@pytest.mark.parametrize("seed", range(10))
def test_discretisation_proposition(seed):
    """R <= Rbar <= R + H nu on every path, so CVaR* <= grid optimum <= CVaR* + H nu."""
    rng = np.random.default_rng(seed)
    fine, coarse = 12, int(rng.choice([2, 3, 4]))  # rewards in twelfths, rounded up to 1 / coarse
    _, (kernels, _), _ = instance(rng)
    laws = [rng.dirichlet(np.full(fine + 1, 0.2), (G, A)) for _ in range(H)]
    up = np.array([math.ceil(x * coarse / fine - 1e-9) for x in range(fine + 1)])
    rounded = []
    for law in laws:
        table = np.zeros((G, A, coarse + 1))
        for x in range(fine + 1):
            table[..., up[x]] += law[..., x]
        rounded.append(table)
    none = [np.zeros((G, A))] * H
    exact = shortfall(kernels, laws, none, H * fine + 1)[0][0][0] / fine
    grid = shortfall(kernels, rounded, none, H * coarse + 1)[0][0][0] / coarse
    for tau in (0.05, 0.2, 0.6, 1.0):
        star = max(np.arange(H * fine + 1) / fine - exact / tau)
        best = max(np.arange(H * coarse + 1) / coarse - grid / tau)
        assert star - 1e-9 <= best <= star + H / coarse + 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_elliptical_potential(seed):
    """sum_j phi_j' Lambda_{j-1}^{-1} phi_j <= 2 log det Lambda_t / det Lambda_0 <= 2 d log(1 + t / (d lambda))."""
    rng = np.random.default_rng(seed)
    d, t, lam = int(rng.integers(1, 6)), 300, float(rng.choice([1.0, 2.0, 5.0]))
    gram, total = lam * np.eye(d), 0.0
    for _ in range(t):
        phi = rng.dirichlet(np.full(d, 0.3))
        total += phi @ np.linalg.solve(gram, phi)
        gram += np.outer(phi, phi)
    growth = np.linalg.slogdet(gram)[1] - d * math.log(lam)
    assert growth <= total <= 2 * growth <= 2 * d * math.log(1 + t / (d * lam))


def test_mle_error_is_below_zeta():
    """Mean f^2 over the pairs seen <= zeta = 8 log(|F| / delta) / n, with probability at least 1 - delta.

    8 is the constant that the print leaves out: the sum of 1 - BC is at most log(|F| / delta), and f^2 <= 8 (1 - BC).
    Frequencies are over 300 independent data sets; the printed constant 1 happens to suffice here too.
    """
    rng = np.random.default_rng(0)
    F, n, runs, d = 20, 60, 300, 2
    true = StepModel(rng.dirichlet(np.ones(d), (G, A)), rng.dirichlet(np.ones(G), d))
    weights = rng.random(F - 1)
    near = [(1 - w) * true.phi + w * rng.dirichlet(np.ones(d), (G, A)) for w in weights]
    models = [StepModel(phi, true.psi) for phi in near] + [true]
    errors, law = [], np.full(G * A, 1 / (G * A))
    oracle = FiniteClass(models)
    for _ in range(runs):
        counts = np.zeros((G, A, G))
        for g, a in np.ndindex(G, A):
            counts[g, a] = rng.multinomial(n // (G * A), true.kernel[g, a])
        found = oracle.fit(counts, rng=rng).step
        errors.append(law @ (np.abs(found.kernel - true.kernel).sum(axis=2) ** 2).ravel())
    for delta in (0.5, 0.1, 0.01):
        for constant in (1, 8):
            assert np.mean(np.array(errors) > constant * math.log(F / delta) / n) <= delta
    assert np.mean(np.array(errors) > 0) > 0.5  # the data leave room for error
    many = np.zeros((G, A, G))
    for g, a in np.ndindex(G, A):
        many[g, a] = rng.multinomial(200_000, true.kernel[g, a])
    assert oracle.fit(many, rng=rng).step is true


@pytest.mark.parametrize("seed", range(6))
def test_values_are_monotone_and_lipschitz_in_the_budget(seed):
    """With bonuses too: 0 <= V(c + 1) - V(c) <= 1, V(0) = -(most bonus), V is no higher than c."""
    rng = np.random.default_rng(seed)
    _, (kernels, _), laws = instance(rng)
    cap = 2.0
    bonus = [rng.uniform(0, cap, (G, A)) if h < H - 2 else np.zeros((G, A)) for h in range(H)]
    C = (N - 1) * H + 1
    V, _ = shortfall(kernels, laws, bonus, C)
    for h in range(H):
        steps = np.diff(V[h], axis=1)
        assert (steps >= -1e-12).all()
        assert (steps <= 1 + 1e-12).all()
        assert (V[h] <= np.arange(C) + 1e-12).all()
        assert (V[h] >= -cap * max(H - 2 - h, 0) - 1e-12).all()


def optimism_gap(rng, cap, H=4):
    """V_{model, bonus}(pi*, c*) - V_{truth, 0}(pi*, c*) with the least bonus that the lemma allows.

    b_h = min(H E_{P_h} max_a f_{h+1} / 2, cap) dominates the one-step-back bound; f_0 is left to the first step.
    """
    _, (truth, model), laws = instance(rng)
    none = [np.zeros((G, A))] * H
    C = (N - 1) * H + 1
    tau = float(rng.choice([0.1, 0.3, 0.7]))
    V, Q = shortfall(truth, laws, none, C)
    c = int(np.argmax(np.arange(C) - V[0][0] / tau))

    def act(h, g, y):
        return int(np.argmin(Q[h][g, max(c - y, 0)]))

    gaps = [np.abs(p - q).sum(axis=2) for p, q in zip(truth, model)]
    bonus = [np.zeros((G, A)) for _ in range(H)]
    for h in range(H - 2):
        bonus[h] = np.minimum(model[h] @ gaps[h + 1].max(axis=1) * H / 2, cap)
    law, _ = evaluate(truth, laws, none, 0, act)
    believed, paid = evaluate(model, laws, bonus, 0, act)
    first = gaps[0][0, act(0, 0, 0)] * H / 2
    return (shortfall_of(believed, c) - shortfall_of(law, c)) / 2 - paid, first


@pytest.mark.parametrize("seed", range(20))
def test_almost_optimism_holds_with_cap_h(seed):
    """Only the error of the first step is not paid for by a bonus; every other is, as cap H never binds."""
    gap, first = optimism_gap(np.random.default_rng(seed), cap=H)
    assert gap <= first + 1e-12


def test_almost_optimism_fails_with_cap_2():
    """A long chain whose model is wrong from the second step on: the loss is H - 2, and the bonus pays only 2."""
    H = 12
    good, bad = 0, 1
    stay = np.zeros((2, 1, 2))
    stay[good, 0, good] = stay[bad, 0, bad] = 1.0
    wrong = stay.copy()
    wrong[good, 0] = [0.0, 1.0]
    law = np.zeros((2, 1, 2))
    law[good, 0, 1] = law[bad, 0, 0] = 1.0
    model = [stay, wrong] + [stay] * (H - 3)
    none = [np.zeros((2, 1))] * H
    c = H
    lost = shortfall_of(evaluate(model, [law] * H, none, good, lambda *_: 0)[0], c)
    assert shortfall_of(evaluate([stay] * (H - 1), [law] * H, none, good, lambda *_: 0)[0], c) == 0
    assert lost == H - 2
    for cap, holds in ((2.0, False), (float(H), True)):
        paid = min(H / 2 * np.abs(wrong - stay).sum(axis=2)[good, 0], cap)
        assert bool(lost <= paid) == holds
        assert Schedule(cap="printed" if cap == 2 else "corrected").cap_for(H) == cap


@pytest.mark.parametrize("seed", range(5))
def test_optimism_gives_an_optimistic_objective(seed):
    """When bonuses pay for all errors, the planner's objective is at least CVaR*."""
    rng = np.random.default_rng(seed)
    (first, second), (truth, model), laws = instance(rng)
    none = [np.zeros((G, A))] * H
    C = (N - 1) * H + 1
    second[0] = first[0]  # the first step is known: nothing pays for its error
    model[0] = truth[0]
    bonus = [np.zeros((G, A)) for _ in range(H)]
    for h in range(H - 2):
        bonus[h] = np.minimum(model[h] @ np.abs(truth[h + 1] - model[h + 1]).sum(axis=2).max(axis=1) * H / 2, H)
    star = shortfall(truth, laws, none, C)[0][0][0]
    learned = LowRankModel(tuple(StepModel(p, q) for p, q in second), (np.arange(G),) * H)
    table = np.concatenate([law.reshape(-1, N) for law in laws])
    which = np.arange(H * G * A).reshape(H, G, A)
    rewards = RewardLaw(grid_of_halves(), table, which)
    for tau in (0.1, 0.4, 1.0):
        plan = plan_latent(learned, rewards, tuple(which), bonus, tau, 0)
        assert plan.objective >= max(np.arange(C) - star / tau) - 1e-9


def grid_of_halves():
    return BudgetGrid(Fraction(1, 2), (Fraction(0),) * H, "exact")


def test_schedules_are_those_of_the_theorem():
    H, A, d, F, delta = 5, 3, 4, 1000, 0.1
    for k in (1, 10, 1000):
        log = math.log(F * H * k / delta)
        corrected = replace(THEORY, delta=delta)
        printed = replace(THEORY, delta=delta, log="printed", cap="printed")
        assert corrected.alpha(k, H, A, d, math.log(F)) == pytest.approx(H * math.sqrt((A + d * d) * log))
        assert printed.alpha(k, H, A, d, math.log(F)) == pytest.approx(H * math.sqrt(A + d * d) * log)
        assert corrected.lam(k, H, d, math.log(F)) == pytest.approx(d * log)
    assert (corrected.cap_for(H), printed.cap_for(H), Schedule(cap=2.0 * H).cap_for(H)) == (5.0, 2.0, 10.0)
    figures = {name: value for name, value, _ in Theory(H, A, d, F, 0.1, 0.5).table()}
    assert figures["K"] == pytest.approx(H**6 * A**2 * d**4 * math.log(F / delta) / 0.05**2)
    assert figures["episodes"] == pytest.approx(H * figures["K"])
    assert figures["upsilon"] == pytest.approx(1 / 30)
    assert figures["planner accuracy"] == pytest.approx(0.1 * 0.5 / 6)
