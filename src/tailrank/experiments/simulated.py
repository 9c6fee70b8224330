"""Runs on simulators: learning from observations, judged by fresh episodes.

Episodes are kept in files of their own (episodes-*.safetensors, one for each checkpoint, only what is new), so that
a checkpoint stays small; what it does not hold, the plan, follows from what it does. Evaluation plays odd seeds,
training even ones: they never share an episode.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tailrank import storage
from tailrank.atomic import write_bytes
from tailrank.bounds import cvar_interval
from tailrank.checks import InputError, did_you_mean
from tailrank.envs import SIMULATORS
from tailrank.experiments import episodes as shards
from tailrank.experiments import folder as files
from tailrank.experiments.build import simulator
from tailrank.experiments.config import RunConfig
from tailrank.learners.observed import Info, ObservedELA
from tailrank.learners.observed_state import State
from tailrank.observation_policy import ObservationPolicy
from tailrank.oracles.discriminative import Discriminative
from tailrank.protocols import Simulator
from tailrank.risk import cvar
from tailrank.rollout import play_simulator
from tailrank.schedules import Schedule
from tailrank.streams import Streams

EVALUATION = "evaluation.safetensors"
PRIORS = (0.0, 1.0, 5.0)
"""Weights of a latent's pooled outcomes in those of its actions, tried for the policy that is returned."""
CONFIDENCE = 0.95
NETWORK = ("width", "layers", "restarts", "steps", "held_out")


@dataclass
class SimulatedJob:
    """ELA on observations."""

    config: RunConfig
    env: Simulator
    learner: ObservedELA
    digest: str
    cvar: float | None = None
    star: float | None = None
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
        oracle = Discriminative(
            rank=config.rank or ("auto" if shared else 3), model=config.model or "mixture", shared=shared,
            image_shape=getattr(getattr(env, "encoder", None), "image_shape", None), **network,
        )  # fmt: skip
        schedule = Schedule(config.alpha_scale, config.lam_scale, config.cap, config.log)  # type: ignore[arg-type]
        learner = ObservedELA(
            config.tau, oracle, schedule, config.bonus or ("visits" if shared else "elliptical"), config.pilot,
            batch=config.batch, levels=config.reward_levels,
            reward_range=None if config.reward_range is None else (config.reward_range[0], config.reward_range[1]),
        )  # fmt: skip
        about = {"name": env.name, "H": env.horizon, "A": env.n_actions, "m": env.n_features, "set": config.settings}
        job = cls(config, env, learner, hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest())
        optimum = getattr(env, "optimum", None)
        job.star = None if optimum is None else float(optimum(config.tau))
        return job

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
            self.state: State = self.learner.init(self.env, self.streams)
            return
        replay = shards.read(out, self.env, int(arrays["episodes"][0]))
        self.saved = replay.n
        self.state = self.learner.resumed(State.from_arrays(arrays, replay), self.env)

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
            returns = self._play(self.learner.greedy(self.state, self.env), self.k, self.config.evaluation_episodes)
            row |= self._judged(returns)
            self.cvar = row["cvar"]
        return row

    def _row(self, info: Info) -> dict[str, Any]:
        return {
            "k": self.k, "episodes": self.state.episodes, "steps": int(self.state.replay.lengths.sum()), "cvar": None,
            "return": float(info.returns.mean()), "objective": info.objective, "bonus": info.bonus_mean,
            "saturated": info.saturated, "log_likelihood": info.held_out, "latents": info.latents,
            "refitted": info.refitted, "support_error": info.support_error, "converged": self.state.fitted.converged,
        }  # fmt: skip

    def _play(self, policy: ObservationPolicy, key: int, episodes: int) -> np.ndarray:
        return play_simulator(policy, self.env, self.streams.evaluation_seeds(key, episodes)).returns

    def _judged(self, returns: np.ndarray) -> dict[str, Any]:
        """CVaR of a sample with an interval: certain coverage where the range of returns is known."""
        tau, bounds = self.config.tau, getattr(self.env, "return_range", None)
        rng = self.streams.evaluation(self.k, 1)
        found = cvar_interval(returns, tau, CONFIDENCE, bounds, rng=rng)
        return {"cvar": cvar(returns, tau), "cvar_low": found.lower, "cvar_high": found.upper, "method": found.method}

    def arrays(self, out: Path) -> dict[str, np.ndarray]:
        """What a checkpoint needs beside the files of episodes, which are written here."""
        shards.write(out, self.state.replay, self.saved)
        self.saved = self.state.replay.n
        return self.state.to_arrays()

    def finish(self, out: Path) -> dict[str, Any]:
        """The plan without bonus on the last model, smoothed as fresh training episodes like it best; its CVaR."""
        config, state = self.config, self.state
        policies = [self.learner.greedy(state, self.env, prior) for prior in PRIORS]
        chosen, why, extra = 0, "the last model's plan without bonus", 0
        if config.output == "best":
            scores = []
            for i, policy in enumerate(policies):
                seeds = self.streams.train_seeds(self.k + 1 + i, config.output_episodes)
                scores.append(cvar(play_simulator(policy, self.env, seeds).returns, config.tau))
            chosen, extra = int(np.argmax(scores)), len(policies) * config.output_episodes
            why = f"the highest CVaR of {len(policies)} candidates in {config.output_episodes} more episodes each"
        policy = policies[chosen]
        returns = self._play(policy, 0, config.evaluation_episodes)
        judged = self._judged(returns)
        self.cvar = judged["cvar"]
        self._warn(judged)
        about: dict[str, Any] = {
            "algorithm": config.algorithm, "tau": config.tau, "iterations": state.k, "episodes": state.episodes,
            "output_episodes": extra, "steps": int(state.replay.lengths.sum()), **judged, "cvar_star": self.star,
            "mean": float(returns.mean()), "evaluation_episodes": returns.size, "model": state.fitted.chosen,
            "returned": f"greedy, prior {PRIORS[chosen]:g}", "why": why,
        }  # fmt: skip
        source = {"source": self.env.name, "seed": config.seed, "config": config.checksum}
        kept: dict[str, Any] = getattr(self.env, "about", dict)()
        storage.save(policy, out / files.PLAN, info=about | source | kept)
        _write_returns(out / EVALUATION, returns)
        return about

    def _warn(self, judged: dict[str, Any]) -> None:
        """Say what should make a reader doubt the result."""
        grid, state = self.state.grid, self.state
        if not state.fitted.converged:
            self.found.append("the decoder's training did not converge")
        self.found.append(f"rewards: {grid.source}, {grid.top + 1} values from {grid.low:g} in steps of {grid.unit:g}")
        promised = self.learner.promise(state, self.env)
        low, high = judged["cvar_low"], judged["cvar_high"]
        error = 2 * self.learner.promise_error(state, self.env, self.streams.planner(self.k, 1))
        if not low - error <= promised <= high + error:
            self.found.append(
                f"misspecified: the model promises a CVaR of {promised:.4g} (give or take {error:.2g}), fresh episodes "
                f"give {low:.4g} to {high:.4g}; observations may not be of low rank, or rank or data may be too small"
            )


def _write_returns(path: Path, returns: np.ndarray) -> None:
    from safetensors.numpy import save

    write_bytes(path, save({"returns": np.ascontiguousarray(returns)}, metadata={"format": "tailrank-returns"}))
