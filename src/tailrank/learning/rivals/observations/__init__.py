"""Rivals that learn from a `Simulator`: what others would use where only features and rewards are seen.

All are made as `RIVALS[name](tau, ...)` and trained as `.train(simulator, episodes, seed, callback=None)`, which
returns a policy on features and calls `callback(row, policy)` with rows {episodes, cvar, mean} of the episodes
played since the last row; or update by update, see `rolling.Rival`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

from tailrank.learning.rivals.observations.bins import Bins
from tailrank.learning.rivals.observations.playing import Rival
from tailrank.learning.rivals.observations.policy_gradient import PolicyGradient
from tailrank.learning.rivals.observations.qr_dqn import QrDqn
from tailrank.learning.simulators.as_rival import SimulatorRival

RIVALS: dict[str, Callable[..., Rival]] = {
    "policy-gradient": PolicyGradient,
    "qr-dqn": QrDqn,
    "c51": partial(QrDqn, head="categories", quantiles=51),
    "bins": Bins,
    "kernel": partial(SimulatorRival, candidates="kernel"),
    "shortfall-dqn": partial(SimulatorRival, candidates="shortfall"),
    "auto": partial(SimulatorRival, candidates="auto"),
}


def settings_of(name: str) -> tuple[str, ...]:
    """What can be set in a rival, beside tau."""
    made: Any = RIVALS[name]
    fixed = made.keywords if isinstance(made, partial) else {}
    kind: Any = made.func if isinstance(made, partial) else made
    hidden = {"tau", *(key for key in fixed if key == "head")}
    return tuple(f.name for f in fields(kind) if f.name not in hidden)


__all__ = ["RIVALS", "Bins", "PolicyGradient", "QrDqn", "Rival", "settings_of"]
