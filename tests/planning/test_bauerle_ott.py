"""The value iteration of Bäuerle and Ott (2011), written down as it stands there, against `solve`.

They minimise the CVaR of a discounted cost C = sum_n beta^n c_n (the mean of its worst fraction tau) in two stages:

    inf_pi CVaR(C^pi) = inf_q { q + w_N(x_0, -q) / tau },     w_N(x, s) = inf_pi E_x (s + C^pi)^+

where w comes from value iteration on the state enlarged by what has been paid,

    w_0(x, s) = s^+,     w_{n+1}(x, s) = inf_a E beta w_n(x', (s + c) / beta)

and the best first q lies among the values that the cost can take. Costs are our rewards with the other sign, s = -q is
a budget: the same recursion as `tailrank.planning.exact.induction`, on other axes. Here it runs in fractions,
without a grid.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import tailrank
from brute_force import random_rows
from tailrank import FiniteMDP
from tailrank.envs import make_episodic


def value_iteration(outcomes, horizon, beta):
    """w(n, x, s) for outcomes(step, x) = {a: [(x', p, c)]}, in fractions; n is the number of steps to go."""

    @cache
    def w(n, x, s):
        if n == 0:
            return max(s, Fraction(0))
        return min(
            sum(p * beta * w(n - 1, t, (s + c) / beta) for t, p, c in law) for law in outcomes(horizon - n, x).values()
        )

    return w


def costs(outcomes, horizon, beta, x):
    """Every cost that can be met from x."""

    @cache
    def below(h, state):
        if h == horizon:
            return frozenset([Fraction(0)])
        return frozenset(
            c + beta * rest for law in outcomes(h, state).values() for t, p, c in law if p for rest in below(h + 1, t)
        )

    return sorted(below(0, x))


def table_of(mdp):
    """outcomes(step, state) with costs in place of rewards."""

    @cache
    def outcomes(h, s):
        ptr, after, prob, reward = mdp.rows(h)
        found = {}
        for a in range(mdp.n_actions):
            rows = range(ptr[s * mdp.n_actions + a], ptr[s * mdp.n_actions + a + 1])
            if len(rows):
                found[a] = [(int(after[i]), Fraction(float(prob[i])), -Fraction(str(reward[i]))) for i in rows]
        return found

    return outcomes


def best_cvar(mdp, taus):
    """-inf CVaR of the cost at each tau, for one first state, and the best q."""
    outcomes, beta, x = table_of(mdp), Fraction(str(mdp.discount)), int(np.flatnonzero(mdp.start)[0])
    w = value_iteration(outcomes, mdp.horizon, beta)
    found = {q: w(mdp.horizon, x, -q) for q in costs(outcomes, mdp.horizon, beta, x)}
    return [-float(min(q + short / Fraction(str(tau)) for q, short in found.items())) for tau in taus], found


TAUS = (0.05, 0.25, 0.5, 0.9, 1.0)


@pytest.mark.parametrize("seed", range(12))
def test_their_value_iteration_gives_our_optimum(seed):
    rng = np.random.default_rng(seed)
    mdp = FiniteMDP.from_rows(**(random_rows(rng, "integers", leaves=300).columns() | {"start": 0, "discount": 1.0}))
    expected, found = best_cvar(mdp, TAUS)
    plans = tailrank.solve(mdp, tau=TAUS)
    assert [plan.cvar for plan in plans] == pytest.approx(expected, abs=1e-9)
    assert all(plan.status == "exact" for plan in plans)
    # and their w is our expected shortfall at every budget -q that our table holds
    curve = plans[0].curve
    ours = dict(zip(np.round(curve.budget, 9), curve.shortfall, strict=True))
    theirs = {-float(q): float(short) for q, short in found.items()}
    met = [b for b in theirs if round(b, 9) in ours]
    assert len(met) == len(theirs)
    assert [ours[round(b, 9)] for b in met] == pytest.approx([theirs[b] for b in met], abs=1e-9)


@pytest.mark.parametrize("discount", [0.5, 0.8])
def test_with_a_discount(discount):
    rng = np.random.default_rng(7)
    mdp = FiniteMDP.from_rows(
        **(random_rows(rng, "integers", leaves=200).columns() | {"start": 0, "discount": discount})
    )
    expected, _ = best_cvar(mdp, TAUS)
    for tau, value in zip(TAUS, expected, strict=True):
        plan = tailrank.solve(mdp, tau=tau, tolerance=1e-9)
        assert plan.lower - 1e-7 <= value <= plan.upper + 1e-7


@pytest.mark.parametrize(("name", "settings"), [("risky-shortcut", {"horizon": 4}), ("risky-lock", {"horizon": 3})])
def test_on_the_environments(name, settings):
    mdp = make_episodic(name, **settings).truth
    assert [plan.cvar for plan in tailrank.solve(mdp, tau=TAUS)] == pytest.approx(best_cvar(mdp, TAUS)[0], abs=1e-9)
