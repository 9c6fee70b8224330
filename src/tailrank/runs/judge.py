"""Judging policies on features by fresh episodes: odd seeds, which no training plays, and an interval for the CVaR."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tailrank._system.atomic import write_bytes
from tailrank.envs.protocols import Simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.policies.tables import Policy
from tailrank.risk.intervals import cvar_interval
from tailrank.risk.law import cvar
from tailrank.runs.config import RunConfig

EVALUATION = "evaluation.safetensors"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Fresh:
    """Fresh episodes of a run."""

    config: RunConfig
    env: Simulator

    @property
    def streams(self) -> Streams:
        """The random numbers of the run."""
        return Streams(self.config.seed)

    def play(self, policy: Policy, key: int) -> np.ndarray:
        """Returns [n] of fresh episodes; the same key plays the same ones."""
        seeds = self.streams.evaluation_seeds(key, self.config.evaluation_episodes)
        return play_simulator(policy, self.env, seeds).returns

    def judged(self, returns: np.ndarray, k: int) -> dict[str, Any]:
        """CVaR of a sample with an interval: certain coverage where the range of returns is known."""
        tau, bounds = self.config.tau, getattr(self.env, "return_range", None)
        found = cvar_interval(returns, tau, CONFIDENCE, bounds, rng=self.streams.evaluation(k, 1))
        return {"cvar": cvar(returns, tau), "cvar_low": found.lower, "cvar_high": found.upper, "method": found.method}

    @property
    def digest(self) -> str:
        """Of the simulator, as far as it can be known from outside."""
        env = self.env
        about = {
            "name": env.name,
            "H": env.horizon,
            "A": env.n_actions,
            "m": env.n_features,
            "set": self.config.settings,
        }
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()

    @property
    def star(self) -> float | None:
        """The best CVaR, if the simulator knows it."""
        optimum = getattr(self.env, "optimum", None)
        return None if optimum is None else float(optimum(self.config.tau))

    def source(self) -> dict[str, Any]:
        """What is kept beside a policy so that it can be played elsewhere."""
        kept: dict[str, Any] = getattr(self.env, "about", dict)()
        return {"source": self.env.name, "seed": self.config.seed, "config": self.config.checksum} | kept


def write_returns(path: Path, returns: np.ndarray) -> None:
    """The returns that the result was judged by."""
    from safetensors.numpy import save

    data = save({"returns": np.ascontiguousarray(returns)}, metadata={"format": "tailrank-returns"})
    write_bytes(path, data, inside=True)
