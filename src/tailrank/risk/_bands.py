"""Bands for uniform order statistics: where all of U_(1) <= .. <= U_(n) lie with a given probability.

A sample of any law is Q(U_i) with Q its quantile function, so a band for the U_(i) is a band for its
distribution function, with ties or without. Two kinds, each as an upper side (U_(i) <= u_i for all i) and
a lower side (U_(i) >= l_i for all i), each side with probability at least 1 - delta:

- *dkw*: u_i = (i - 1) / n + e, l_i = i / n - e, e = sqrt(log(1 / delta) / 2n) (Massart 1990; delta <= 1/2);
- *beta*: u_i and l_i are quantiles of the law of U_(i), Beta(i, n - i + 1), all of one level, which is chosen
  so that the probability is exact ("equal local levels", Aldor-Noiman et al. 2013). Its width is in
  proportion to the standard deviation of U_(i), so it is far narrower in the tails. Only u_i and l_i
  below tau matter to the lower tail, and only they are asked to hold.

The probability is that of a Poisson process of rate n that has n points in [0, 1], step by step through
the times u_i (Moscovich and Nadler 2017): sums of positive terms, so it is accurate to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

SPACING = 0.2
"""Of many indices, those this many standard deviations apart are asked to hold; the others follow from them."""

SMALLEST = 1e-9
"""Below this delta the level is that of the union bound: one less a probability is too coarse to search with."""

CLOSE = 0.99
"""How much of delta must be used up before the search for the level ends."""


def dkw_upper(n: int, delta: float) -> np.ndarray:
    """u [n] of the band that is as wide everywhere."""
    return np.minimum(np.arange(n) / n + _epsilon(n, delta), 1.0)


def dkw_lower(n: int, delta: float) -> np.ndarray:
    """l [n] of the band that is as wide everywhere."""
    return np.maximum(np.arange(1, n + 1) / n - _epsilon(n, delta), 0.0)


def _epsilon(n: int, delta: float) -> float:
    # Massart's one-sided constant is proved for delta <= 1/2 only.
    return float(np.sqrt(np.log(1.0 / min(delta, 0.5)) / (2.0 * n)))


@lru_cache(maxsize=64)
def beta_upper(n: int, tau: float, delta: float) -> np.ndarray:
    """u [n] of the band of beta quantiles; 1 where it passes tau."""
    from scipy.special import betainccinv

    if delta >= 1.0:
        return _frozen(np.ones(n))
    index = _indices(n, tau)

    def side(level: float) -> tuple[np.ndarray, np.ndarray]:
        u = np.nextafter(betainccinv(index, n + 1 - index, level), 1.0)
        held = u < tau
        return index[held], u[held]

    def miss(level: float) -> float:
        i, u = side(level)
        return 1.0 - stay_probability(n, u, i, np.full(i.size, n))

    i, u = side(_level(miss, delta, index.size))
    where = np.searchsorted(i, np.arange(1, n + 1))
    return _frozen(np.append(u, 1.0)[where])


@lru_cache(maxsize=64)
def beta_lower(n: int, tau: float, delta: float) -> np.ndarray:
    """l [n] of the band of beta quantiles; at most tau."""
    from scipy.special import betaincinv

    if delta >= 1.0:
        return _frozen(np.zeros(n))
    if tau == 1.0:
        return _frozen(1.0 - beta_upper(n, tau, delta)[::-1])
    index = _indices(n, tau)

    def side(level: float) -> tuple[np.ndarray, np.ndarray]:
        low = np.minimum(betaincinv(index, n + 1 - index, level), tau)
        last = int(np.searchsorted(low, tau)) + 1
        return index[:last], low[:last]

    def miss(level: float) -> float:
        i, low = side(level)
        return 1.0 - stay_probability(n, low, np.zeros(i.size, dtype=np.int64), i - 1)

    i, low = side(_level(miss, delta, index.size))
    where = np.searchsorted(i, np.arange(1, n + 1), side="right")
    return _frozen(np.append(0.0, low)[where])


def _frozen(values: np.ndarray) -> np.ndarray:
    values.setflags(write=False)
    return values


def _indices(n: int, tau: float) -> np.ndarray:
    """Indices [m] in 1..n, closer together towards both ends, up to where the lower side has passed tau."""
    most = min(n, int(tau * n + 12.0 * np.sqrt(tau * n) + 60.0))
    found, i = [], 1
    while i <= most:
        found.append(i)
        i += max(1, int(SPACING * np.sqrt(i * (n + 1 - i) / (n + 1))))
    return np.array(found)


def _level(miss: Callable[[float], float], delta: float, count: int) -> float:
    """The largest level found at which `miss` is at most delta: between delta / count (the union) and delta."""
    if delta < SMALLEST:
        return delta / count
    low, high = np.log(delta / count), np.log(delta)
    x = max(low, high - np.log(4.0 * np.log(count + 1.0)))
    while high - low > 1e-3:
        found = float(np.log(max(miss(float(np.exp(x))), 1e-15) / delta))
        low, high = (x, high) if found <= 0.0 else (low, x)
        if np.log(CLOSE) < found <= 0.0:
            break
        # The miss is nearly in proportion to the level; where it jumps, halving the bracket goes on.
        x -= found - 0.5 * np.log(CLOSE)
        if not low < x < high:
            x = 0.5 * (low + high)
    return float(np.exp(low))


def stay_probability(n: int, at: np.ndarray, least: np.ndarray, most: np.ndarray) -> float:
    """P(least[j] <= N(at[j]) <= most[j] for all j), N(t) being how many of n uniform numbers are at most t.

    at [m] in (0, 1), increasing; least, most [m]. Never too large: what is cut off counts as outside.
    """
    from scipy.special import gammaln

    mass, first, before = np.ones(1), 0, 0.0
    logs = gammaln(np.arange(n + 2))
    for t, lowest, highest in zip(at, least, most, strict=True):
        mean = n * (t - before)
        if mean > 0.0:
            jumps = np.arange(min(int(mean + 8.0 * np.sqrt(mean) + 20.0), n) + 1)
            mass = np.convolve(mass, np.exp(jumps * np.log(mean) - mean - logs[jumps + 1]))
        begin = max(int(lowest) - first, 0)
        mass = mass[begin : max(min(int(highest), n) - first + 1, 0)]
        first += begin
        kept = np.flatnonzero(mass > 1e-20)
        if kept.size == 0:
            return 0.0
        mass, first = mass[kept[0] : kept[-1] + 1], first + int(kept[0])
        before = float(t)
    rest = n - first - np.arange(mass.size)
    mean = n * (1.0 - before)
    # The last jump must make N(1) = n, and all of it is given that N(1) = n.
    last = rest * np.log(mean) - mean - logs[rest + 1] - (n * np.log(n) - n - logs[n + 1])
    return float(min(mass @ np.exp(last), 1.0))
