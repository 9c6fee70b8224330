"""What the policy that made the log earns itself: known without a model, from the returns of its episodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.envs.logs.log import EpisodeLog
from tailrank.planning.evaluate import MANY
from tailrank.risk.intervals import cvar_interval
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import Measure
from tailrank.risk.measures.cvar import CVaR


@dataclass(frozen=True)
class Behaviour:
    """The objective of the log's own policy, with an interval that holds at every n whatever the law, and its mean.

    cvar: the objective, CVaR unless another was asked for. episodes: those whose returns are known. Episodes that were
    cut off count with the worst return for `low` and with the best for `high`.
    """

    cvar: float
    low: float
    high: float
    mean: float
    confidence: float
    episodes: int


def behaviour_of(
    log: EpisodeLog, measure: Measure, delta: float, ends: tuple[float, float], discount: float
) -> Behaviour:
    """The objective of the policy that made the log; ends: the range of the return."""
    known = log.returns(discount)
    returns = known[log.whole] if log.whole.any() else known
    worst, best = (np.clip(np.where(log.whole, known, end), *ends) for end in ends)
    if isinstance(measure, CVaR):
        method = "beta" if log.episodes <= MANY else "thomas"
        low = cvar_interval(worst, measure.tau, 1.0 - 0.5 * delta, ends, method, side="lower").lower
        high = cvar_interval(best, measure.tau, 1.0 - 0.5 * delta, ends, method, side="upper").upper
    else:
        # The band of Dvoretzky, Kiefer, Wolfowitz and Massart: no law in it is worse, none is better than these.
        missed = float(np.sqrt(np.log(1.0 / min(0.5 * delta, 0.5)) / (2.0 * log.episodes)))
        low = measure.of_law(_shifted(np.sort(worst)[::-1], missed, ends[0]))
        high = measure.of_law(_shifted(np.sort(best), missed, ends[1]))
    law = ReturnLaw.of(returns)
    return Behaviour(measure.of_law(law), low, high, law.mean, 1.0 - delta, int(log.whole.sum()))


def _shifted(returns: np.ndarray, missed: float, end: float) -> ReturnLaw:
    """The law of returns [n] with the mass `missed` moved from the first of them to an end."""
    gone = np.minimum(np.cumsum(np.full(returns.size, 1.0 / returns.size)), missed)
    left = np.maximum(1.0 / returns.size - np.diff(gone, prepend=0.0), 0.0)
    return ReturnLaw.of(np.append(returns, end), np.append(left, 1.0 - left.sum()))
