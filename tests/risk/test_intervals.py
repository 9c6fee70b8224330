"""Confidence bounds: the bands hold as often as they say, the bounds cover, and other formulas give the same."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from tailrank import InputError
from tailrank.risk import _bands, _bootstrap, intervals
from tailrank.risk.law import ReturnLaw, cvar, var

TIMES = 10_000
EACH = (0.1, 0.1)
"""What each side may miss."""
LEAST = 0.9 - 4 * np.sqrt(0.09 / TIMES)


def sample_bernoulli(rng, shape):
    return (rng.random(shape) < 0.85).astype(float)


def sample_atoms(rng, shape):
    """Atoms at VaR for tau = 0.05, 0.3 and 1: the boundary is split."""
    return rng.choice([0.0, 0.25, 0.5, 1.0], p=[0.03, 0.12, 0.6, 0.25], size=shape)


def sample_rare(rng, shape):
    return np.where(rng.random(shape) < 0.02, 0.0, 0.7)


LAWS = {
    "bernoulli": (sample_bernoulli, ReturnLaw.of([0, 1], [0.15, 0.85])),
    "atoms": (sample_atoms, ReturnLaw.of([0, 0.25, 0.5, 1], [0.03, 0.12, 0.6, 0.25])),
    "rare": (sample_rare, ReturnLaw.of([0, 0.7], [0.02, 0.98])),
    "uniform": (lambda rng, shape: rng.random(shape), None),
    "beta": (lambda rng, shape: rng.beta(8, 2, shape), None),
}
SIZES = [(20, 0.3), (100, 0.05), (100, 1.0), (300, 0.1)]


def truth(name: str, tau: float) -> tuple[float, float]:
    """CVaR and VaR in closed form."""
    law = LAWS[name][1]
    if law is not None:
        return law.cvar(tau), law.var(tau)
    if name == "uniform":
        return tau / 2, tau
    q = special.betaincinv(8, 2, tau)
    return 0.8 * special.betainc(9, 2, q) / tau, q


def samples(name: str, n: int, times: int = TIMES) -> np.ndarray:
    return np.sort(LAWS[name][0](np.random.default_rng(n), (times, n)), axis=1)


def held(found: tuple[np.ndarray, np.ndarray], value: float) -> tuple[float, float]:
    """How often the lower and the upper bound are on their side."""
    return float((found[0] <= value + 1e-12).mean()), float((value <= found[1] + 1e-12).mean())


# Bands


def test_probability_to_stay_is_that_of_kolmogorov_and_smirnov():
    for n in (1, 2, 7, 60, 500):
        e = min(0.8 / np.sqrt(n), 0.9)
        u = np.arange(n) / n + e
        i = np.arange(1, n + 1)[u < 1]
        exact = stats.ksone.cdf(e, n)
        assert _bands.stay_probability(n, u[u < 1], i, np.full(i.size, n)) == pytest.approx(exact, abs=1e-10)
        low = np.arange(1, n + 1) / n - e
        j = np.arange(n)[low > 0]
        assert _bands.stay_probability(n, low[low > 0], np.zeros(j.size), j) == pytest.approx(exact, abs=1e-10)


def test_probability_to_stay_between_two_sides():
    """Two points in a corridor, by hand: N(0.3) = 1 and N(0.6) = 1 or 2."""
    expected = 2 * 0.3 * 0.7
    assert _bands.stay_probability(2, np.array([0.3, 0.6]), np.array([1, 1]), np.array([1, 2])) == pytest.approx(
        expected
    )
    assert _bands.stay_probability(2, np.array([0.5]), np.array([3]), np.array([3])) == 0.0


@pytest.mark.parametrize(("n", "tau"), [(1, 1.0), (3, 0.9), (40, 0.4), (400, 0.05), (400, 1.0)])
def test_a_beta_band_misses_exactly_as_often_as_it_may(n, tau):
    delta, times = 0.1, 40_000
    u = np.sort(np.random.default_rng(0).random((times, n)), axis=1)
    upper, lower = _bands.beta_upper(n, tau, delta), _bands.beta_lower(n, tau, delta)
    noise = 4 * np.sqrt(delta * (1 - delta) / times)
    too_high, too_low = (u > upper).any(axis=1).mean(), (u < lower).any(axis=1).mean()
    assert too_low == pytest.approx(delta, abs=noise + 0.01 * delta)
    assert too_high <= delta + noise
    if upper[0] < tau:
        # What is dropped where u passes tau leaves a little of delta unused when indices are few.
        assert too_high >= 0.6 * delta
    assert (np.diff(upper) >= 0).all()
    assert (np.diff(lower) >= 0).all()


def test_the_band_of_dkw_is_nearly_tight_and_half_of_it_is_not_enough():
    n, delta = 500, 0.1
    u = np.sort(np.random.default_rng(1).random((TIMES, n)), axis=1)
    upper, lower = _bands.dkw_upper(n, delta), _bands.dkw_lower(n, delta)
    for missed in ((u > upper).any(axis=1).mean(), (u < lower).any(axis=1).mean()):
        assert 0.75 * delta <= missed <= delta + 0.012
    half = np.arange(n) / n + upper[0] / 2
    assert (u > half).any(axis=1).mean() > 0.5


# Formulas


def thomas_and_learned_miller(losses: np.ndarray, alpha: float, delta: float, a: float, b: float):
    """Theorems 3 and 4 as printed, for the upper tail of losses: upper and lower bound on CVaR_alpha."""
    n = losses.size
    z = np.sort(losses)
    e = np.sqrt(np.log(1 / delta) / (2 * n))
    up, z_up = 0.0, np.append(z, b)
    for i in range(1, n + 1):
        up += (z_up[i] - z_up[i - 1]) * max(0.0, i / n - e - (1 - alpha))
    down, z_down = 0.0, np.append(a, z)
    for i in range(n):
        down += (z_down[i + 1] - z_down[i]) * max(0.0, min(1.0, i / n + e) - (1 - alpha))
    return b - up / alpha, z[-1] - down / alpha


@pytest.mark.parametrize("seed", range(8))
def test_thomas_and_learned_miller_for_the_other_tail(seed):
    rng = np.random.default_rng(seed)
    n, tau = int(rng.integers(1, 80)), float(rng.choice([0.02, 0.1, 0.37, 1.0]))
    x = rng.beta(2, 1, n) if seed % 2 else rng.integers(0, 4, n) / 4
    upper_loss, lower_loss = thomas_and_learned_miller(-x, tau, 0.05, -2.0, 1.0)
    found = intervals.cvar_interval(x, tau, 0.9, (-1.0, 2.0), "thomas")
    assert (found.lower, found.upper) == pytest.approx((-upper_loss, -lower_loss), abs=1e-12)
    one = intervals.cvar_interval(x, tau, 0.95, (-1.0, 2.0), "thomas", side="lower")
    assert (one.lower, one.upper) == (pytest.approx(found.lower), 2.0)
    two_sided = intervals.cvar_interval(x, tau, 0.9, (-1.0, 2.0), "dkw")
    assert (two_sided.lower, two_sided.upper) == pytest.approx((found.lower, found.upper), abs=1e-12)
    assert intervals.dkw_bounds(x, tau, 0.9, (-1.0, 2.0)) == (two_sided.lower, two_sided.upper)
    looser = intervals.cvar_interval(x, tau, 0.95, (-1.0, 2.0), "dkw", side="lower")
    assert looser.lower <= one.lower


@pytest.mark.parametrize("tau", [0.05, 0.3, 1.0])
def test_bounds_are_the_cvar_of_the_extreme_laws(tau):
    rng = np.random.default_rng(3)
    x = np.sort(rng.integers(0, 5, 30) / 4)
    u, low = np.sort(rng.random(30)), np.sort(rng.random(30))
    lower, upper = intervals.band_bounds(x, tau, u, low, (-1.0, 3.0))
    assert lower == pytest.approx(cvar([-1.0, *x], tau, np.diff([0, *u, 1])), abs=1e-12)
    assert upper == pytest.approx(cvar([*x, 3.0], tau, np.diff([0, *low, 1])), abs=1e-12)


def test_anderson_is_at_least_as_tight_as_hoeffding():
    for n in (5, 50):
        x = np.random.default_rng(n).beta(3, 1, n)
        anderson, hoeffding = (intervals.mean_interval(x, 0.9, (0, 1), m) for m in ("anderson", "hoeffding"))
        assert hoeffding.lower <= anderson.lower <= x.mean() <= anderson.upper <= hoeffding.upper


# Coverage: 10,000 experiments for each law, size and tail fraction


@pytest.mark.parametrize("name", LAWS)
def test_bounds_for_cvar_var_and_mean_cover(name):
    for n, tau in SIZES:
        x = samples(name, n)
        value, quantile = truth(name, tau)
        mean, _ = truth(name, 1.0)
        for method in ("beta", "thomas", "dkw", "brown"):
            assert min(held(intervals.METHODS[method](x, tau, EACH, (0.0, 1.0)), value)) >= LEAST, (method, n, tau)
        for method in ("beta", "anderson", "hoeffding", "bernstein"):
            assert min(held(intervals.MEAN_METHODS[method](x, 1.0, EACH, (0.0, 1.0)), mean)) >= LEAST, (method, n)
        assert min(held(intervals.order_bounds(x, tau, EACH, (0.0, 1.0)), quantile)) >= LEAST, (n, tau)


def test_half_an_epsilon_does_not_cover(monkeypatch):
    """What the test above would say of a band that is too narrow."""
    epsilon = _bands._epsilon
    monkeypatch.setattr(_bands, "_epsilon", lambda n, delta: epsilon(n, delta) / 2)
    x = np.sort((np.random.default_rng(0).random((TIMES, 200)) < 0.5).astype(float), axis=1)
    for method in ("thomas", "dkw"):
        assert max(held(intervals.METHODS[method](x, 1.0, EACH, (0.0, 1.0)), 0.5)) < LEAST


def test_order_statistics_for_the_quantile_are_the_best_there_are():
    """For a continuous law the next order statistic would fail more often than it may."""
    n, tau, delta = 150, 0.1, 0.05
    index = np.sort(np.random.default_rng(2).random((TIMES, n)), axis=1)
    places = np.broadcast_to(np.arange(1.0, n + 1), (1, n))
    (i,), (j,) = (end.astype(int) for end in intervals.order_bounds(places, tau, (delta, delta), (0.0, n + 1.0)))
    assert stats.binom.cdf(i - 1, n, tau) <= delta < stats.binom.cdf(i, n, tau)
    assert stats.binom.sf(j - 1, n, tau) <= delta < stats.binom.sf(j - 2, n, tau)
    assert (index[:, i - 1] > tau).mean() <= delta + 0.01 < (index[:, i] > tau).mean() + 0.02
    assert (index[:, j - 1] < tau).mean() <= delta + 0.01


# The bootstrap


def test_bca_is_that_of_scipy(monkeypatch):
    """A small skewed sample, so that bias and acceleration matter."""
    monkeypatch.setattr(_bootstrap, "RESAMPLES", 40_000)
    x = np.sort(np.random.default_rng(1).exponential(size=20) ** 2)
    for tau in (0.4, 1.0):

        def tail(sample, axis=-1, tau=tau):
            return intervals.sample_cvar(np.sort(sample, axis=axis), tau)

        theirs = stats.bootstrap(
            (x,), tail, n_resamples=40_000, confidence_level=0.9, method="BCa", rng=np.random.default_rng(1)
        ).confidence_interval
        ours = intervals.cvar_interval(x, tau, 0.9, method="bca", rng=np.random.default_rng(2))
        plain = intervals.cvar_interval(x, tau, 0.9, method="percentile", rng=np.random.default_rng(2))
        spread = theirs.high - theirs.low
        assert (ours.lower, ours.upper) == pytest.approx((theirs.low, theirs.high), abs=0.02 * spread)
        assert max(abs(ours.lower - plain.lower), abs(ours.upper - plain.upper)) > 0.05 * spread
        assert ours.approximate
        assert not intervals.cvar_interval(x, tau, 0.9, (0, 100)).approximate


@pytest.mark.parametrize("tau", [0.03, 0.4, 1.0])
def test_jackknife_and_resamples_against_loops(tau, monkeypatch):
    rng = np.random.default_rng(5)
    x = np.sort(rng.integers(0, 9, 25).astype(float))
    one_out = [cvar(np.delete(x, i), tau) for i in range(x.size)]
    np.testing.assert_allclose(_bootstrap._jackknife(x, tau), one_out, atol=1e-12)
    monkeypatch.setattr(_bootstrap, "RESAMPLES", 20_000)
    found = _bootstrap.resamples(x, tau, rng)
    expected = intervals.sample_cvar(np.sort(rng.choice(x, size=(20_000, x.size)), axis=1), tau)
    assert stats.ks_2samp(np.round(found, 9), np.round(expected, 9)).pvalue > 1e-3


def test_the_bootstrap_covers_about_as_often_as_it_says_where_the_tail_is_well_seen():
    rng, count = np.random.default_rng(0), 150
    for kind in _bootstrap.KINDS:
        x = np.sort(rng.random((count, 100)), axis=1)
        ends = np.array([_bootstrap.interval(row, 0.5, (0.05, 0.05), kind, rng) for row in x])
        assert ((ends[:, 0] <= 0.25) & (ends[:, 1] >= 0.25)).mean() == pytest.approx(0.9, abs=0.08)


# Edges

ALL = [*intervals.METHODS]


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("tau", [1e-9, 0.1, 1.0])
def test_one_return_and_equal_returns(method, tau):
    rng = np.random.default_rng(0)
    for x in ([0.4], [0.4] * 50):
        found = intervals.cvar_interval(x, tau, 0.9, (0, 1), method, rng=rng)
        assert 0 <= found.lower <= 0.4 <= found.upper <= 1
    assert intervals.mean_interval([0.4], 0.9, (0, 1), "bernstein").width == 1.0


def test_too_few_returns_say_nothing_about_a_tiny_tail():
    x = np.linspace(0.3, 0.9, 40)
    for method in ("beta", "thomas", "dkw"):
        found = intervals.cvar_interval(x, 0.001, 0.95, (0, 1), method)
        assert found.lower == 0.0
        assert found.upper <= 1.0
    quantile = intervals.var_interval(x, 0.0001, 0.95)
    assert (quantile.lower, quantile.upper) == (-np.inf, 0.3)
    assert intervals.var_interval(x, 0.001, 0.95, (0, 1)).lower == 0.0
    assert intervals.var_interval(x, 1.0, 0.95, (0, 1)).upper == 1.0
    assert intervals.var_interval(x, 1.0, 0.95, (0, 1)).lower == var(x, 1.0)


def test_ends_that_are_not_known():
    x = np.random.default_rng(0).exponential(size=500)
    known, open_above = (intervals.cvar_interval(x, 0.2, 0.95, b) for b in ((0, 100), (0, None)))
    assert open_above == known
    assert intervals.cvar_interval(x, 0.2, 0.95, (None, 100)).lower == -np.inf
    assert intervals.cvar_interval(x, 1.0, 0.95, (0, None)).upper == np.inf
    assert intervals.cvar_interval(x, 0.2, 0.95, rng=np.random.default_rng(0)).method == "bca"
    assert known.method == "beta"


@pytest.mark.parametrize("method", ["beta", "thomas", "brown", "percentile", "bca"])
def test_shifted_and_scaled_returns_have_shifted_and_scaled_bounds(method):
    x = np.random.default_rng(4).integers(0, 9, 80).astype(float)
    base = intervals.cvar_interval(x, 0.3, 0.9, (0, 8), method, rng=np.random.default_rng(0))
    moved = intervals.cvar_interval(1e6 + 3 * x[::-1], 0.3, 0.9, (1e6, 1e6 + 24), method, rng=np.random.default_rng(0))
    assert (moved.lower, moved.upper) == pytest.approx((1e6 + 3 * base.lower, 1e6 + 3 * base.upper), abs=1e-8)


def test_more_confidence_and_fewer_returns_are_wider():
    x = np.random.default_rng(6).random(400)
    for method in ("beta", "thomas", "dkw", "brown"):
        narrow, wide = (intervals.cvar_interval(x, 0.2, c, (0, 1), method) for c in (0.9, 0.99))
        assert wide.lower <= narrow.lower <= cvar(x, 0.2) <= narrow.upper <= wide.upper
        assert intervals.cvar_interval(x[:50], 0.2, 0.9, (0, 1), method).width > narrow.width


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: intervals.cvar_interval([], 0.1), "returns: at least one is needed"),
        (lambda: intervals.cvar_interval([1.0, np.nan], 0.1), r"returns\[1\] = nan: must be finite"),
        (lambda: intervals.cvar_interval([1.0], 0, 0.9, (0, 1)), "tau = 0: must lie in"),
        (lambda: intervals.cvar_interval([1.0], 0.1, 1.0, (0, 1)), r"confidence = 1.0: must lie in \(0, 1\)"),
        (lambda: intervals.cvar_interval([2.0], 0.1, 0.9, (0, 1)), "must hold every return, found 2.0"),
        (lambda: intervals.cvar_interval([-1.0], 0.1, 0.9, (0, None)), "must hold every return, found -1.0"),
        (lambda: intervals.cvar_interval([0.5], 0.1, 0.9, (1, 0)), "must hold every return"),
        (lambda: intervals.cvar_interval([0.5], 0.1, 0.9, None, "thomas"), "bounds: must be given for method 'thomas'"),
        (lambda: intervals.cvar_interval([0.5], 0.1, 0.9, (0, 1), "betta"), "did you mean 'beta'"),
        (lambda: intervals.cvar_interval([0.5], 0.1, 0.9), "rng: a numpy Generator must be given for the bootstrap"),
        (lambda: intervals.cvar_interval([0.5], 0.1, 0.9, (0, 1), side="left"), "side = 'left'"),
        (lambda: intervals.mean_interval([0.5], 0.9, (0, 1), "thomas"), "method = 'thomas': must be one of"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
