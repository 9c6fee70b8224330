"""The pessimistic induction against plain NumPy, and its one minimum against a convex program."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from tailrank.models.grid import BudgetGrid
from tailrank.planning.pessimistic._kernels import least_mean, least_mean_from
from tailrank.planning.pessimistic.induction import (
    best_budget,
    judge,
    least_shortfall,
    plan_pessimistic,
    policy_of,
    shortfall_of,
)
from tailrank.planning.pessimistic.model import RecordedModel, RecordedStep, StartRecord
from tailrank.planning.pessimistic.reach import reach


def plain_least(x, p, radius):
    """The dual by a search of SciPy."""
    x, p = np.asarray(x, float), np.asarray(p, float)
    if radius == np.inf or not (x > 0).any():
        return 0.0

    def dual(z):
        t = np.exp(z)
        return t - np.exp((p * np.log(t + x)).sum() - radius)

    zs = np.linspace(-25, 12, 400)
    z = zs[np.argmin([dual(z) for z in zs])]
    best = -minimize_scalar(dual, bounds=(z - 0.2, z + 0.2), method="bounded").fun
    at_zero = 0.0 if (x[p > 0] <= 0).any() else np.exp((p * np.log(x)).sum() - radius)
    return max(best, at_zero, 0.0)


@pytest.mark.parametrize("radius", [0.01, 0.2, 1.5])
def test_least_mean_solves_the_convex_program(radius):
    rng = np.random.default_rng(1)
    for _ in range(5):
        x, p = rng.random(4) * 10, rng.dirichlet(np.ones(4))
        values = np.append(x, 0.0)  # q may put mass on an outcome worth nothing
        rules = [
            {"type": "eq", "fun": lambda q: q.sum() - 1},
            {"type": "ineq", "fun": lambda q, p=p: radius - (p * np.log(p / np.maximum(q[:-1], 1e-12))).sum()},
        ]
        start = np.append(p * 0.999, 0.001)
        found = minimize(lambda q, v=values: q @ v, start, bounds=[(1e-9, 1)] * 5, constraints=rules, tol=1e-10)
        assert least_mean(x, p, 4, radius) == pytest.approx(found.fun, rel=2e-4, abs=1e-5)


def test_least_mean_by_hand():
    # One outcome: q keeps exp(-radius) of the mass there, the rest is lost.
    assert least_mean(np.array([3.0]), np.array([1.0]), 1, 0.7) == pytest.approx(3.0 * np.exp(-0.7))
    assert least_mean(np.array([3.0, 1.0]), np.array([0.5, 0.5]), 2, 0.0) == 2.0
    assert least_mean(np.array([3.0]), np.array([1.0]), 1, np.inf) == 0.0


def random_model(rng, H=3, S=3, A=2, most=3, closed=True, may_end=True):
    """A model with ragged rows, unseen pairs and outcomes of every kind."""
    steps = []
    for _ in range(H):
        counts = rng.integers(0, 4, S * A)
        ptr = np.concatenate([[0], np.cumsum(counts)])
        n = int(ptr[-1])
        share = np.concatenate([rng.dirichlet(np.ones(k)) for k in counts if k] or [np.zeros(0)])
        radius = np.where(counts > 0, rng.uniform(0.02, 0.5, S * A), np.inf)
        steps.append(
            RecordedStep(ptr, rng.integers(0, S + 2, n).astype(np.int32), rng.integers(0, most + 1, n), share, radius)
        )
    widths = most * np.arange(H, -1, -1)
    grid = BudgetGrid(Fraction(1), (Fraction(0),) * H, "exact")
    start = StartRecord(np.arange(S), rng.dirichlet(np.ones(S)), 0.1)
    return RecordedModel(grid, tuple(steps), start, S, A, widths, np.arange(H, -1, -1), closed, may_end)


def plain_plan(model, allowed):
    """Tables of what is saved, written down from the definition."""
    S, A, H = model.n_states, model.n_actions, model.horizon
    after = np.zeros((S + 2, 1))
    for h in reversed(range(H)):
        step, W = model.steps[h], int(model.widths[h])
        here = np.zeros((S + 2, W + 1))
        here[S] = np.minimum(np.arange(W + 1), model.ended[h])
        for s in range(S):
            for b in range(1, W + 1):
                floor = after[S + 1, min(b, after.shape[1] - 1)]
                values = [floor]
                for a in range(A):
                    rows = slice(step.ptr[s * A + a], step.ptr[s * A + a + 1])
                    if not allowed[h][s * A + a] or step.radius[s * A + a] == np.inf:
                        continue
                    x = []
                    for t, u in zip(step.next_state[rows], step.units[rows]):
                        left = b - u
                        x.append(b if left <= 0 else u + after[t, min(left, after.shape[1] - 1)])
                    gain = np.maximum(np.array(x) - floor, 0.0)
                    values.append(floor + plain_least(gain, step.share[rows], step.radius[s * A + a]))
                here[s, b] = max(values)
        if model.closed:
            here[S + 1] = here[: S + 1 if model.may_end else S].min(axis=0)
        after = here
    return after


@pytest.mark.parametrize(("seed", "closed", "may_end"), [(0, True, True), (1, False, True), (2, True, False)])
def test_plan_against_plain_numpy(seed, closed, may_end):
    model = random_model(np.random.default_rng(seed), closed=closed, may_end=may_end)
    allowed = (np.ones(6, dtype=bool),) * 3
    tables = plan_pessimistic(model, allowed, np.zeros((3, 3), dtype=np.int64))
    np.testing.assert_allclose(tables.saved[0], plain_plan(model, allowed), rtol=2e-3, atol=2e-3)
    again = judge(model, tables.actions)
    np.testing.assert_allclose(again.saved[0], tables.saved[0], rtol=1e-5)  # searches begin elsewhere
    # The plan never saves more than it may, and more budget never saves less.
    assert (tables.saved[0][:-1] <= np.arange(10) + 1e-9).all()
    assert (np.diff(tables.saved[0], axis=1) >= -2e-3).all()


def test_other_actions_save_no_more():
    model = random_model(np.random.default_rng(5))
    allowed = (np.ones(6, dtype=bool),) * 3
    best = plan_pessimistic(model, allowed, np.zeros((3, 3), dtype=np.int64))
    rng = np.random.default_rng(6)
    for _ in range(20):
        other = judge(model, tuple(rng.integers(0, 2, table.shape) for table in best.actions))
        assert (other.saved[0] <= best.saved[0] + 2e-3).all()


def test_forbidden_actions_are_not_taken():
    model = random_model(np.random.default_rng(0))
    allowed = (np.tile([False, True], 3),) * 3
    tables = plan_pessimistic(model, allowed, np.ones((3, 3), dtype=np.int64))
    assert all((table == 1).all() for table in tables.actions)


def test_without_margins_both_bounds_are_the_counted_model():
    """Radius 0 everywhere and every pair seen: pessimist, optimist and the plain induction agree."""
    rng = np.random.default_rng(3)
    H, S, A = 3, 2, 2
    P = rng.dirichlet(np.ones(S), (S, A))
    reward = rng.integers(0, 3, (S, A, S))
    ptr = np.arange(0, S * A * S + 1, S)
    step = RecordedStep(ptr, np.tile(np.arange(S, dtype=np.int32), S * A), reward.ravel(), P.ravel(), np.zeros(S * A))
    widths = 2 * np.arange(H, -1, -1)
    grid = BudgetGrid(Fraction(1), (Fraction(0),) * H, "exact")
    model = RecordedModel(grid, (step,) * H, StartRecord(np.array([0]), np.ones(1), 0.0), S, A, widths, 0 * widths)
    allowed = (np.ones(S * A, dtype=bool),) * H
    usual = np.zeros((H, S), dtype=np.int64)
    tables = plan_pessimistic(model, allowed, usual)
    short = shortfall_of(tables)
    np.testing.assert_allclose(least_shortfall(model, allowed), short, atol=1e-9)
    from tailrank import FiniteMDP, evaluate, solve

    mdp = FiniteMDP.from_arrays(P, reward, horizon=H)
    for tau in (0.1, 0.4, 1.0):
        budget, value = best_budget(model, short, tau)
        plan = solve(mdp, tau)
        assert value == pytest.approx(plan.cvar, abs=1e-9)
        policy = policy_of(model, tables.actions, usual, budget)
        assert evaluate(policy, mdp, tau).cvar == pytest.approx(plan.cvar, abs=1e-9)


def test_costs_of_pairs_add_up_to_the_gap():
    rng = np.random.default_rng(8)
    model = random_model(rng)
    seen = tuple(RecordedStep(s.ptr, np.minimum(s.next_state, 3), s.units, s.share, s.radius) for s in model.steps)
    for step in seen:
        assert (np.diff(step.ptr) >= 0).all()
    allowed = (np.ones(6, dtype=bool),) * 3
    tables = plan_pessimistic(model, allowed, np.zeros((3, 3), dtype=np.int64))
    went = reach(model, tables, 6)
    assert went.visits[0].sum() == pytest.approx(1.0)
    assert (went.cost >= -1e-6).all()
    # Sum over the tree: what the counted model saves (unseen outcomes and pairs count as the floor) less the tables.
    total = float((model.start.share * tables.saved[0][model.start.states, 6]).sum()) + float(went.cost.sum())
    assert total == pytest.approx(counted_value(model, tables, 6), abs=1e-6)


def counted_value(model, tables, b):
    """What the plan saves in the counted model, by recursion; unseen pairs and outcomes save what the tables say."""

    def value(h, s, left):
        if h == model.horizon or s >= model.n_states:
            table = tables.saved[h]
            return float(table[s, min(left, table.shape[1] - 1)])
        k = s * model.n_actions + tables.actions[h][s, min(left, tables.actions[h].shape[1] - 1)]
        rows = range(model.steps[h].ptr[k], model.steps[h].ptr[k + 1])
        if not len(rows):
            return float(tables.saved[h][s, min(left, tables.saved[h].shape[1] - 1)])
        step = model.steps[h]
        return sum(
            step.share[i] * min(left, step.units[i] + value(h + 1, step.next_state[i], max(left - step.units[i], 0)))
            for i in rows
        )

    return sum(p * value(0, s, b) for s, p in zip(model.start.states, model.start.share))


def test_where_the_search_begins_matters_little():
    """From any t the search ends within 1e-4 of the mean below the best of a fine grid, and never above it."""
    rng = np.random.default_rng(4)
    grid = np.concatenate([[1e-12], np.exp(np.linspace(-14, 6, 2000))])
    for _ in range(200):
        x, p, radius = rng.random(5) * 10 * (rng.random(5) < 0.8), rng.dirichlet(np.ones(5)), rng.uniform(0.01, 2.0)
        best = max((np.exp(np.log(grid[:, None] + x) @ p - radius) - grid).max(), 0.0)
        t = least_mean_from(x, p, 5, radius, -1.0)[1]
        for begin in (-1.0, 0.5 * t, 1.5 * t, t + 0.1, 3.0 * t + 1.0):
            assert abs(best - least_mean_from(x, p, 5, radius, begin)[0]) <= 1e-4 * (p @ x)
