"""Value at risk and conditional value at risk of laws and of samples.

Convention, everywhere: X is a return (larger is better), tau in (0, 1] is the fraction of the lower
tail, tau = 1 is the mean.

    VaR_tau(X)  = inf{x : P(X <= x) >= tau}
    CVaR_tau(X) = max_c { c - E(c - X)^+ / tau }      attained at c = VaR_tau(X)
                = mean of the worst tau-fraction of X, the atom on the boundary split

The maximum form is what is computed: at c = VaR it adds non-negative terms only, so it is accurate for
laws with a huge offset and insensitive to how the boundary atom is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tailrank import checks

LEVEL_TOLERANCE = 1e-12
"""Slack when a cumulative probability is compared with tau: 0.7 + 0.1 + 0.1 is below 0.9 in floats."""


@dataclass(frozen=True)
class ReturnLaw:
    """A finite law: `values` [n] strictly increasing, `probs` [n] positive, summing to one.

    >>> law = ReturnLaw.of([0, 1, 1, 4])
    >>> law.mean, law.var(0.5), law.cvar(0.5)
    (1.5, 1.0, 0.5)
    """

    values: np.ndarray
    probs: np.ndarray

    @classmethod
    def of(cls, values: object, probs: object = None) -> ReturnLaw:
        """The law of `values` [n] with weights `probs` [n] (equal weights: the empirical law)."""
        x = checks.numbers(values, "values")
        if x.size == 0:
            raise checks.InputError("values: a law needs at least one value, found none")
        bad = np.flatnonzero(~np.isfinite(x))
        if bad.size:
            raise checks.InputError(f"values[{bad[0]}] = {x[bad[0]]}: must be finite")
        p = np.full(x.size, 1.0 / x.size) if probs is None else checks.law(probs, "probs", x.size)
        support, where = np.unique(x, return_inverse=True)
        mass = np.bincount(where, weights=p, minlength=support.size)
        keep = mass > 0
        return cls(support[keep], mass[keep] / mass.sum())

    @cached_property
    def mean(self) -> float:
        """E X."""
        low = float(self.values[0])
        return low + float(self.probs @ (self.values - low))

    @cached_property
    def cumulative(self) -> np.ndarray:
        """P(X <= values[i]), [n]; the last entry is exactly one."""
        total = np.cumsum(self.probs)
        total[-1] = 1.0
        return total

    def var(self, tau: float) -> float:
        """VaR_tau, the lower tau-quantile."""
        tau = checks.tail_level(tau)
        slack = min(LEVEL_TOLERANCE, 0.5 * tau)
        return float(self.values[np.searchsorted(self.cumulative, tau - slack)])

    def shortfall(self, budget: float) -> float:
        """E(budget - X)^+."""
        return float(self.probs @ np.maximum(budget - self.values, 0.0))

    def cvar(self, tau: float) -> float:
        """CVaR_tau, the mean of the worst tau-fraction."""
        quantile = self.var(tau)
        return quantile - self.shortfall(quantile) / checks.tail_level(tau)


def var(values: object, tau: float, probs: object = None) -> float:
    """VaR_tau of the law with these values [n] and probabilities [n] (omitted: of a sample).

    >>> var([1.0, 2.0, 3.0, 4.0], tau=0.375)
    2.0
    """
    return ReturnLaw.of(values, probs).var(tau)


def cvar(values: object, tau: float, probs: object = None) -> float:
    """CVaR_tau of the law with these values [n] and probabilities [n] (omitted: of a sample).

    >>> round(cvar([1.0, 2.0, 3.0, 4.0], tau=0.375), 6)  # the worst value and half of the next
    1.333333
    """
    return ReturnLaw.of(values, probs).cvar(tau)
