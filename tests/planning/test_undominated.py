"""Plans leave no mean on the table: no policy has the same CVaR and a higher mean."""

from __future__ import annotations

import numpy as np
import pytest

import tailrank
from brute_force import Tiny, count_policies, cvar_by_sorting, follow, random_rows, return_laws
from tailrank.models.grid import exact_grid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.criteria.mean import risk_neutral
from tailrank.planning.exact import induction

TAUS = (0.1, 0.3, 0.6)
BETTING = {0.05: 8.351, 0.1: 11.039, 0.2: 19.514, 0.3: 24.143, 0.5: 30.934}


def small(rng: np.random.Generator, kind: str, most: int = 300) -> Tiny:
    """A random MDP with a few hundred policies, whose rewards often coincide."""
    while True:
        m = random_rows(rng, kind, leaves=120)
        if 1 < count_policies(m) <= most and m.discount == 1.0:
            return m


@pytest.mark.parametrize("batch", range(10))
def test_no_policy_has_the_same_cvar_and_a_higher_mean(batch):
    """1,000 random MDPs: all deterministic policies on histories, one by one."""
    rng = np.random.default_rng([16, batch])
    for _ in range(100):
        m = small(rng, str(rng.choice(["integers", "tenths"])))
        plans = tailrank.solve(FiniteMDP.from_rows(**m.columns()), TAUS)
        assert {plan.status for plan in plans} == {"exact"}
        laws = [tuple(zip(*law, strict=True)) for law in return_laws(m)]
        means = np.array([np.dot(*law) for law in laws])
        for plan in plans:
            values = np.array([cvar_by_sorting(*law, plan.tau) for law in laws])
            best = means[values >= values.max() - 1e-9].max()
            assert plan.cvar == pytest.approx(values.max(), abs=1e-9)
            assert plan.mean == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_rounded_rewards_keep_the_bracket_and_gain_mean(seed):
    rng = np.random.default_rng([17, seed])
    m = random_rows(rng, "reals", leaves=300)
    mdp = FiniteMDP.from_rows(**m.columns())
    for plan, plain in zip(tailrank.solve(mdp, TAUS), tailrank.solve(mdp, TAUS, undominated=False), strict=True):
        returns, probs = follow(m, plan.policy)
        assert plan.mean == pytest.approx(probs @ returns, abs=1e-9)
        width = max(plan.upper - plan.lower, plain.upper - plain.lower)
        assert abs(plan.cvar - plain.cvar) <= width + 1e-9
        assert plan.mean >= plain.mean - 1e-9 or plan.cvar > plain.cvar - width - 1e-9


def test_the_betting_game_earns_the_mean_that_its_cvar_allows():
    mdp = tailrank.read_mdp("examples/models/betting.json").mdp
    plans = tailrank.solve(mdp, tuple(BETTING))
    plain = tailrank.solve(mdp, tuple(BETTING), undominated=False)
    for plan, other in zip(plans, plain, strict=True):
        assert plan.mean == pytest.approx(BETTING[plan.tau], abs=6e-4)
        assert plan.cvar == pytest.approx(other.cvar, abs=1e-12)
        assert plan.mean > other.mean + 1


@pytest.mark.parametrize("seed", range(20))
def test_the_second_table_is_the_mean_of_the_policy(seed):
    """Large pairs, far tables and many budgets: what the kernel carries is what the policy earns, at every budget."""
    rng = np.random.default_rng([18, seed])
    S, A, H = (int(rng.integers(2, 6)) for _ in range(3))
    n = int(rng.integers(1, 6))
    state, action = np.repeat(np.indices((S, A)).reshape(2, -1), n, axis=1)
    reward = rng.choice([0, 1, 2, 400 if seed % 2 else 3], size=S * A * n)
    prob = rng.dirichlet(np.ones(n), size=S * A).ravel()
    mdp = FiniteMDP.from_rows(state, action, rng.integers(S, size=state.size), prob, reward, horizon=H).merged()
    grid = exact_grid([np.unique(mdp.reward)], H, 1.0)
    policy, neutral = risk_neutral(mdp)
    layout = induction.layout(mdp, grid, induction.reachable(mdp))
    found = induction.induct(mdp, grid, layout, keep_actions=True, at_ends=policy.actions, neutral=neutral)
    plain = induction.induct(mdp, grid, layout, keep_actions=True, at_ends=policy.actions)
    # Rows that add nothing are left out where ties are told apart, so sums may be rounded in another order.
    np.testing.assert_allclose(found.curve(mdp.start)[1], plain.curve(mdp.start)[1], rtol=1e-14)
    plan = tailrank.solve(mdp, 0.2)
    budgets, _ = found.curve(mdp.start)
    for i in rng.choice(budgets.size, size=5):
        own = tailrank.planning.exact.return_law.return_law(plan.policy.with_budget(budgets[i]), mdp)
        assert found.mean_curve(mdp.start)[i] + float(grid.offset) == pytest.approx(own.mean, rel=1e-10, abs=1e-10)
