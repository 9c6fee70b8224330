"""Plans with caution: against a plain recursion, and what caution is for."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tailrank.models.latent_counts import LatentCounts
from tailrank.planning.observed.planner import plan_observed
from tailrank.planning.observed.problem import CountedProblem


def counted(seed, H=3, K=3, A=3, top=3, tries=6):
    """Random counts for all steps alike; the last action of latent 0 was never tried."""
    rng = np.random.default_rng(seed)
    rows = [
        (0, z, a, int(rng.integers(K + 1)), int(rng.integers(top + 1)))
        for z in range(K)
        for a in range(A)
        for _ in range(int(rng.integers(1, tries)))
        if (z, a) != (0, A - 1)
    ]
    counts = LatentCounts(1, K, A, top)
    counts.add(*np.array(rows).T)
    return counts, rows


def planned(counts, H, tau, caution, zero=1, usual=1):
    K, A = counts.n_latents, counts.n_actions
    bonus, present = np.zeros((1, K, A)), np.ones((H, K), dtype=bool)
    problem = CountedProblem(counts, H, bonus, present, np.eye(K), tau, zero, np.full(H, usual), caution=caution)
    return plan_observed(problem)


def by_recursion(rows, H, K, A, caution, zero):
    """The shortfall of each action as a function of step, latent and budget."""
    least = min(row[4] for row in rows)

    @cache
    def values(h, z, c):
        def after(to, units):
            left = max(c - units, 0)
            if h + 1 == H:
                return left
            return max(left - (H - h - 1) * zero, 0) if to == K else min(values(h + 1, to, left))

        worst = max(after(to, least) for to in range(K + 1))
        found = []
        for a in range(A):
            x = np.array([after(row[3], row[4]) for row in rows if row[1:3] == (z, a)], dtype=float)
            if x.size == 0:
                found.append(worst)
                continue
            mean, margin = x.mean(), np.sqrt(2 * caution * x.var() / x.size)
            found.append(min(mean + margin + (worst - mean) * caution / (x.size + caution), worst))
        return tuple(found)

    return values


@pytest.mark.parametrize("caution", [0.03, 0.5, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_against_a_plain_recursion(seed, caution):
    counts, rows = counted(seed)
    plan, values = planned(counts, 3, 0.3, caution), by_recursion(rows, 3, 3, 3, caution, 1)
    for z in range(3):
        for c in range(plan.values[0].shape[2]):
            np.testing.assert_allclose(plan.values[0][z, :, c], values(0, z, c), atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_more_caution_promises_less(seed):
    counts, _ = counted(seed)
    promises = [planned(counts, 3, 0.3, caution).objective for caution in (1e-9, 0.03, 0.3, 3.0, 1e9)]
    assert (np.diff(promises) <= 1e-9).all()
    assert promises[0] > promises[-1]


def test_what_was_never_tried_is_left_alone():
    """Without caution the untried pair is hoped to lead anywhere; the tried one pays 1 of 3 for sure."""
    counts = LatentCounts(1, 2, 2, 3)
    rows = [(0, 0, 0, 0, 1)] * 5 + [(0, 1, a, 1, 3) for a in (0, 1)] * 5
    counts.add(*np.array(rows).T)
    hope, care = (planned(counts, 2, 0.5, caution, zero=0, usual=3) for caution in (0.0, 0.1))
    assert hope.act_in(0, np.array([0]), np.array([5])).tolist() == [1]
    assert care.act_in(0, np.array([0]), np.array([5])).tolist() == [0]


def test_a_lucky_pair_is_not_believed():
    """One lucky try against a hundred that are nearly as good."""
    counts = LatentCounts(1, 1, 2, 10)
    rows = [(0, 0, 0, 1, 10)] + [(0, 0, 1, 1, 9)] * 99 + [(0, 0, 1, 1, 0)]
    counts.add(*np.array(rows).T)
    picks = [
        planned(counts, 1, 1.0, caution, zero=0).act_in(0, np.array([0]), np.array([10]))[0] for caution in (0.0, 1.0)
    ]
    assert picks == [0, 1]


@pytest.mark.parametrize("seed", range(3))
def test_a_sure_latent_is_the_corner_of_a_mixture(seed):
    counts, _ = counted(seed)
    plan, rng = planned(counts, 3, 0.3, 0.0), np.random.default_rng(seed)
    for h in range(3):
        z, budgets = rng.integers(3, size=40), rng.integers(-2, 15, size=40)
        np.testing.assert_array_equal(plan.act_in(h, z, budgets), plan.act(h, np.eye(3)[z], budgets))
