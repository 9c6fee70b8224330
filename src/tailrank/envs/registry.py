"""Environments for learners by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.built_in.continuous import ContinuousLowRank, continuous_lowrank
from tailrank.envs.built_in.episodic import Episodic
from tailrank.envs.built_in.locks import risky_lock
from tailrank.envs.built_in.lowrank_conflict import lowrank_conflict
from tailrank.envs.built_in.lowrank_lock import lowrank_lock
from tailrank.envs.built_in.random_lowrank import random_lowrank
from tailrank.envs.built_in.rich_lock import RichLock, rich_lock
from tailrank.envs.built_in.small import decoy, risky_shortcut
from tailrank.envs.built_in.walled_lock import walled_lock

T = TypeVar("T")

ENVIRONMENTS: dict[str, Callable[..., Episodic]] = {
    "risky-lock": risky_lock,
    "random-lowrank": random_lowrank,
    "risky-shortcut": risky_shortcut,
    "decoy": decoy,
    "walled-lock": walled_lock,
    "lowrank-conflict": lowrank_conflict,
}


SIMULATORS: dict[str, Callable[..., RichLock | ContinuousLowRank]] = {
    "rich-lock": rich_lock,
    "continuous-lowrank": continuous_lowrank,
    "lowrank-lock": lowrank_lock,
    "tailrank/RichLock-v0": rich_lock,
    "tailrank/RiskyLock-v0": rich_lock,
}
"""Environments that show observations instead of states."""

SHORT = {"actions": "n_actions", "states": "n_states"}


def make_episodic(name: str, **settings: object) -> Episodic:
    """The environment with this name and these settings.

    >>> make_episodic("risky-lock", horizon=10, n_states=300).n_groups
    3
    """
    return _build(ENVIRONMENTS, name, settings)


def make_simulator(name: str, **settings: object) -> RichLock | ContinuousLowRank:
    """The simulator with this name and these settings.

    >>> make_simulator("rich-lock", horizon=10).n_features
    16
    """
    return _build(SIMULATORS, name, settings)


def _build(known: dict[str, Callable[..., T]], name: str, settings: dict[str, object]) -> T:
    build = known[checks.one_of(name, "environment", known)]
    names = list(inspect.signature(build).parameters)
    settings = {SHORT.get(key, key) if key not in names else key: value for key, value in settings.items()}
    for setting in settings:
        if setting not in names:
            near = checks.did_you_mean(setting, names)
            raise InputError(f"{setting}: is no setting of {name}, which has {', '.join(names)}{near}")
    return build(**settings)
