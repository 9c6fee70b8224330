"""What the policy that made the log earns itself: known without a model, from the returns of its episodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.envs.logs.log import EpisodeLog
from tailrank.planning.evaluate import MANY
from tailrank.risk.intervals import cvar_interval
from tailrank.risk.law import ReturnLaw


@dataclass(frozen=True)
class Behaviour:
    """CVaR of the log's own policy, with an interval that holds at every n whatever the law, and its mean.

    episodes: those whose returns are known. Episodes that were cut off count with the worst return for `low` and with
    the best for `high`.
    """

    tau: float
    cvar: float
    low: float
    high: float
    mean: float
    confidence: float
    episodes: int


def behaviour_of(log: EpisodeLog, tau: float, delta: float, ends: tuple[float, float], discount: float) -> Behaviour:
    """CVaR of the policy that made the log; ends: the range of the return."""
    known = log.returns(discount)
    returns = known[log.whole] if log.whole.any() else known
    worst, best = (np.where(log.whole, known, end) for end in ends)
    method = "beta" if log.episodes <= MANY else "thomas"
    low = cvar_interval(np.clip(worst, *ends), tau, 1.0 - 0.5 * delta, ends, method, side="lower").lower
    high = cvar_interval(np.clip(best, *ends), tau, 1.0 - 0.5 * delta, ends, method, side="upper").upper
    law = ReturnLaw.of(returns)
    return Behaviour(tau, law.cvar(tau), low, high, law.mean, 1.0 - delta, int(log.whole.sum()))
