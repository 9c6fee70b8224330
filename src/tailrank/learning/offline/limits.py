"""What rewards and returns of a log lie in, as the user says or as the log shows."""

from __future__ import annotations

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.logs.log import EpisodeLog


def reward_limits(log: EpisodeLog, given: tuple[float, float] | None) -> tuple[tuple[float, float], bool]:
    """What rewards lie in, and whether that is only assumed. It holds 0 where an episode may end early."""
    seen = float(log.reward.min()), float(log.reward.max())
    low, high = seen if given is None else _possible(given, "reward_range")
    bad = np.flatnonzero((log.reward < low) | (log.reward > high))
    if bad.size:
        found = f"{log.reward[bad[0]]:g} in entry {bad[0]}"
        raise InputError(f"reward_range = {low:g} {high:g}: must hold every reward of the log, found {found}")
    if bool((log.next_state == len(log.states)).any()):
        low, high = min(low, 0.0), max(high, 0.0)
    return (low, high), given is None


def return_limits(
    log: EpisodeLog, rewards: tuple[float, float], discount: float, given: tuple[float, float] | None
) -> tuple[float, float]:
    """What returns lie in: what H rewards can add up to, or what the user says."""
    scale = float((discount ** np.arange(log.horizon)).sum())
    low, high = rewards[0] * scale, rewards[1] * scale
    if given is None:
        return low, high
    least, most = _possible(given, "return_range")
    low, high = max(low, least), min(high, most)
    found = log.returns(discount)[log.whole]
    if low > high or (found.size and (found.min() < low - 1e-9 or found.max() > high + 1e-9)):
        raise InputError(f"return_range = {least:g} {most:g}: must hold every return of the log")
    return low, high


def _possible(given: tuple[float, float], name: str) -> tuple[float, float]:
    """A range of numbers that can be added and squared."""
    low, high = checks.returns(checks.span(given, name), name)
    return float(low), float(high)
