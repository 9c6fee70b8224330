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
"""Slack, relative to tau, when a cumulative probability is compared with it: 0.7 + 0.1 + 0.1 is below 0.9 in floats."""

TIE = 1e-12
"""Objectives that differ by less than this, relative to what they are made of, are tied: sums of non-negative terms,
such as shortfalls, are exact to a few units in the last place, however small they are."""


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
        x = checks.returns(values, "values")
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
        total = np.cumsum(self.probs, dtype=np.longdouble).astype(np.float64)
        total[-1] = 1.0
        return total

    def var(self, tau: float) -> float:
        """VaR_tau, the lower tau-quantile."""
        return float(self.values[self._place(tau)])

    def _place(self, tau: float) -> int:
        return int(np.searchsorted(self.cumulative, checks.tail_level(tau) * (1.0 - LEVEL_TOLERANCE)))

    def tail_masses(self, tau: float) -> np.ndarray:
        """How much of each probability belongs to the worst tau-fraction, [n]."""
        return np.clip(tau - np.append(0.0, self.cumulative[:-1]), 0.0, self.probs)

    def shortfall(self, budget: float) -> float:
        """E(budget - X)^+."""
        return float(self.probs @ np.maximum(budget - self.values, 0.0))

    def cvar(self, tau: float) -> float:
        """CVaR_tau, the mean of the worst tau-fraction."""
        i = self._place(tau)
        quantile, missing = float(self.values[i]), 1.0 - float(self.cumulative[i]) / tau
        value = quantile - self.shortfall(quantile) / tau
        # What the slack passed over belongs to the next value, which may be far away.
        return value + missing * (float(self.values[i + 1]) - quantile) if missing > 0.0 else value


def tail_weights(n: int, tau: float) -> np.ndarray:
    """What each of n sorted returns of equal probability weighs in their CVaR_tau, the worst first, [n].

    >>> tail_weights(4, 0.375).round(6).tolist()
    [0.666667, 0.333333, 0.0, 0.0]
    """
    return np.asarray(np.diff(np.minimum(np.arange(n + 1) / n, tau)) / tau)


def best_budget(budgets: np.ndarray, shortfall: np.ndarray, tau: float, mean: np.ndarray | None = None) -> int:
    """Position of the budget that attains max_c { c - V(c) / tau }, for increasing c [C] and V(c) [C].

    Of several it is the one with the largest mean [C], where means are given, and then the smallest.
    """
    with np.errstate(over="ignore"):
        objective = (budgets - budgets[0]) - shortfall / tau
    i = int(np.argmax(objective))
    rounding = TIE * (float(budgets[i] - budgets[0]) + abs(float(shortfall[i])) / tau)
    tied = np.flatnonzero(objective >= objective[i] - rounding)
    if mean is None:
        return int(tied[0])
    best = float(mean[tied].max())
    return int(tied[np.argmax(mean[tied] >= best - TIE * float(np.abs(mean[tied]).max()))])


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
