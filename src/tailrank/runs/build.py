"""From a configuration to the environment that it names, and what a file may import for it."""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from tailrank.checks import InputError, whole
from tailrank.envs import SIMULATORS, Episodic, from_mdp, make_episodic, make_simulator, read_mdp
from tailrank.envs.protocols import Simulator
from tailrank.runs.config import RunConfig


def packages_of(config: RunConfig) -> tuple[str, ...]:
    """The packages that are imported, and so run, when the environment and the learner are made."""
    name = config.environment.name
    module = "" if config.named or os.path.exists(name) else name.rpartition(":")[0]
    # These two make an environment of another library, by a name that may hold a module in turn.
    wrapped = ("gym",) if name.startswith(("GymV21", "GymV26")) else ()
    learner = (config.algorithm.partition(":")[0],) if config.learner.foreign else ()
    return tuple(dict.fromkeys((*config.environment.imports, *((module,) if module else ()), *wrapped, *learner)))


def check_trusted(config: RunConfig, imports: Collection[str]) -> None:
    """Raise where a configuration that was read from a file would import a package, or ask a cluster, that the user has
    not named."""
    if (cluster := config.environment.cluster) is not None and cluster not in imports:
        raise InputError(f"cluster = {cluster!r:.60}: who plays is said on the command line, not in a file: --cluster")
    for package in packages_of(config):
        if package not in imports:
            foreign = config.learner.foreign and package == config.algorithm.partition(":")[0]
            what = (
                f"algorithm = {config.algorithm!r:.60}" if foreign else f"environment = {config.environment.name!r:.60}"
            )
            raise InputError(
                f"{what}: would import the package {package!r:.60}, and so run its code, because a file says so; if "
                f"you trust it, name it yourself: --import {package:.60}"
            )


def environment(config: RunConfig) -> Any:
    """The environment of a run: an `Episodic`, or a `Simulator` where it learns from observations."""
    if config.simulated:
        return simulator(config)
    given = config.environment
    if config.named:
        return make_episodic(given.name, **given.settings)
    read = read_mdp(
        given.name,
        horizon=given.horizon,
        discount=given.discount,
        start=given.start,
        index_base=given.index_base,
        axis_order=given.axis_order,
        imports=given.imports,
    )
    return from_mdp(read.mdp, given.upsilon, name=read.name)


def simulator(config: RunConfig) -> Simulator:
    """The simulator of a run."""
    given = config.environment
    if given.name in SIMULATORS:
        return make_simulator(given.name, **given.settings)
    from tailrank.envs.gymnasium.simulator import simulator_with

    return simulator_with(
        given.name,
        given.settings,
        horizon=given.horizon,
        width=given.width,
        imports=given.imports,
        levels=given.action_levels,
        workers=given.workers,
        step_timeout=given.step_timeout,
        skip_bad=bool(given.skip_bad),
        cluster=given.cluster,
        refine=given.refine,
        masks=False if given.ignore_masks else None,
    )


def recipe_of(config: RunConfig) -> dict[str, Any] | str:
    """What another process makes the simulator of a run from, or why it cannot."""
    given = config.environment
    if not config.simulated or given.name in SIMULATORS:
        return f"{given.name} does not draw itself"
    made = {"source": given.name, "settings": dict(given.settings), "imports": list(given.imports)}
    return made | {"name": given.name.rpartition(":")[2], "levels": given.action_levels, "refine": given.refine}


def close(env: Any) -> None:
    """Close an environment, if it can be; what goes wrong then is said and no more."""
    try:
        getattr(env, "close", lambda: None)()
    except InputError as error:
        warnings.warn(str(error), stacklevel=2)


def with_episodes(config: RunConfig, episodes: int, env: Any) -> RunConfig:
    """The run that plays at least so many episodes: the smallest number of iterations where they are known before."""
    if config.simulated:
        return replace(config, run=replace(config.run, iterations=episodes, episodes=episodes))
    return replace(config, run=replace(config.run, iterations=iterations_for(episodes, config, env)))


def iterations_for(episodes: int, config: RunConfig, env: Episodic) -> int:
    """The smallest number of iterations that play at least so many episodes."""
    learner = config.make_learner()
    rounds = math.ceil(whole(episodes, "episodes") / learner.episodes_each(env.horizon))
    batch, growth = int(getattr(learner, "batch", 1)), float(getattr(learner, "growth", 0.0))
    iterations = played = 0
    while played < rounds:
        played += max(batch, int(growth * played))
        iterations += 1
    return iterations


def digest_of(config: RunConfig, env: Any) -> str:
    """SHA-256 of the environment, as far as it can be known: a file that changed is another environment."""
    if config.simulated:
        about = {
            "name": env.name,
            "H": env.horizon,
            "A": env.n_actions,
            "m": env.n_features,
            "set": config.environment.settings,
        }
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    digest, truth = hashlib.sha256(), env.truth
    for array in (truth.ptr, truth.next_state, truth.prob, truth.reward, truth.start, *env.group):
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(f"{truth.horizon} {truth.discount!r} {env.rewards.grid.unit}".encode())
    return digest.hexdigest()
