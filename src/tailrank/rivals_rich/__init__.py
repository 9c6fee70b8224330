"""Rivals that learn from a `Simulator`: what others would use where only features and rewards are seen.

All are made as `RIVALS[name](tau, ...)` and trained as `.train(simulator, episodes, seed, callback=None)`, which
returns a policy on features and calls `callback(row, policy)` with rows {episodes, cvar, mean} of the episodes
played since the last row.
"""

from __future__ import annotations

from collections.abc import Callable

from tailrank.rivals_rich.bins import Bins
from tailrank.rivals_rich.policy_gradient import PolicyGradient
from tailrank.rivals_rich.qr_dqn import QrDqn
from tailrank.rivals_rich.rolling import Rival

RIVALS: dict[str, Callable[..., Rival]] = {"policy-gradient": PolicyGradient, "qr-dqn": QrDqn, "bins": Bins}

__all__ = ["RIVALS", "Bins", "PolicyGradient", "QrDqn", "Rival"]
