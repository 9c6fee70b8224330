"""Runs on environments whose truth is known: every plan is judged exactly, and regret is counted.

The counts, the last plan and model, and the plans kept for the output rule are everything a checkpoint needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tailrank.envs.protocols import CountableEnv
from tailrank.learning.protocol import LearnerState
from tailrank.learning.train import Judge, train
from tailrank.planning.latent.planner import LatentPlan
from tailrank.runs import folder as files
from tailrank.runs._restored import check_finite, restoring
from tailrank.runs.build import Setup
from tailrank.runs.config import RunConfig
from tailrank.runs.policy_files import storage

WHY = {
    "best": "the highest CVaR in fresh episodes",
    "uniform": "drawn uniformly among the iterates",
    "greedy": "the last model's plan without bonus",
}


@dataclass
class FiniteJob:
    """A learner on an `CountableEnv`."""

    parts: Setup
    cvar: float | None = None
    star: float | None = None
    regret: float = 0.0
    kept: dict[int, LatentPlan] = field(default_factory=dict)
    best: tuple[float, LatentPlan] | None = None

    @property
    def config(self) -> RunConfig:
        """The configuration."""
        return self.parts.config

    @property
    def env(self) -> CountableEnv:
        """The environment."""
        return self.parts.env

    @property
    def digest(self) -> str:
        """Of the environment."""
        return self.parts.digest

    @property
    def notes(self) -> list[str]:
        """Those of the environment."""
        return list(self.parts.env.notes)

    @property
    def k(self) -> int:
        """Iterations done."""
        return self.state.k

    def begin(self, out: Path, arrays: dict[str, np.ndarray] | None) -> None:
        """Stand where the checkpoint says; finds CVaR*, which may take a while."""
        self.state: LearnerState = self.parts.fresh
        if arrays is not None:
            with restoring():
                check_finite(arrays, self.parts.fresh, self.parts.env, self.parts.learner.decoder)
                self.state = self.state.from_arrays(arrays)
                kept = {int(key.split(".")[1]) for key in arrays if key.startswith("kept.")}
                self.kept = {k: LatentPlan.from_arrays(arrays, f"kept.{k}") for k in sorted(kept)}
                if "best.cvar" in arrays:
                    self.best = float(arrays["best.cvar"][0]), LatentPlan.from_arrays(arrays, "best")
        self.judge: Judge = self.parts.judge()
        self.star = self.judge.star
        self.drawn = set(self.parts.rule.drawn(self.config.iterations, self.parts.streams))

    def over(self) -> bool:
        """After all iterations, or when the goal is reached."""
        return self.k >= self.config.iterations or self._reached()

    def _reached(self) -> bool:
        goal = self._goal()
        return goal is not None and self.cvar is not None and self.cvar >= goal - 1e-12 * max(1.0, abs(goal))

    def _goal(self) -> float | None:
        """The CVaR that ends the run: the lower one, if there are two."""
        within, star, goals = self.config.stop_within, self.judge.star, []
        if within is not None:
            goals.append(star - within * abs(star))
        if self.config.stop_cvar is not None:
            goals.append(self.config.stop_cvar)
        return min(goals, default=None)

    def advance(self) -> dict[str, Any]:
        """One iteration and the exact CVaR of its plan."""
        parts = self.parts
        steps = train(
            parts.learner, parts.env, iterations=self.k + 1, seed=self.config.seed, state=self.state, judge=self.judge
        )
        state, measured = next(steps)
        # As a checkpoint gives it back: the layout of arrays can decide how sums are rounded.
        self.state = state = self.parts.fresh.from_arrays(state.to_arrays())
        self.cvar = float(measured["cvar"] or 0.0)
        self.regret += self.judge.star - self.cvar
        if state.plan is not None:
            if state.k in self.drawn:
                self.kept[state.k] = state.plan
            if self.best is None or self.cvar > self.best[0]:
                self.best = self.cvar, state.plan
        return measured | {"regret": self.regret}

    def arrays(self, out: Path) -> dict[str, np.ndarray]:
        """State and plans."""
        arrays = self.state.to_arrays()
        for k, plan in self.kept.items():
            arrays |= plan.to_arrays(f"kept.{k}")
        if self.best is not None:
            arrays |= {"best.cvar": np.array([self.best[0]])} | self.best[1].to_arrays("best")
        return arrays

    def finish(self, out: Path) -> dict[str, Any]:
        """The plan that the output rule chooses, with its exact CVaR."""
        config, parts, state, judge = self.config, self.parts, self.state, self.judge
        if self._reached() and state.plan is not None:
            plan, where, why = state.plan, f"iterate {state.k}", f"its CVaR reached {self._goal():g}"
        else:
            plan, where = parts.rule.choose(parts.learner, parts.env, state, self.kept, parts.streams)
            why = WHY[config.output]
        law = judge.law(plan)
        about: dict[str, Any] = {
            "algorithm": config.algorithm,
            "tau": config.tau,
            "iterations": state.k,
            "episodes": state.episodes,
            "steps": state.steps,
            "cvar": law.cvar(config.tau),
            "cvar_star": judge.star,
            "regret": self.regret,
            "returned": where,
            "why": why,
        }
        names = {"states": judge.labels, "actions": judge.env.truth.action_labels}
        source = {"source": parts.env.name, "seed": config.seed, "config": config.checksum}
        if self.best is not None:
            best = {"tau": config.tau, "cvar": self.best[0], "returned": "the iterate with the best exact CVaR"}
            storage.save(judge.policy(self.best[1]), out / files.BEST, info=best | source | names, inside=True)
        storage.save(judge.policy(plan), out / files.PLAN, info=about | source | names, inside=True)
        return about
