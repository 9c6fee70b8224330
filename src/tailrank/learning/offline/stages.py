"""Stages of `learn_logs` that are done, so that a call that was stopped goes on where it was.

What is kept of a stage is plain data: which caution won, what a bound is. Plans are made again, in one pass, so
the answer has the same bits. A fingerprint of the log and of the settings says whether what was kept belongs here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

import numpy as np

from tailrank.envs.logs.log import EpisodeLog

T = TypeVar("T")
Keeper = Callable[[str], MutableMapping[str, Any]]
"""From a fingerprint to the stages that were kept under it, and where new ones go."""


def fingerprint(log: EpisodeLog, *settings: object) -> str:
    """A name for this log with these settings."""
    found = hashlib.sha256(repr((settings, log.states, log.actions, log.horizon)).encode())
    columns = ("begin", "state", "action", "next_state", "reward", "cut", "probability", "observation", "admissible")
    for name in columns:
        column = getattr(log, name)
        found.update(b"-" if column is None else np.ascontiguousarray(column).tobytes())
    return found.hexdigest()


def once(stages: MutableMapping[str, Any], name: str, make: Callable[[], T]) -> T:
    """What was kept of a stage, or else what `make` gives, which is kept."""
    if name not in stages:
        stages[name] = make()
    result: T = stages[name]
    return result
