"""Bands over seeds: against closed forms and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tailrank.checks import InputError
from tailrank.risk.over_runs.intervals import CENTRES, average, interval_ends, widen_confidence
from tailrank.risk.over_runs.seeds import align, band


def test_the_band_of_a_mean_is_that_of_the_normal_law():
    values = np.random.default_rng(0).normal(3.0, 2.0, size=(60, 1))
    found = band(np.zeros(1), [values], "mean", np.random.default_rng(1))
    half = stats.t.ppf(0.975, 59) * values.std(ddof=1) / np.sqrt(60)
    assert found.y[0] == pytest.approx(values.mean())
    assert found.low[0] == pytest.approx(values.mean() - half, abs=0.08 * half)
    assert found.high[0] == pytest.approx(values.mean() + half, abs=0.08 * half)


def test_runs_are_resampled_within_their_task():
    rng = np.random.default_rng(0)
    tasks = [rng.normal(0.0, 1.0, size=(40, 1)), rng.normal(100.0, 3.0, size=(20, 1))]
    found = band(np.zeros(1), tasks, "mean", np.random.default_rng(1))
    # Each task counts one half, whatever its number of runs; pooled, the two would be 50 apart.
    half = 2.0 * 0.5 * np.sqrt(tasks[0].var(ddof=1) / 40 + tasks[1].var(ddof=1) / 20)
    assert found.y[0] == pytest.approx((tasks[0].mean() + tasks[1].mean()) / 2)
    assert found.high[0] - found.low[0] == pytest.approx(2 * half, rel=0.08)


def test_the_band_covers_as_often_as_its_docs_say():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        found = band(np.zeros(1), [rng.exponential(size=(20, 1))], "mean", rng)
        hits += found.low[0] <= 1.0 <= found.high[0]
    assert 0.87 <= hits / 200 <= 0.98


def test_few_runs_have_no_band():
    for n in (1, 2):
        assert band(np.zeros(1), [np.ones((n, 1))], "mean", np.random.default_rng(0)).low is None
    assert band(np.zeros(1), [np.ones((3, 1))], "mean", np.random.default_rng(0)).low is not None


@pytest.mark.parametrize("n", [1, 3, 4, 10, 11])
def test_centres(n):
    values = np.random.default_rng(n).exponential(size=(n, 5))
    expected = {"mean": values.mean(axis=0), "median": np.median(values, axis=0)}
    expected["iqm"] = stats.trim_mean(values, 0.25, axis=0)
    for how in CENTRES:
        assert band(np.arange(5), [values], how, np.random.default_rng(0)).y == pytest.approx(expected[how])
    with pytest.raises(InputError, match="did you mean 'median'"):
        band(np.arange(5), [values], "medain", np.random.default_rng(0))


def test_ends_against_scipy():
    """Of one sample the same bits as SciPy's bootstrap; in blocks as in one piece."""
    values = np.random.default_rng(3).exponential(size=(7, 12))
    ours = interval_ends(average, [values], 0.9, np.random.default_rng(4))
    theirs = stats.bootstrap(
        [values],
        average,
        n_resamples=5000,
        vectorized=True,
        axis=-1,
        confidence_level=widen_confidence(0.9, [12]),
        method="percentile",
        random_state=np.random.default_rng(4),
    ).confidence_interval
    np.testing.assert_allclose(ours, [theirs.low, theirs.high], rtol=1e-12)


def test_between_two_points_a_run_has_its_last_value():
    rng = np.random.default_rng(0)
    series = []
    for _ in range(4):
        x = np.sort(rng.choice(200, size=30, replace=False)).astype(float)
        series.append((x, rng.normal(size=30)))
    grid, table = align(series)
    assert (grid[0], grid[-1]) == (max(x[0] for x, _ in series), min(x[-1] for x, _ in series))
    for (x, y), found in zip(series, table):
        for at, value in zip(grid, found):
            assert value == [b for a, b in zip(x, y) if a <= at][-1]
    with pytest.raises(InputError, match="no stretch in common"):
        align([(np.array([1.0, 2.0]), np.zeros(2)), (np.array([3.0, 4.0]), np.zeros(2))])
