"""The choice of a kernel policy against plain NumPy, at steps whose tables are kept and between them."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank.learning.simulators.model import merged
from tailrank.planning.kernel.induction import kept_steps, plan_kernel
from tailrank.policies.kernel import BudgetScale, KernelPolicy, Metric, interpolation
from tailrank.policies.moved import Moved

M, A, H, C, m = 9, 3, 25, 30, 2


def value(row, place):
    """Linear between entries, constant below, of slope one above."""
    return np.interp(place, np.arange(len(row)), row) + max(place - (len(row) - 1), 0.0)


@pytest.fixture
def policy():
    rng = np.random.default_rng(0)
    pair = np.repeat(np.arange(M * A - 1), 4)  # the last pair has no outcomes
    rows = merged(pair, rng.integers(0, M + 1, size=pair.size), rng.normal(size=pair.size), rng.random(pair.size), M, A)
    scale = BudgetScale(0.5, -12.0, C, 0.1)
    bonus, allowed = 0.1 * rng.random((M, A)), rng.random((M, A)) < 0.8
    plan = plan_kernel(rows, scale, H, np.full(M, 1 / M), 0.2, bonus, allowed)
    metric = Metric(rng.normal(size=m), rng.normal(size=(m + 1, 2)))
    args = (scale, bonus, allowed, plan.steps, plan.tables, plan.budget, H)
    return KernelPolicy(metric, rng.normal(size=(M, 2)), 4, rows, *args)


@pytest.mark.parametrize("h", [H - 1, H - 10, H - 18, 2])
def test_choice_against_plain_numpy(policy, h):
    rng, left, rows = np.random.default_rng(h), H - h, policy.rows
    states, budgets = rng.normal(size=(40, m)), rng.uniform(-8, 8, size=40)
    steps = kept_steps(H)
    tables = np.stack([policy.tables[:, :, c] for c in range(C)], axis=-1).astype(float)
    now = np.array([[np.interp(left - 1, steps, tables[:, j, c]) for c in range(C)] for j in range(M)])
    places = policy.metric.place(states, h / H)
    index, phi = interpolation(places, policy.representatives, 4)
    found, short = policy.act(h, states, budgets), policy.shortfall(h, states, budgets)
    for i in range(40):
        place = (budgets[i] - 0.1 * left) / 0.5 + 12.0
        q = np.zeros((M, A))
        for j in range(M):
            for a in range(A):
                e = range(rows.ptr[j * A + a], rows.ptr[j * A + a + 1])
                q[j, a] = -policy.bonus[j, a] * (1 if len(e) else left)
                for k in e:
                    c = place - rows.shift[k]
                    over = max(c - 12.0 + 0.1 * (left - 1) / 0.5, 0.0)
                    q[j, a] += rows.weight[k] * (over if rows.after[k] == M else value(now[rows.after[k]], c))
            if policy.allowed[j].any():
                q[j, ~policy.allowed[j]] = q[j, policy.allowed[j]].max() + 1e-3
        total = phi[i] @ q[index[i]]
        assert total[found[i]] <= total.min() + 1e-5
        assert short[i] == pytest.approx(0.5 * total.min(), abs=1e-5)


def test_memory_is_the_budget_that_is_left(policy):
    memory = policy.update(
        0, Moved(np.zeros((2, m)), np.zeros(2), np.array([1.5, -1.0]), np.zeros((2, m))), policy.start(2)
    )
    np.testing.assert_allclose(memory, policy.budget + np.array([-1.5, 1.0]))
