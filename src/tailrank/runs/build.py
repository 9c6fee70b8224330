"""From a configuration to the things that run: the environment, the learner, the judge."""

from __future__ import annotations

import hashlib
import math
import os
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.checks import InputError, whole
from tailrank.envs import SIMULATORS, Episodic, from_mdp, make_episodic, make_simulator, read_mdp
from tailrank.envs.protocols import Simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.output import OutputRule
from tailrank.learning.protocol import Learner
from tailrank.learning.registry import ALGORITHMS, make_learner
from tailrank.learning.train import Judge
from tailrank.runs.config import RunConfig


@dataclass(frozen=True)
class Setup:
    """Everything that a run needs. `fresh` is the state before the first iteration."""

    config: RunConfig
    env: Episodic
    learner: Learner
    fresh: Any
    rule: OutputRule
    streams: Streams
    digest: str

    def judge(self) -> Judge:
        """The judge of the plans; finds CVaR*, which may take a while."""
        return Judge.of(self.learner, self.env)


def packages_of(config: RunConfig) -> tuple[str, ...]:
    """The packages that are imported, and so run, when the environment is made."""
    module = "" if config.named or os.path.exists(config.environment) else config.environment.rpartition(":")[0]
    # These two make an environment of another library, by a name that may hold a module in turn.
    wrapped = ("gym",) if config.environment.startswith(("GymV21", "GymV26")) else ()
    return tuple(dict.fromkeys((*config.imports, *((module,) if module else ()), *wrapped)))


def check_trusted(config: RunConfig, imports: Collection[str]) -> None:
    """Raise where a configuration that was read from a file would import a package that the user has not named."""
    for package in packages_of(config):
        if package not in imports:
            raise InputError(
                f"environment = {config.environment!r:.60}: would import the package {package!r:.60}, and so run its "
                f"code, because a file says so; if you trust it, name it yourself: --import {package:.60}"
            )


def environment(config: RunConfig) -> Any:
    """The environment of a run: an `Episodic`, or a `Simulator` where it learns from observations."""
    if config.simulated:
        return simulator(config)
    if config.named:
        return make_episodic(config.environment, **config.settings)
    read = read_mdp(
        config.environment,
        horizon=config.horizon,
        discount=config.discount,
        start=config.start,
        index_base=config.index_base,
        axis_order=config.axis_order,
        imports=config.imports,
    )
    return from_mdp(read.mdp, config.upsilon, name=read.name)


def simulator(config: RunConfig) -> Simulator:
    """The simulator of a run."""
    if config.environment in SIMULATORS:
        return make_simulator(config.environment, **config.settings)
    from tailrank.envs.gymnasium.simulator import simulator_with

    return simulator_with(
        config.environment,
        config.settings,
        horizon=config.horizon,
        width=config.width,
        imports=config.imports,
        levels=config.action_levels,
    )


def close(env: Any) -> None:
    """Close an environment, if it can be; what goes wrong then is said and no more."""
    try:
        getattr(env, "close", lambda: None)()
    except InputError as error:
        warnings.warn(str(error), stacklevel=2)


def setup(config: RunConfig, env: Episodic | None = None) -> Setup:
    """What the configuration describes; raises where it does not fit the environment."""
    env = environment(config) if env is None else env
    learner = make_learner(config.recipe, env)
    fresh = learner.init(env)
    if config.share and len({c.shape for c in fresh.seen.counts}) > 1:
        raise InputError("share: needs the same groups at every step, this environment has others at some steps")
    rule = OutputRule(config.output, config.output_episodes)
    return Setup(config, env, learner, fresh, rule, Streams(config.seed), _digest(env))


def iterations_for(episodes: int, config: RunConfig, env: Episodic) -> int:
    """The smallest number of iterations that play at least so many episodes."""
    each = ALGORITHMS[config.algorithm].episodes_each(config.recipe, env.horizon)
    rounds = math.ceil(whole(episodes, "episodes") / each)
    iterations = played = 0
    while played < rounds:
        played += max(config.batch, int(config.growth * played))
        iterations += 1
    return iterations


def _digest(env: Episodic) -> str:
    """SHA-256 of the true MDP and the groups: a file that changed is another environment."""
    digest = hashlib.sha256()
    truth = env.truth
    for array in (truth.ptr, truth.next_state, truth.prob, truth.reward, truth.start, *env.group):
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(f"{truth.horizon} {truth.discount!r} {env.rewards.grid.unit}".encode())
    return digest.hexdigest()
