"""Intervals over runs: against closed forms, SciPy and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tailrank.checks import InputError
from tailrank.risk.over_runs.intervals import (
    average,
    bootstrap_interval,
    check_confidence,
    holm,
    improvement,
    improvement_interval,
    interquartile_mean,
    share_interval,
    shares_interval,
    widen_confidence,
)


def test_the_share_is_wilsons():
    for hits, n, confidence in ((0, 5, 0.95), (3, 10, 0.9), (20, 20, 0.95)):
        z = stats.norm.ppf(0.5 + confidence / 2)
        p = hits / n
        mid = (p + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
        found = share_interval(hits, n, confidence)
        assert (found.value, found.low, found.high) == pytest.approx((p, mid - half, mid + half))


def test_shares_of_several_tasks():
    rng = np.random.default_rng(0)
    one = [np.array([1, 1, 0, 1, 0]) > 0]
    assert shares_interval(one, 0.95, rng) == share_interval(3, 5, 0.95)
    assert shares_interval([np.ones(5) > 0, np.ones(7) > 0], 0.95, rng) == share_interval(12, 12, 0.95)
    mixed = shares_interval([np.array([1, 1, 0, 1, 0]) > 0, np.ones(20) > 0], 0.95, rng)
    assert mixed.value == pytest.approx((0.6 + 1.0) / 2)
    assert 0.5 <= mixed.low < 0.8 < mixed.high <= 1.0
    assert shares_interval([np.ones(2) > 0], 0.95, rng).low is None


@pytest.mark.parametrize(("n", "m"), [(4, 4), (5, 9), (1, 3)])
def test_improvement_is_mann_and_whitneys(n, m):
    rng = np.random.default_rng(n)
    x, y = np.round(rng.normal(0.5, 1.0, n), 1), np.round(rng.normal(0.0, 1.0, m), 1)
    u = stats.mannwhitneyu(x, y).statistic
    assert improvement(x, y) == pytest.approx(u / (n * m))
    other = np.round(rng.normal(size=6), 1)
    both = (u / (n * m) + stats.mannwhitneyu(other, other).statistic / 36) / 2
    assert improvement(x, other, y, other) == pytest.approx(both)
    stack = np.stack([x, x + 100.0])
    assert improvement(stack, np.stack([y, y])) == pytest.approx([u / (n * m), 1.0])


def test_centres():
    a, b = np.array([0.0, 1.0, 2.0, 100.0]), np.array([3.0, 4.0, 5.0, 50.0])
    assert average(a, b) == pytest.approx((25.75 + 15.5) / 2)
    # 0, 1 | 2, 3, 4, 5 | 50, 100
    assert interquartile_mean(a, b) == pytest.approx(3.5)
    assert interquartile_mean(np.array([1.0, 2.0, 9.0])) == pytest.approx(4.0)


def test_the_interval_of_a_mean_is_students():
    values = np.random.default_rng(0).normal(3.0, 2.0, size=12)
    found = bootstrap_interval(average, [values], 0.95, np.random.default_rng(1))
    student = stats.t.interval(0.95, 11, values.mean(), stats.sem(values))
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx(student, abs=0.12 * (student[1] - student[0]))
    plain = stats.norm.interval(0.95, values.mean(), values.std() / np.sqrt(12))
    assert found.low < plain[0]
    assert found.high > plain[1]


def test_tasks_are_resampled_apart():
    rng = np.random.default_rng(0)
    tasks = [rng.normal(0.0, 1.0, 40), rng.normal(100.0, 3.0, 20)]
    found = bootstrap_interval(average, tasks, 0.95, np.random.default_rng(1))
    half = 1.96 * 0.5 * np.sqrt(tasks[0].var() / 40 + tasks[1].var() / 20)
    # Pooled, the two would be 50 apart.
    assert found.high - found.low == pytest.approx(2 * half, rel=0.12)


def test_widening_goes_away_with_runs():
    t = stats.t.ppf(0.975, 9)
    assert widen_confidence(0.95, [10]) == pytest.approx(1 - 2 * stats.norm.sf(np.sqrt(10 / 9) * t))
    assert widen_confidence(0.95, [5]) > widen_confidence(0.95, [5, 5]) > widen_confidence(0.95, [50]) > 0.95
    assert widen_confidence(0.95, [100_000]) == pytest.approx(0.95, abs=1e-4)


def test_few_runs_have_no_interval():
    rng = np.random.default_rng(0)
    assert bootstrap_interval(average, [np.ones(5), np.ones(2)], 0.95, rng).low is None
    alike = bootstrap_interval(average, [np.ones(3)], 0.95, rng)
    assert (alike.low, alike.high) == (1.0, 1.0)


def test_runs_that_are_all_better_do_not_make_certain():
    rng = np.random.default_rng(0)
    up, down = [np.array([2.0, 3.0, 4.0])], [np.array([0.0, 1.0, 1.5, 1.7])]
    found = improvement_interval(up, down, 0.95, rng)
    assert (found.value, found.high) == (1.0, 1.0)
    # Three pairs that share no run: all win with probability p^3, which is 0.025 at the end.
    assert found.low**3 == pytest.approx(0.025)
    back = improvement_interval(down, up, 0.95, rng)
    assert (back.value, back.low, back.high) == pytest.approx((0.0, 0.0, 1.0 - found.low))
    two = improvement_interval([*up, np.arange(5.0)], [*down, np.arange(5.0)], 0.95, rng)
    assert two.value == pytest.approx(0.75)
    assert 0.5 < two.low < 0.75 < two.high < 1.0


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.6]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_confidence_is_checked():
    assert check_confidence(0.9) == 0.9
    for bad in (0.2, 1.0, "much"):
        with pytest.raises(InputError, match="confidence"):
            check_confidence(bad)


@pytest.mark.parametrize(("statistic", "least"), [(average, 0.91), (interquartile_mean, 0.91)])
def test_intervals_cover(statistic, least):
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        found = bootstrap_interval(statistic, [rng.normal(size=10)], 0.95, rng)
        hits += found.low <= 0.0 <= found.high
    assert least < hits / 300 < 0.99
