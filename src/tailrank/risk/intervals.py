"""Confidence intervals for CVaR, VaR and the mean of returns from n independent samples, at every n.

Let X_(1) <= .. <= X_(n) be the sorted returns, all in [a, b], and U_(1) <= .. <= U_(n) uniform with X_(i) = Q(U_(i)).
If U_(i) <= u_i for all i, no law is worse than the one with mass u_1 at a, u_{i+1} - u_i at X_(i), 1 - u_n at X_(n);
if U_(i) >= l_i for all i, none is better than the one with mass l_i - l_{i-1} at X_(i) and 1 - l_n at b. CVaR is
monotone in that order, so with X_(0) = a, X_(n+1) = b, u_0 = l_0 = 0, u_{n+1} = l_{n+1} = 1 and x ^ y = min(x, y)

    sum_{i=0}^{n} X_(i) (u_{i+1} ^ tau - u_i ^ tau) / tau  <=  CVaR_tau  <=
    sum_{i=1}^{n+1} X_(i) (l_i ^ tau - l_{i-1} ^ tau) / tau

With the band of Dvoretzky, Kiefer, Wolfowitz and Massart these are Theorems 4 and 3 of Thomas and Learned-Miller
(2019), there for the upper tail of losses, and at tau = 1 Anderson's bounds (1969) for the mean. `bands` has the
bands. A bound with `delta` fails with probability at most delta; a two-sided interval spends half on each side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.risk import _bands, _bootstrap
from tailrank.risk.law import tail_weights

Range = tuple[float, float]
Pair = tuple[np.ndarray, np.ndarray]
SIDES = ("both", "lower", "upper")
SLACK, ROUNDING = 1e-9, 1e-13
"""What is forgiven when returns are compared with their range, relative to its width and to its ends; the range then
grows to hold them."""


@dataclass(frozen=True)
class ConfidenceInterval:
    """lower <= value <= upper with probability at least `confidence`, or about that where `approximate`."""

    lower: float
    upper: float
    confidence: float
    method: str

    @property
    def width(self) -> float:
        """upper - lower."""
        return self.upper - self.lower

    @property
    def approximate(self) -> bool:
        """Whether the confidence holds only as n grows: a bootstrap."""
        return self.method in _bootstrap.KINDS


# Bounds for sorted samples x [.., n], each side with its own delta: lower [..], upper [..].


def band_bounds(x: np.ndarray, tau: float, u: np.ndarray, low: np.ndarray, ends: Range) -> Pair:
    """The bounds above from the upper side u [n] and the lower side `low` [n] of a band."""
    worse = np.diff(np.minimum(np.concatenate([[0.0], u, [1.0]]), tau)) / tau
    better = np.diff(np.minimum(np.concatenate([[0.0], low, [1.0]]), tau)) / tau
    first, last = (np.full((*x.shape[:-1], 1), end) for end in ends)
    return _weighted_sum(np.concatenate([first, x], -1), worse), _weighted_sum(np.concatenate([x, last], -1), better)


def _weighted_sum(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum of weights [m] (a law) times sorted values [.., m], as the heaviest and how far the others are from it."""
    used = weights > 0.0
    values, weights = values[..., used], weights[used]
    for end in (values[..., 0], values[..., -1]):
        if np.isinf(end).any():
            return np.asarray(end)
    heaviest = int(weights.argmax())
    return np.asarray(values[..., heaviest] + (values - values[..., heaviest, None]) @ weights)


def thomas(x: np.ndarray, tau: float, deltas: Range, ends: Range) -> Pair:
    """Thomas and Learned-Miller (2019): the band of Dvoretzky, Kiefer, Wolfowitz and Massart, one side at a time."""
    n = x.shape[-1]
    return band_bounds(x, tau, _bands.dkw_upper(n, deltas[0]), _bands.dkw_lower(n, deltas[1]), ends)


def dkw(x: np.ndarray, tau: float, deltas: Range, ends: Range) -> Pair:
    """The two-sided inequality with its log(2 / delta): both sides hold at once, also where one is asked for.

    Two-sided intervals are those of `thomas`, where half of delta goes to each side; one-sided bounds are looser.
    """
    half = 0.5 * sum(d for d in deltas if d < 1.0)
    return thomas(x, tau, (half, half), ends)


def beta(x: np.ndarray, tau: float, deltas: Range, ends: Range) -> Pair:
    """The band of beta quantiles, exact for what matters to the lower tail: the tightest for small tau."""
    n = x.shape[-1]
    return band_bounds(x, tau, _bands.beta_upper(n, tau, deltas[0]), _bands.beta_lower(n, tau, deltas[1]), ends)


def brown(x: np.ndarray, tau: float, deltas: Range, ends: Range) -> Pair:
    """Brown (2007), for reference: CVaR of the sample, less (b - a) sqrt(5 log(3 / delta) / tau n) or plus
    (b - a) sqrt(log(1 / delta) / 2n) / tau."""
    n, spread = x.shape[-1], ends[1] - ends[0]
    found = sample_cvar(x, tau)
    with np.errstate(over="ignore"):
        lower = found - spread * np.sqrt(5.0 * np.log(3.0 / deltas[0]) / (tau * n))
        return lower, found + spread * np.sqrt(np.log(1.0 / deltas[1]) / (2.0 * n)) / tau


def hoeffding(x: np.ndarray, tau: float, deltas: Range, ends: Range) -> Pair:
    """Hoeffding (1963) for the mean: (b - a) sqrt(log(1 / delta) / 2n) to each side."""
    reach = [(ends[1] - ends[0]) * np.sqrt(np.log(1.0 / d) / (2.0 * x.shape[-1])) for d in deltas]
    return x.mean(-1) - reach[0], x.mean(-1) + reach[1]


def bernstein(x: np.ndarray, tau: float, deltas: Range, ends: Range) -> Pair:
    """Maurer and Pontil (2009) for the mean: sqrt(2 V L / n) + 7 (b - a) L / 3 (n - 1), L = log(2 / delta)."""
    n = x.shape[-1]
    if n == 1:
        return np.full(x.shape[:-1], ends[0]), np.full(x.shape[:-1], ends[1])
    logs = [np.log(2.0 / d) for d in deltas]
    variance = x.var(-1, ddof=1)
    reach = [np.sqrt(2.0 * variance * g / n) + 7.0 * (ends[1] - ends[0]) * g / (3.0 * (n - 1)) for g in logs]
    return x.mean(-1) - reach[0], x.mean(-1) + reach[1]


def order_bounds(x: np.ndarray, tau: float, deltas: Range, ends: Range) -> Pair:
    """Bounds for VaR_tau that are order statistics; exact, whatever the law.

    X_(i) > VaR only if fewer than i samples are at or below VaR, so P(X_(i) > VaR) <= P(Bin(n, tau) < i).
    X_(j) < VaR only if at least j samples are below VaR, so P(X_(j) < VaR) <= P(Bin(n, tau) >= j).
    """
    from scipy.special import betainc, betaincc

    n = x.shape[-1]
    index = np.arange(1, n + 1)
    at_least = betainc(index, n + 1 - index, tau)  # P(Bin(n, tau) >= i), decreasing in i
    i = int((betaincc(index, n + 1 - index, tau) <= deltas[0]).sum())
    j = n - int((at_least <= deltas[1]).sum()) + 1
    lower = x[..., i - 1] if i > 0 else np.full(x.shape[:-1], ends[0])
    return lower, x[..., j - 1] if j <= n else np.full(x.shape[:-1], ends[1])


def sample_cvar(x: np.ndarray, tau: float) -> np.ndarray:
    """CVaR_tau of sorted samples x [.., n], [..]."""
    n = x.shape[-1]
    return _weighted_sum(x, tail_weights(n, tau))


Bound = Callable[[np.ndarray, float, Range, Range], Pair]
METHODS: dict[str, Bound | None] = {
    "beta": beta,
    "thomas": thomas,
    "dkw": dkw,
    "brown": brown,
    "bca": None,
    "percentile": None,
}
"""Methods for CVaR; None: a bootstrap, which needs no range and is approximate."""
MEAN_METHODS: dict[str, Bound | None] = {
    "beta": beta,
    "anderson": thomas,
    "hoeffding": hoeffding,
    "bernstein": bernstein,
    "bca": None,
    "percentile": None,
}
"""Methods for the mean."""


def cvar_interval(
    returns: object,
    tau: float,
    confidence: float = 0.95,
    bounds: tuple[float | None, float | None] | None = None,
    method: str = "auto",
    *,
    side: str = "both",
    rng: np.random.Generator | None = None,
) -> ConfidenceInterval:
    """An interval for CVaR_tau from independent returns [n].

    bounds: the range (a, b) that all returns lie in; None (or None for an end) where it is not known. method: one
    of METHODS; "auto" is "beta" where a range is given, else "bca", a bootstrap, which needs `rng`. side: "lower" or
    "upper" for a one-sided bound, whose other end is that of the range.
    """
    tau = checks.tail_level(tau)
    return _interval(METHODS, returns, tau, confidence, bounds, method, side, rng)


def mean_interval(
    returns: object,
    confidence: float = 0.95,
    bounds: tuple[float | None, float | None] | None = None,
    method: str = "auto",
    *,
    side: str = "both",
    rng: np.random.Generator | None = None,
) -> ConfidenceInterval:
    """An interval for the mean; as `cvar_interval`, with MEAN_METHODS."""
    return _interval(MEAN_METHODS, returns, 1.0, confidence, bounds, method, side, rng)


def var_interval(
    returns: object,
    tau: float,
    confidence: float = 0.95,
    bounds: tuple[float | None, float | None] | None = None,
    *,
    side: str = "both",
) -> ConfidenceInterval:
    """An interval for VaR_tau between two order statistics: distribution-free, so no range is needed.

    Where the samples are too few for an order statistic, it ends at the end of the range, or is unbounded.
    """
    x, ends = _sort_returns(returns, bounds)
    lower, upper = order_bounds(x, checks.tail_level(tau), _deltas(confidence, side), ends)
    return _make_interval(lower, upper, ends, confidence, "order", side)


def dkw_bounds(returns: np.ndarray, tau: float, confidence: float, bounds: Range) -> Range:
    """Lower and upper bound on CVaR_tau that both hold with probability `confidence`, for returns in `bounds`."""
    found = cvar_interval(returns, tau, confidence, bounds, "dkw")
    return found.lower, found.upper


def law_bounds(
    returns: object, of_law: Callable[[np.ndarray, np.ndarray], float], confidence: float, bounds: Range
) -> Range:
    """Bounds on a monotone measure, of_law(values, probs), that both hold with probability `confidence`.

    Half of what may be missed goes to each side of the band of Dvoretzky, Kiefer, Wolfowitz and Massart; no law in the
    band is worse than the one below, or better than the one above.
    """
    x, ends = _sort_returns(returns, bounds)
    below, above = _deltas(confidence, "both")
    worse = np.diff(np.concatenate([[0.0], _bands.dkw_upper(x.size, below), [1.0]]))
    better = np.diff(np.concatenate([[0.0], _bands.dkw_lower(x.size, above), [1.0]]))
    return of_law(np.concatenate([[ends[0]], x]), worse), of_law(np.concatenate([x, [ends[1]]]), better)


def _interval(
    methods: dict[str, Bound | None],
    returns: object,
    tau: float,
    confidence: float,
    bounds: tuple[float | None, float | None] | None,
    method: str,
    side: str,
    rng: np.random.Generator | None,
) -> ConfidenceInterval:
    x, ends = _sort_returns(returns, bounds)
    deltas = _deltas(confidence, side)
    if method == "auto":
        method = "beta" if bounds is not None else "bca"
    bound = methods[checks.one_of(method, "method", ("auto", *methods))]
    if bound is None:
        if rng is None:
            raise InputError(f"rng: a numpy Generator must be given for the bootstrap (method {method!r})")
        return _make_interval(*_bootstrap.interval(x, tau, deltas, method, rng), ends, confidence, method, side)
    if bounds is None:
        raise InputError(f"bounds: must be given for method {method!r}; bca and percentile need none (approximate)")
    lower, upper = bound(x, tau, deltas, ends)
    return _make_interval(lower, upper, ends, confidence, method, side)


def _make_interval(
    lower: np.ndarray | float, upper: np.ndarray | float, ends: Range, c: float, method: str, side: str
) -> ConfidenceInterval:
    low, high = (float(np.clip(end, *ends)) for end in (lower, upper))
    return ConfidenceInterval(
        ends[0] if side == "upper" else low, ends[1] if side == "lower" else high, float(c), method
    )


def _deltas(confidence: float, side: str) -> Range:
    """What may be missed below and above."""
    if not 0.0 < checks.number(confidence, "confidence") < 1.0:
        raise InputError(f"confidence = {confidence}: must lie in (0, 1)")
    delta = 1.0 - confidence
    half = 0.5 * delta
    return {"both": (half, half), "lower": (delta, 1.0), "upper": (1.0, delta)}[checks.one_of(side, "side", SIDES)]


def _sort_returns(returns: object, bounds: tuple[float | None, float | None] | None) -> tuple[np.ndarray, Range]:
    """The sorted returns [n], checked, and the range (infinite where it is not known)."""
    x = np.sort(checks.returns(returns, "returns"))
    given = bounds if bounds is not None else (None, None)
    low, high = (
        unknown if end in (None, unknown) else checks.number(end, f"bounds[{i}]")
        for i, (end, unknown) in enumerate(zip(given, (-np.inf, np.inf), strict=True))
    )
    largest = max((abs(end) for end in (low, high) if np.isfinite(end)), default=0.0)
    slack = SLACK * min(high - low, largest) + ROUNDING * largest
    if not low <= high or x[0] < low - slack or x[-1] > high + slack:
        found = x[0] if x[0] < low - slack else x[-1]
        raise InputError(f"bounds = {bounds}: must hold every return, found {found}")
    return x, (min(low, float(x[0])), max(high, float(x[-1])))
