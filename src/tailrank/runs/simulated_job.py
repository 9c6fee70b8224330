"""Runs on simulators: learning from observations, judged by fresh episodes.

Episodes are kept in files of their own (episodes-*.safetensors, one for each checkpoint, only what is new), so that
a checkpoint stays small; what it does not hold, the plan, follows from what it does. Evaluation plays odd seeds,
training even ones: they never share an episode.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tailrank.checks import InputError, did_you_mean
from tailrank.envs import SIMULATORS
from tailrank.envs.protocols import Simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.lowrank.ela import LowRankELA
from tailrank.learning.lowrank.oracle import LowRankOracle
from tailrank.learning.lowrank.state import LowRankState
from tailrank.learning.observed.doubts import doubts
from tailrank.learning.observed.ela import ObservedELA, ObservedInfo
from tailrank.learning.observed.state import ObservedState
from tailrank.planning.lsvi.observed import LatentLsvi
from tailrank.planning.observed.planner import plan_observed
from tailrank.runs import _episodes as shards
from tailrank.runs import folder as files
from tailrank.runs._restored import check_lowrank, check_observed, restoring
from tailrank.runs.build import simulator
from tailrank.runs.config import RunConfig
from tailrank.runs.judge import EVALUATION, Fresh, write_returns
from tailrank.runs.policy_files import storage

CHOSEN = ("auto", "lowrank")
"""Models that are chosen by likelihood, or are of low rank."""
NETWORK = ("width", "layers", "restarts", "steps", "held_out")


@dataclass
class SimulatedJob:
    """ELA or ELLA on observations."""

    config: RunConfig
    env: Simulator
    learner: Any  # an ObservedELA or a LowRankELA
    fresh: Fresh
    cvar: float | None = None
    regret: float = 0.0
    saved: int = 0
    found: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, config: RunConfig, env: Simulator | None = None) -> SimulatedJob:
        """The job that the configuration describes."""
        env = simulator(config) if env is None else env
        network = dict(config.network)
        for name in network:
            if name not in NETWORK:
                near = did_you_mean(name, NETWORK)
                raise InputError(f"network.{name}: is no setting of a network, which has {', '.join(NETWORK)}{near}")
        shared = config.environment not in SIMULATORS if config.share is None else config.share
        model = config.model or ("auto" if config.algorithm == "ela" else "mixture")
        if model in CHOSEN and config.algorithm != "ela":
            raise InputError(f"model = {model!r}: is for algorithm ela; ella has mixture, linear, neural and table")
        oracle = Discriminative(
            rank=config.rank or ("auto" if shared else 3),
            model="mixture" if model in CHOSEN else model,
            shared=shared,
            image_shape=getattr(getattr(env, "encoder", None), "image_shape", None),
            **network,
        )
        learner = ObservedELA(
            config.tau,
            oracle,
            config.recipe.schedule,
            config.bonus or ("visits" if shared else "elliptical"),
            config.pilot,
            batch=config.batch,
            growth=config.growth,
            levels=config.reward_levels,
            reward_range=None if config.reward_range is None else (config.reward_range[0], config.reward_range[1]),
            planner=plan_observed if config.algorithm == "ela" else LatentLsvi(**config.planner, seed=config.seed),
        )
        if model not in CHOSEN:
            return cls(config, env, learner, Fresh(config, env))
        chosen = LowRankELA(learner, LowRankOracle(config.rank or "auto", config.share), always=model == "lowrank")
        return cls(config, env, chosen, Fresh(config, env))

    @property
    def digest(self) -> str:
        """Of the simulator."""
        return self.fresh.digest

    @property
    def star(self) -> float | None:
        """The best CVaR, if the simulator knows it."""
        return self.fresh.star

    @property
    def notes(self) -> list[str]:
        """Those of the environment, and what the run found out."""
        return [*getattr(self.env, "notes", ()), *self.found]

    @property
    def k(self) -> int:
        """Iterations done."""
        return self.state.k

    def begin(self, out: Path, arrays: dict[str, np.ndarray] | None) -> None:
        """Play the pilot, or read what was played before."""
        self.streams = Streams(self.config.seed)
        if arrays is None:
            self.state: Any = self.learner.init(self.env, self.streams)
            return
        lowrank = isinstance(self.learner, LowRankELA)
        with restoring():
            (check_lowrank if lowrank else check_observed)(arrays, self.env)
        replay = shards.read(out, self.env, int(arrays["episodes"][0]))
        self.saved = replay.n
        with restoring():
            kind: Any = LowRankState if lowrank else ObservedState
            state = kind.from_arrays(arrays, replay)
        self.state = self.learner.resumed(state, self.env)

    def over(self) -> bool:
        """After all iterations or episodes, or when the goal is reached."""
        enough = self.config.episodes is not None and self.state.episodes >= self.config.episodes
        return self.k >= self.config.iterations or enough or self._reached()

    def _reached(self) -> bool:
        goal = self.config.stop_cvar
        return goal is not None and self.cvar is not None and self.cvar >= goal

    def advance(self) -> dict[str, Any]:
        """One iteration; every so often its plan without bonus is judged."""
        self.state, info = self.learner.step(self.state, self.env, self.streams)
        row = self._row(info)
        every = self.config.evaluate_every
        if every and self.k % every == 0:
            row |= self.fresh.judged(self.fresh.play(self.learner.greedy(self.state, self.env), self.k), self.k)
            self.cvar = row["cvar"]
        return row

    def _row(self, info: ObservedInfo) -> dict[str, Any]:
        return {
            "k": self.k,
            "episodes": self.state.episodes,
            "steps": int(self.state.replay.lengths.sum()),
            "cvar": None,
            "return": float(info.returns.mean()),
            "objective": info.objective,
            "bonus": info.bonus_mean,
            "saturated": info.saturated,
            "log_likelihood": info.held_out,
            "latents": info.latents,
            "refitted": info.refitted,
            "support_error": info.support_error,
            "converged": self.state.converged,
        }

    def arrays(self, out: Path) -> dict[str, np.ndarray]:
        """What a checkpoint needs beside the files of episodes, which are written here."""
        shards.write(out, self.state.replay, self.saved)
        self.saved = self.state.replay.n
        return self.state.to_arrays()

    def finish(self, out: Path) -> dict[str, Any]:
        """The plan without bonus on the last model, as fresh training episodes like it best; its CVaR."""
        config, state = self.config, self.state
        more = config.output_episodes if config.output == "best" else 0
        output = self.learner.output(state, self.env, self.streams, more)
        why = f"the highest CVaR of {len(output.scores)} candidates in {more} more episodes each"
        if not output.scores:
            why = "the last model's plan without bonus"
        policy = output.policy
        returns = self.fresh.play(policy, 0)
        judged = self.fresh.judged(returns, self.k)
        self.cvar = judged["cvar"]
        self._warn(judged)
        about: dict[str, Any] = {
            "algorithm": config.algorithm,
            "tau": config.tau,
            "iterations": state.k,
            "episodes": state.episodes,
            "output_episodes": output.episodes,
            "steps": int(state.replay.lengths.sum()),
            **judged,
            "cvar_star": self.star,
            "mean": float(returns.mean()),
            "evaluation_episodes": returns.size,
            "model": state.chosen,
            "returned": f"greedy, prior {output.prior:g}, caution {output.caution:g}",
            "why": why,
        }
        storage.save(policy, out / files.PLAN, info=about | self.fresh.source(), inside=True)
        write_returns(out / EVALUATION, returns)
        return about

    def _warn(self, judged: dict[str, Any]) -> None:
        """Say what should make a reader doubt the result."""
        self.found.append(self.state.rewards_said)
        interval, rng = (judged["cvar_low"], judged["cvar_high"]), self.streams.planner(self.k, 1)
        self.found += doubts(self.learner, self.state, self.env, interval, rng)
