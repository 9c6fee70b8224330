"""The efficient frontier at a level: what each bit of safety costs, from the best CVaR to the best mean."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.objectives.constrained import exact_engine
from tailrank.planning.objectives.trade import MOST_INDUCTIONS, Mixed, TradeOff

MOST_POINTS = 10_000
"""Levels of a frontier: all of them are looked at after every induction, and no clock ends that."""


@dataclass(frozen=True)
class EfficientFrontier:
    """Points [n] of CVaR_tau, falling, with the best mean of a policy (or mixture of two) that has at least that CVaR.

    upper [n]: no policy with that CVaR has a larger mean. price [n]: what the mean loses for one unit more of CVaR.
    """

    tau: float
    cvar: np.ndarray
    mean: np.ndarray
    upper: np.ndarray
    price: np.ndarray
    inductions: int
    trade: TradeOff

    @property
    def gap(self) -> float:
        """How far the frontier may be from this at most."""
        return float((self.upper - self.mean).max())

    def plan(self, i: int) -> Mixed:
        """The policy, or the mixture of two, behind point i."""
        found = self.trade.mixture(float(self.cvar[i]))
        if found is None:
            raise checks.InputError(f"point {i}: has no policy")
        return found

    def as_csv(self) -> str:
        """A table with a row for each point."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["tau", "cvar", "mean", "upper", "price"])
        rows.writerows(zip([self.tau] * self.cvar.size, self.cvar, self.mean, self.upper, self.price, strict=True))
        return text.getvalue()


def efficient_frontier(
    mdp: FiniteMDP, tau: float, *, points: int = 41, seconds: float = 60.0, inductions: int = MOST_INDUCTIONS
) -> EfficientFrontier:
    """The efficient frontier of `mdp` at `tau`, at so many levels of CVaR.

    inductions: the most that may be run after the first; the widest gap is narrowed each time.

    >>> rows = [(0, 0, 0, 1, 1), (0, 1, 0, 0.9, 2), (0, 1, 0, 0.1, -5)]  # s, a, s', p, r
    >>> found = efficient_frontier(FiniteMDP.from_rows(*zip(*rows), horizon=1), 0.2, points=3)
    >>> found.cvar.tolist(), found.mean.round(9).tolist()
    ([1.0, -0.25, -1.5], [1.0, 1.125, 1.3])
    """
    n = checks.whole(points, "points", 2)
    if n > MOST_POINTS:
        raise InputError(f"points = {n}: must be at most {MOST_POINTS}")
    engine = exact_engine(mdp, seconds=seconds)
    trade = TradeOff(engine, checks.tail_level(tau))
    neutral = engine.law(engine.problem.mean_policy).cvar(tau)
    levels = np.linspace(trade.best_cvar, min(neutral, trade.best_cvar), n)
    levels[0] = trade.best_cvar - 1e-12 * (abs(trade.best_cvar) + engine.high - engine.low)
    for _ in range(inductions):
        gaps = np.array([trade.upper(k)[0] - trade.lower(k)[0] for k in levels])
        order = np.argsort(-gaps)
        if gaps[order[0]] <= 1e-10 * (engine.high - engine.low) or not engine.may_go_on():
            break
        if not any(trade.narrow(float(levels[i])) for i in order[gaps[order] > 0.0]):
            break
    mean = np.array([trade.lower(k)[0] for k in levels])
    upper = np.maximum([trade.upper(k)[0] for k in levels], mean)
    steps = np.abs(np.diff(levels))
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(steps > 0.0, np.diff(mean) / steps, 0.0)
    levels[0] = trade.best_cvar
    return EfficientFrontier(tau, levels, mean, upper, np.append(slope, 0.0), len(trade.weights) - 1, trade)
