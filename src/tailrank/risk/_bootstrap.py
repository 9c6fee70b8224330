"""Bootstrap intervals for CVaR (tau = 1: the mean), for returns whose range is not known. Approximate.

*percentile*: quantiles of the CVaR of resamples. *bca* (Efron 1987): quantiles at levels that are corrected
for bias (how many resamples lie below the estimate) and skewness (the acceleration, from the jackknife).
Both come short of their level when tau n is small: no resample is worse than the worst that was seen.
"""

from __future__ import annotations

import numpy as np

from tailrank.risk.law import tail_weights

KINDS = ("bca", "percentile")
RESAMPLES = 2000
BLOCK = 2_000_000
"""Entries of one block of resamples."""


def interval(
    x: np.ndarray, tau: float, deltas: tuple[float, float], kind: str, rng: np.random.Generator
) -> tuple[float, float]:
    """Lower and upper end for sorted returns x [n]; each is missed with probability about its delta."""
    lowest, spread = float(x[0]), float(x[-1] - x[0]) or 1.0
    x = (x - lowest) / spread  # so that neither a large common part nor the scale of the returns costs digits
    lower, upper = ends(resamples(x, tau, rng), x, tau, deltas, kind)
    return lowest + spread * lower, lowest + spread * upper


def ends(
    resampled: np.ndarray, x: np.ndarray, tau: float, deltas: tuple[float, float], kind: str
) -> tuple[float, float]:
    """The interval from the CVaR of resamples [m] of x [n], which spreads over 0 to 1."""
    levels = np.array([deltas[0], 1.0 - deltas[1]])
    if kind == "bca":
        levels = _correct_levels(levels, resampled, x, tau)
    lower, upper = np.quantile(resampled, levels)
    return float(lower), float(upper)


def resamples(x: np.ndarray, tau: float, rng: np.random.Generator) -> np.ndarray:
    """CVaR_tau of resamples of the sorted returns x [n], [RESAMPLES]."""
    weights = tail_weights(x.size, tau)
    weights = weights[weights > 0.0]
    found = np.empty(RESAMPLES)
    rows = max(1, BLOCK // weights.size)
    for begin in range(0, RESAMPLES, rows):
        size = min(rows, RESAMPLES - begin)
        found[begin : begin + size] = x[0] + (x - x[0])[places(x.size, weights.size, size, rng)] @ weights
    return found


def places(n: int, worst: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Which of n sorted returns are the worst ones, in order, of a resample of n: `size` times, [size, worst].

    A sorted resample is x at the places of sorted uniform numbers, and these are sums of exponential numbers over
    the sum of n + 1 of them. Only the worst are drawn; the sum of the others is a gamma number.
    """
    sums = np.cumsum(rng.standard_exponential((size, worst)), axis=1)
    sums /= sums[:, -1:] + rng.standard_gamma(n + 1 - worst, (size, 1))
    return np.minimum((n * sums).astype(np.int64), n - 1)


def _correct_levels(levels: np.ndarray, resampled: np.ndarray, x: np.ndarray, tau: float) -> np.ndarray:
    from scipy.special import ndtr, ndtri

    estimate = x[0] + (x - x[0]) @ tail_weights(x.size, tau)
    slack = 1e-12
    below = np.mean(resampled < estimate - slack) + 0.5 * np.mean(np.abs(resampled - estimate) <= slack)
    bias = ndtri(np.clip(below, 0.5 / resampled.size, 1.0 - 0.5 / resampled.size))
    gap = _jackknife(x, tau)
    gap = gap.mean() - gap
    power = float((gap**2).sum())
    speed = float((gap**3).sum()) / (6.0 * power**1.5) if power > slack**2 else 0.0
    z = bias + ndtri(np.clip(levels, 1e-12, 1.0 - 1e-12))
    return np.asarray(ndtr(bias + z / np.maximum(1.0 - speed * z, 1e-3)))


def _jackknife(x: np.ndarray, tau: float) -> np.ndarray:
    """CVaR_tau of the sample without each of its sorted values, [n]."""
    n = x.size
    if n == 1:
        return x.copy()
    weights = tail_weights(n - 1, tau)
    before = np.append(0.0, np.cumsum(weights * (x[:-1] - x[0])))
    after = np.append(np.cumsum((weights * (x[1:] - x[0]))[::-1])[::-1], 0.0)
    return x[0] + before + after
