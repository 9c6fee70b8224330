"""How many episodes are played between two plans of a low-rank model."""

from __future__ import annotations

from tailrank.episodes.replay import Replay
from tailrank.risk.law import cvar

SHARE, SEEKING = 0.1, 0.02
"""Episodes between two plans of a low-rank model, as a share of all so far; and while the tail earns nothing."""
NOTHING = 0.1
"""The tail of the last episodes earns nothing if it is so near to the worst return seen, as a share of the way to the
best. Every plan then shows something new, and playing it often shows no more; later plans differ little."""


def share_between_plans(replay: Replay, tau: float) -> float:
    """Episodes before the next plan, as a share of all so far."""
    return SEEKING if earns_nothing(replay, tau) else SHARE


def earns_nothing(replay: Replay, tau: float) -> bool:
    """Whether the tail of the last episodes is as bad as anything that was seen."""
    returns = replay.rewards.sum(axis=1)
    worst, best = float(returns.min()), float(returns.max())
    return cvar(returns[-max(10, round(SHARE * replay.n)) :], tau) < worst + NOTHING * (best - worst)
