"""Runs of the rivals that learn from observations (`rivals_rich`): the same folder, rows and judgement as ELA's.

A row is an update. Checkpoints hold everything the next update depends on, but for networks of other libraries
(qr-dqn, c51): these runs go on by playing everything again from the seed, which takes as long as it took.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tailrank.checks import whole
from tailrank.envs.protocols import Simulator
from tailrank.learning.rivals.observations import RIVALS
from tailrank.learning.rivals.observations.playing import Rival
from tailrank.runs import folder as files
from tailrank.runs._restored import restoring
from tailrank.runs.build import simulator
from tailrank.runs.config import RunConfig
from tailrank.runs.judge import EVALUATION, Fresh, write_returns
from tailrank.runs.policy_files import storage

AGAIN = "{name} keeps no state of its own: the run went on by playing its first {rows} rows again"


@dataclass
class RivalJob:
    """A rival on a simulator."""

    config: RunConfig
    env: Simulator
    rival: Rival
    fresh: Fresh
    total: int
    progress: Any
    k: int = 0
    cvar: float | None = None
    regret: float = 0.0
    found: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, config: RunConfig, env: Simulator | None = None) -> RivalJob:
        """The job that the configuration describes; raises where the rival cannot run here."""
        rival = make_rival(config)
        env = simulator(config) if env is None else env
        total = config.iterations * rival.each if config.episodes is None else config.episodes
        return cls(config, env, rival, Fresh(config, env), total, rival.init(env, config.seed, total))

    @property
    def star(self) -> float | None:
        """The best CVaR, if the simulator knows it."""
        return self.fresh.star

    @property
    def digest(self) -> str:
        """Of the simulator."""
        return self.fresh.digest

    @property
    def notes(self) -> list[str]:
        """Those of the environment, and how the run went on."""
        return [*getattr(self.env, "notes", ()), *self.found]

    def begin(self, out: Path, arrays: dict[str, np.ndarray] | None) -> None:
        """A fresh rival, or the one in the checkpoint."""
        with restoring():
            self.k = 0 if arrays is None else whole(arrays["job.k"][0], "job.k", least=0)
        if arrays is None or self.k == 0:
            return
        with restoring():
            self.progress = self.rival.restored(self.progress, arrays)
        if not self.rival.stored:
            self.found.append(AGAIN.format(name=self.config.algorithm, rows=self.k))

    def over(self) -> bool:
        """After all updates or episodes, or when the goal is reached."""
        goal = self.config.stop_cvar
        reached = goal is not None and self.cvar is not None and self.cvar >= goal
        return self.progress.played >= self.total or self.k >= self.config.iterations or reached

    def advance(self) -> dict[str, Any]:
        """One update; every so often its policy is judged."""
        seen = self.rival.step(self.progress, self.env)
        self.k += 1
        row: dict[str, Any] = {
            "k": self.k,
            "episodes": seen["episodes"],
            "steps": self.progress.steps,
            "cvar": None,
            "return": seen["mean"],
            "objective": seen["cvar"],
        }
        every = self.config.evaluate_every
        if every and self.k % every == 0:
            policy = self.rival.policy(self.progress)
            row |= self.fresh.judged(self.fresh.play(policy, self.k), self.k)
            self.cvar = row["cvar"]
        return row

    def arrays(self, out: Path) -> dict[str, np.ndarray]:
        """What a checkpoint needs."""
        return self.progress.to_arrays() | {"job.k": np.array([self.k])}

    def finish(self, out: Path) -> dict[str, Any]:
        """The last policy, judged by fresh episodes."""
        config, policy = self.config, self.rival.policy(self.progress)
        returns = self.fresh.play(policy, 0)
        judged = self.fresh.judged(returns, self.k)
        self.cvar = judged["cvar"]
        about: dict[str, Any] = {
            "algorithm": config.algorithm,
            "tau": config.tau,
            "iterations": self.k,
            "episodes": self.progress.played,
            "steps": self.progress.steps,
            **judged,
            "cvar_star": self.star,
            "mean": float(returns.mean()),
            "evaluation_episodes": returns.size,
            "returned": "the last policy",
            "why": "it is what the rival returns",
        }
        storage.save(policy, out / files.PLAN, info=about | self.fresh.source(), inside=True)
        write_returns(out / EVALUATION, returns)
        return about


def make_rival(config: RunConfig) -> Rival:
    """The rival of a configuration; its settings are the table `planner`, with lists for layers and "all" for None."""
    given: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in config.planner.items()
    }
    if isinstance(given.get("hidden"), int):
        given["hidden"] = (given["hidden"],)
    if given.get("projections") == "all":
        given["projections"] = None
    return RIVALS[config.algorithm](config.tau, **given)
