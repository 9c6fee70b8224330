"""A return law with what is known of it, and mixtures of two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from tailrank import checks
from tailrank.risk.law import ReturnLaw

Method = Literal["lattice", "listed", "moments"]


@dataclass(frozen=True)
class Evaluation:
    """The return law of a policy; `deviation` [n] is the spread left within each value (zero: exact)."""

    law: ReturnLaw
    deviation: np.ndarray
    method: Method

    @property
    def exact(self) -> bool:
        """Whether the law is exact (to floating-point rounding)."""
        return self.method != "moments"

    @cached_property
    def mean(self) -> float:
        """The exact mean."""
        return self.law.mean

    def var(self, tau: float) -> float:
        """VaR_tau of the law (of the rounded law when it is not exact)."""
        return self.law.var(tau)

    def cvar(self, tau: float) -> float:
        """CVaR_tau if the law is exact, otherwise a certified lower bound on it."""
        if self.exact:
            return self.law.cvar(tau)
        tau = checks.tail_level(tau)
        if tau == 1.0:
            return self.mean
        reach = 4.0 * float(self.deviation.max()) + 1e-300
        low, high = self.law.var(tau) - reach, self.law.var(tau) + reach
        golden = (np.sqrt(5.0) - 1.0) / 2.0
        best = -np.inf
        for _ in range(24):  # the bound is concave in c, and every c gives a valid one
            left, right = high - golden * (high - low), low + golden * (high - low)
            at_left, at_right = self._bound(left, tau), self._bound(right, tau)
            best = max(best, at_left, at_right)
            low, high = (low, right) if at_left >= at_right else (left, high)
        return float(best)

    def cvar_upper(self, tau: float) -> float:
        """CVaR_tau if the law is exact, otherwise a certified upper bound on it."""
        return self.law.cvar(tau)

    def _bound(self, c: float, tau: float) -> float:
        gap = c - self.law.values
        far = np.hypot(self.deviation, gap)
        # Far above c the sum would cancel, and tau makes rounding large.
        short = np.where(gap > 0.0, far + gap, self.deviation**2 / np.maximum(far - gap, np.finfo(np.float64).tiny))
        return c - float(self.law.probs @ short) / (2.0 * tau)


def mixed(first: Evaluation, second: Evaluation, share: float) -> Evaluation:
    """The law of which the first is drawn with probability `share`."""
    values, where = np.unique(np.concatenate([first.law.values, second.law.values]), return_inverse=True)
    mass = np.concatenate([share * first.law.probs, (1.0 - share) * second.law.probs])
    probs = np.bincount(where, weights=mass)
    spread = np.bincount(where, weights=mass * np.concatenate([first.deviation, second.deviation]) ** 2)
    kept = probs > 0.0
    law = ReturnLaw(values[kept], probs[kept] / probs.sum())
    method = next((part.method for part in (first, second) if not part.exact), first.method)
    return Evaluation(law, np.sqrt(spread[kept] / probs[kept]), method)
