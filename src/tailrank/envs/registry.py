"""Environments for learners by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.episodic import Episodic
from tailrank.envs.locks import risky_lock
from tailrank.envs.random_lowrank import random_lowrank
from tailrank.envs.small import decoy, risky_shortcut

ENVIRONMENTS: dict[str, Callable[..., Episodic]] = {
    "risky-lock": risky_lock,
    "random-lowrank": random_lowrank,
    "risky-shortcut": risky_shortcut,
    "decoy": decoy,
}


def make_episodic(name: str, **settings: object) -> Episodic:
    """The environment with this name and these settings.

    >>> make_episodic("risky-lock", horizon=10, n_states=300).n_groups
    3
    """
    build = ENVIRONMENTS[checks.one_of(name, "environment", ENVIRONMENTS)]
    known = list(inspect.signature(build).parameters)
    for setting in settings:
        if setting not in known:
            near = checks.did_you_mean(setting, known)
            raise InputError(f"{setting}: is no setting of {name}, which has {', '.join(known)}{near}")
    return build(**settings)
