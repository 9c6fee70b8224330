"""Times to an event: against published numbers, against fractions by hand, against brute force, and by simulation."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from tailrank.checks import InputError
from tailrank.risk.over_runs.survival import Waits, limit, log_rank, median_time, restricted_times, survival_curve

# Remission in weeks, Freireich et al. (1963), as in every textbook: 6-MP (with censoring) and placebo.
TREATED = [6, 6, 6, 7, 10, 13, 16, 22, 23], [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
PLACEBO = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23], []


def waits(events, ends=()):
    time = np.array([*events, *ends], dtype=float)
    return Waits(time, np.arange(time.size) < len(events))


def by_hand(sample):
    """Kaplan and Meier in fractions: the share that waits after each time of an event."""
    share, result = Fraction(1), {}
    for t in sorted(set(sample.time[sample.event])):
        left = int((sample.time >= t).sum())
        share *= 1 - Fraction(int((sample.event & (sample.time == t)).sum()), left)
        result[t] = share
    return result


def expected(first, second):
    """Events of the first sample, and how many were expected, time by time."""
    seen, meant = 0, Fraction(0)
    for t in sorted({*first.time[first.event], *second.time[second.event]}):
        happened = sum(int((s.event & (s.time == t)).sum()) for s in (first, second))
        left = [int((s.time >= t).sum()) for s in (first, second)]
        seen += int((first.event & (first.time == t)).sum())
        meant += Fraction(happened * left[0], sum(left))
    return seen, meant


def random_sample(rng, n, ties=True):
    time = rng.exponential(10.0, n)
    end = rng.uniform(2.0, 25.0, n)
    sample = np.minimum(time, end)
    return Waits(np.ceil(sample) if ties else sample, time <= end)


def test_the_published_curve_and_medians():
    treated, placebo = waits(*TREATED), waits(*PLACEBO)
    found = survival_curve(treated, 0.95)
    published = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}
    for t, share in published.items():
        assert found.share[found.x == t][0] == pytest.approx(share, abs=5e-4)
    # The intervals are those of the log-log transform in the usual packages: 13 to nothing, and 4 to 11.
    one, two = median_time(treated, 0.95), median_time(placebo, 0.95)
    assert (one.value, one.low, one.high, one.beyond) == (23, 13, None, 35)
    assert (two.value, two.low, two.high) == (8, 4, 11)


@pytest.mark.parametrize("seed", range(5))
def test_the_curve_is_that_of_fractions(seed):
    sample = random_sample(np.random.default_rng(seed), 15)
    found = survival_curve(sample, 0.9)
    for t, share in by_hand(sample).items():
        assert found.share[found.x == t][0] == pytest.approx(float(share))
    assert (found.low <= found.share + 1e-12).all()
    assert (found.share <= found.high + 1e-12).all()
    assert (np.diff(found.high) <= 1e-12).all()


def test_the_interval_of_the_curve_is_that_of_greenwood():
    sample = waits(*TREATED)
    found = survival_curve(sample, 0.95)
    total = 0.0
    for t in sorted(set(sample.time[sample.event])):
        left, died = int((sample.time >= t).sum()), int((sample.event & (sample.time == t)).sum())
        total += died / (left * (left - died))
        share = float(by_hand(sample)[t])
        half = stats.norm.ppf(0.975) * np.sqrt(total) / abs(np.log(share))
        assert found.low[found.x == t][0] == pytest.approx(share ** np.exp(half))
        assert found.high[found.x == t][0] == pytest.approx(share ** np.exp(-half))


def test_a_median_that_was_not_seen_is_open():
    none = median_time(waits([], [300] * 5), 0.95)
    assert (none.value, none.low, none.high, none.beyond) == (None, None, None, 300)
    few = median_time(waits([10, 20], [300] * 3), 0.95)
    assert (few.value, few.high) == (None, None)
    assert few.low is not None
    half = median_time(waits([10, 20], [300, 300]), 0.95)
    assert half.value == 20


@pytest.mark.parametrize(("n", "open_end"), [(3, True), (5, True), (6, False), (10, False)])
def test_runs_that_all_take_the_same_time(n, open_end):
    # Of n runs all below t: the median is above t with probability at most 2^-n, 0.025 lies between n = 5 and 6.
    found = median_time(waits([30] * n), 0.95)
    assert (found.value, found.low) == (30, 30)
    assert (found.high is None) is open_end


def test_the_mean_up_to_a_time_is_the_area_below_the_curve():
    rng = np.random.default_rng(3)
    samples = [random_sample(rng, 20), random_sample(rng, 30)]
    until = limit(*samples)
    assert until == min(s.time[~s.event].min() for s in samples)
    for sample in samples:
        share = by_hand(sample)
        times = [0.0, *(t for t in share if t < until), until]
        heights = [1.0, *(float(share[t]) for t in share if t < until)]
        area = sum(h * (b - a) for h, a, b in zip(heights, times, times[1:]))
        assert restricted_times(sample, until).mean() == pytest.approx(area)
    assert limit(waits([3, 5]), waits([4])) == 5


def test_the_published_log_rank_test():
    found = log_rank(waits(*TREATED), waits(*PLACEBO), np.random.default_rng(0))
    assert found.chi2 == pytest.approx(16.79, abs=0.005)
    assert found.excess == pytest.approx(9 - 19.25, abs=0.005)
    assert found.p < 1e-3
    assert not found.exact


@pytest.mark.parametrize("seed", range(4))
def test_the_excess_is_observed_less_expected(seed):
    rng = np.random.default_rng(seed)
    first, second = random_sample(rng, 7), random_sample(rng, 9)
    found = log_rank(first, second, rng)
    seen, meant = expected(first, second)
    assert found.excess == pytest.approx(seen - float(meant))
    back = log_rank(second, first, rng)
    assert back.excess == pytest.approx(-found.excess)
    assert back.chi2 == pytest.approx(found.chi2)


@pytest.mark.parametrize("seed", range(3))
def test_the_p_value_is_that_of_all_permutations(seed):
    rng = np.random.default_rng(seed)
    first, second = random_sample(rng, 4), random_sample(rng, 5)
    time, event = (np.concatenate([getattr(s, name) for s in (first, second)]) for name in ("time", "event"))
    values = []
    for chosen in combinations(range(9), 4):
        mine = np.isin(np.arange(9), chosen)
        seen, meant = expected(Waits(time[mine], event[mine]), Waits(time[~mine], event[~mine]))
        values.append(float(seen - meant))
    values = np.array(values)
    found = log_rank(first, second, rng)
    assert found.exact
    sides = [(values >= found.excess - 1e-9).mean(), (values <= found.excess + 1e-9).mean()]
    assert found.p == pytest.approx(min(1.0, 2 * min(sides)))


def test_nothing_to_compare():
    rng = np.random.default_rng(0)
    never = log_rank(waits([], [300] * 4), waits([], [300] * 4), rng)
    assert (never.p, never.chi2, never.excess) == (1.0, 0.0, 0.0)
    same = log_rank(waits([5, 5, 5]), waits([5, 5]), rng)
    assert same.p == 1.0
    apart = log_rank(waits([], [2, 3, 4]), waits([5, 6, 9]), rng)
    assert (apart.p, apart.chi2, apart.excess) == (1.0, 0.0, 0.0)
    with pytest.raises(InputError, match="at least one"):
        waits([])


@pytest.mark.parametrize("ties", [False, True])
def test_the_interval_of_the_median_covers(ties):
    rng = np.random.default_rng(0)
    true = 10.0 * np.log(2.0)
    true = np.ceil(true) if ties else true
    hits = 0
    for _ in range(400):
        found = median_time(random_sample(rng, 12, ties), 0.9)
        hits += (found.low or np.inf) <= true <= (found.high or np.inf)
    assert hits / 400 > 0.86
    assert ties or hits / 400 < 0.98


def test_permutations_hold_their_level():
    rng = np.random.default_rng(0)
    p = [log_rank(random_sample(rng, 5), random_sample(rng, 5), rng).p for _ in range(150)]
    assert np.mean(np.array(p) <= 0.1) < 0.17
