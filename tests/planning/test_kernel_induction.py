"""The budget induction on representatives against plain NumPy, and against the exact planner on finite MDPs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tailrank import FiniteMDP, solve
from tailrank.learning.simulators.model import merged
from tailrank.planning.kernel import _kernels
from tailrank.planning.kernel.induction import kept_steps, plan_crossed, plan_kernel
from tailrank.policies.kernel import BudgetScale


def random_rows(rng, M=4, A=3, E=5, shifts=3):
    """Rows of E outcomes a pair as arrays, for the plain version, and merged."""
    after = rng.integers(0, M + 1, size=(M, A, E))
    shift = rng.integers(-shifts, shifts + 1, size=(M, A, E))
    weight = rng.dirichlet(np.ones(E), size=(M, A))
    pair = np.repeat(np.arange(M * A), E)
    return after, shift, weight, merged(pair, after.ravel(), shift.ravel().astype(float), weight.ravel(), M, A)


def value(row, place):
    """Linear between entries, constant below, of slope one above."""
    last = len(row) - 1
    return np.interp(place, np.arange(last + 1), row) + max(place - last, 0.0)


@pytest.mark.parametrize("seed", range(3))
def test_against_plain_numpy(seed):
    rng = np.random.default_rng(seed)
    M, A, H, C = 4, 3, 5, 12
    after, shift, weight, rows = random_rows(rng)
    scale = BudgetScale(0.5, -4.0, C, 0.25)
    bonus, allowed = rng.uniform(size=(M, A)) * 0.2, rng.random((M, A)) < 0.7
    start = rng.dirichlet(np.ones(M))
    plan = plan_kernel(rows, scale, H, start, 0.3, bonus, allowed)
    table = np.tile(np.maximum(np.arange(C) - 4.0, 0.0), (M, 1))
    for left in range(1, H + 1):
        q = np.full((M, A, C), np.inf)
        for j in range(M):
            for a in range(A):
                if allowed[j].any() and not allowed[j, a]:
                    continue
                for c in range(C):
                    ahead = [
                        max(c - s - 4.0 + 0.25 * (left - 1) / 0.5, 0.0) if z == M else value(table[z], c - s)
                        for z, s in zip(after[j, a], shift[j, a], strict=True)
                    ]
                    q[j, a, c] = weight[j, a] @ ahead - bonus[j, a]
        table = q.min(axis=1)
        if left < H:
            np.testing.assert_allclose(plan.tables[left], table, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(plan.curve, 0.5 * start @ table, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_crossed_against_plain_numpy(seed):
    """Each half values by hand what the other one chooses; the tables are the mean of the two."""
    rng = np.random.default_rng(seed)
    M, A, H, C = 4, 3, 5, 12
    halves = [random_rows(rng) for _ in range(2)]
    scale = BudgetScale(0.5, -4.0, C, 0.25)
    allowed, start = rng.random((M, A)) < 0.7, rng.dirichlet(np.ones(M))
    plan = plan_crossed((halves[0][3], halves[1][3]), scale, H, start, 0.3, allowed)
    tables = [np.tile(np.maximum(np.arange(C) - 4.0, 0.0), (M, 1)) for _ in halves]
    for left in range(1, H + 1):
        q = np.full((2, M, A, C), np.inf)
        for half, j, a, c in np.ndindex(q.shape):
            if allowed[j].any() and not allowed[j, a]:
                continue
            after, shift, weight = (part[j, a] for part in halves[half][:3])
            ahead = [
                max(c - s - 4.0 + 0.25 * (left - 1) / 0.5, 0.0) if z == M else value(tables[half][z], c - s)
                for z, s in zip(after, shift, strict=True)
            ]
            q[half, j, a, c] = weight @ ahead
        tables = [np.empty((M, C)) for _ in halves]
        for half, j, c in np.ndindex(2, M, C):
            theirs = q[1 - half, j]
            best = [a for a in range(A) if theirs[a, c] <= theirs[:, c].min() + 1e-9]
            tables[half][j, c] = q[half, j, min(best, key=lambda a, t=theirs: t[a, -1]), c]
        if left < H:
            np.testing.assert_allclose(plan.tables[left], np.mean(tables, axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(plan.curve, 0.5 * start @ np.mean(tables, axis=0), rtol=1e-9)


def test_crossed_plans_of_two_equal_halves_are_the_plain_plan():
    rng = np.random.default_rng(3)
    rows, scale = random_rows(rng)[3], BudgetScale(0.5, -4.0, 12, 0.25)
    allowed, start = np.ones((4, 3), dtype=bool), np.full(4, 0.25)
    plain = plan_kernel(rows, scale, 5, start, 0.3, np.zeros((4, 3)), allowed)
    crossed = plan_crossed((rows, rows), scale, 5, start, 0.3, allowed)
    np.testing.assert_allclose(crossed.tables, plain.tables, atol=1e-6)
    assert crossed.promise == pytest.approx(plain.promise)


@pytest.mark.parametrize("H", [1, 3])
def test_no_optimism_where_all_actions_are_equal(H):
    """Rewards 0 or 1 with probability 1/2 whatever is done; each action was tried eight times in each half. The plain
    plan believes that the luckiest of five is better, the crossed one does not, on average over draws of the data."""
    rng = np.random.default_rng(0)
    A, scale = 5, BudgetScale(1.0, -1.0, 6, 0.0)
    law = np.array([math.comb(H, k) for k in range(H + 1)]) / 2**H
    truth = np.maximum(np.arange(6)[:, None] - 1.0 - np.arange(H + 1), 0.0) @ law
    plain, crossed = [], []
    for _ in range(300):
        ones = rng.binomial(8, 0.5, size=(2, A)) / 8
        weights = [np.column_stack([1 - p, p]).ravel() for p in (*ones, ones.mean(axis=0))]
        pair, zero = np.repeat(np.arange(A), 2), np.zeros(2 * A, dtype=int)
        *halves, both = (merged(pair, zero, np.tile([0.0, 1.0], A), w, 1, A) for w in weights)
        args, all_ = (scale, H, np.ones(1)), np.ones((1, A), dtype=bool)
        plain.append(plan_kernel(both, *args, 0.5, np.zeros((1, A)), all_).curve - truth)
        crossed.append(plan_crossed(tuple(halves), *args, 0.5, all_).curve - truth)
    found, error = np.mean(crossed, axis=0), np.std(crossed, axis=0) / np.sqrt(300)
    assert (found >= -3 * error).all()
    assert (found <= 3 * error + 0.03 * (H - 1)).all()  # the same draw of the data counts in every step
    assert np.mean(plain, axis=0)[3] < -0.08 * H  # the shortfall of budget 2 looks smaller than it is


@pytest.mark.parametrize("tau", [0.05, 0.3, 1.0])
def test_promise_is_the_exact_optimum_of_a_finite_mdp(tau):
    rng = np.random.default_rng(7)
    S, A, H = 5, 3, 6
    listed = [
        (s, a, int(t), p, int(r))
        for s in range(S)
        for a in range(A)
        for t, p, r in zip(rng.integers(S, size=3), rng.dirichlet(np.ones(3)), rng.integers(-2, 4, size=3), strict=True)
    ]
    s, a, t, p, r = (np.array(column) for column in zip(*listed, strict=True))
    mdp = FiniteMDP.from_rows(s, a, t, p, r, horizon=H, start=0)
    rows = merged(s * A + a, t, r - 1.0, p, S, A)
    scale = BudgetScale(1.0, -3.0 * H, 6 * H + 1, 1.0)
    plan = plan_kernel(rows, scale, H, np.eye(S)[0], tau, np.zeros((S, A)), np.ones((S, A), dtype=bool))
    assert plan.promise == pytest.approx(solve(mdp, tau=tau).cvar, abs=1e-9)


def deadline(H):
    """A single state: action 0 pays 1 a step; action 1 ends the episode and pays 10. The last step alone is for 1."""
    pair, after, shift = np.array([0, 1]), np.array([0, 1]), np.array([1.0, 10.0])
    rows = merged(pair, after, shift, np.ones(2), 1, 2)
    return rows, BudgetScale(1.0, 0.0, H + 12, 0.0), np.zeros((1, 2)), np.ones((1, 2), dtype=bool)


def counted_actions(monkeypatch, name):
    """Calls of a kernel from now on."""
    found, real = [], getattr(_kernels, name)
    monkeypatch.setattr(_kernels, name, lambda *args: found.append(1) or real(*args))
    return found


@pytest.mark.parametrize("crossed", [False, True])
def test_actions_are_looked_for_where_tables_are_kept_alone(monkeypatch, crossed):
    H = 300
    rows, scale, bonus, allowed = deadline(H)
    looked = counted_actions(monkeypatch, "crossed_backup" if crossed else "backup")
    held = counted_actions(monkeypatch, "held_backup")
    if crossed:
        plan = plan_crossed((rows, rows), scale, H, np.ones(1), 0.5, allowed)
    else:
        plan = plan_kernel(rows, scale, H, np.ones(1), 0.5, bonus, allowed)
    # With the last step comes what ends the episode: every step counts, and the plan is exact.
    assert plan.promise == pytest.approx(H - 1 + 10)
    assert len(looked) == len(kept_steps(H)) - 1 + 1 < 45
    assert len(held) == (1 + crossed) * (H - len(looked))


@pytest.mark.parametrize("seed", range(3))
def test_a_plan_with_held_actions_promises_what_it_earns(seed):
    """Held actions are a policy: it is never better than the best one, and here hardly worse, with 60 steps left."""
    rng = np.random.default_rng(seed)
    M, A, H, C = 6, 3, 60, 120
    rows = random_rows(rng, M, A)[3]
    scale = BudgetScale(1.0, -C / 2, C, 0.0)
    bonus, allowed, start = np.zeros((M, A)), np.ones((M, A), dtype=bool), np.full(M, 1 / M)
    plan = plan_kernel(rows, scale, H, start, 0.3, bonus, allowed)
    best = planned_everywhere(rows, scale, H, start, bonus, allowed)
    assert (plan.curve >= best - 1e-9).all()
    assert (plan.curve <= best + 0.05).all()


def planned_everywhere(rows, scale, H, start, bonus, allowed):
    """The curve where actions are looked for with every step."""
    pad = int(np.abs(rows.shift).max()) + 1
    table, law = np.empty((len(bonus) + 1, scale.count + 2 * pad)), (rows.ptr, rows.after, rows.shift, rows.weight)
    values = np.tile(np.maximum(np.arange(scale.count) + scale.low, 0.0), (len(bonus), 1))
    taken = np.zeros(values.shape, dtype=np.int16)
    for left in range(1, H + 1):
        _kernels.widen(values, pad, scale.ended(left - 1), table)
        _kernels.backup(*law, bonus, allowed, pad, float(left), table, values, taken)
    return start @ values


def test_held_actions_are_those_of_a_budget_that_can_fall_short():
    """With little to ask for every action will do; the one that is held must still do when more is asked for.

    Action 0 ends the episode, action 1 pays 1 a step and goes on; budgets are counted from 1 a step.
    """
    H, C = 200, 260
    rows = merged(np.array([0, 1]), np.array([1, 0]), np.array([-1.0, 0.0]), np.ones(2), 1, 2)
    scale = BudgetScale(1.0, -float(C - 1), C, 1.0)
    plan = plan_kernel(rows, scale, H, np.ones(1), 0.5, np.zeros((1, 2)), np.ones((1, 2), dtype=bool))
    assert plan.promise == pytest.approx(H)
    np.testing.assert_allclose(plan.tables[-1], 0.0, atol=1e-9)


def test_unknown_pairs_are_worth_going_to_at_once():
    rows = merged(np.array([0]), np.array([0]), np.zeros(1), np.ones(1), 1, 2)  # action 1 has no outcomes
    scale = BudgetScale(1.0, -3.0, 7, 0.0)
    bonus = np.array([[0.05, 0.1]])
    plan = plan_kernel(rows, scale, 4, np.ones(1), 0.5, bonus, np.ones((1, 2), dtype=bool))
    np.testing.assert_allclose(plan.curve, -0.4)


def test_real_rewards_are_split_between_budgets():
    rows = merged(np.zeros(2, dtype=int), np.array([0, 0]), np.array([0.25, 2.0]), np.array([0.5, 0.5]), 1, 1)
    assert rows.shift.tolist() == [0, 1, 2]
    np.testing.assert_allclose(rows.weight, [0.375, 0.125, 0.5])


def test_kept_steps_reach_from_the_end_to_the_start():
    for horizon in (1, 2, 17, 40, 500):
        steps = kept_steps(horizon)
        assert steps[0] == 0
        assert steps[-1] == horizon - 1
        assert (np.diff(steps) > 0).all()
    assert kept_steps(500).size < 60
