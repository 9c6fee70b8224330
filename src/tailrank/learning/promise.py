"""Whether fresh episodes keep what a model promised."""

from __future__ import annotations

import numpy as np

from tailrank.learning.protocol import mean_return
from tailrank.risk.intervals import cvar_interval
from tailrank.risk.law import cvar

FEWEST = 5
"""Episodes in the tail that an interval of the CVaR needs: with fewer, resampling them says nothing."""
CLOSE = 0.02
"""A promise that is missed by less than this share of it is kept: every model is wrong, and many episodes show it."""
BROKEN = (
    "the model promised a CVaR of {promise:.4g}, fresh episodes give {found:.4g} ({said}): it does not know the "
    "simulator where this plan goes; more episodes or another algorithm may help"
)


def broken_promise(promise: float, found: float, low: float, high: float) -> str:
    """What to say where the promise lies clearly above the interval of the CVaR; empty where it is kept."""
    broken = promise - max(high, found) > CLOSE * abs(promise)
    return BROKEN.format(promise=promise, found=found, said=f"{low:.4g} .. {high:.4g}") if broken else ""


def broken_in(returns: np.ndarray, tau: float, promise: float, rng: np.random.Generator) -> str:
    """The same from the returns [n] of fresh episodes; few of them are judged by their mean, which no CVaR exceeds."""
    if returns.size * tau >= FEWEST:
        limits = cvar_interval(returns, tau, 0.95, rng=rng)
        return broken_promise(promise, cvar(returns, tau), limits.lower, limits.upper)
    most = mean_return(returns).get("return_high", np.inf)
    if promise - most <= CLOSE * abs(promise):
        return ""
    return BROKEN.format(promise=promise, found=cvar(returns, tau), said=f"even their mean is at most {most:.4g}")
