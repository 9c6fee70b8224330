"""What a planner of counted latents is told: one object, for the exact planner and for CVaR-LSVI alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tailrank.models.goal import UnitGoal
from tailrank.models.latent_counts import LatentCounts
from tailrank.policies.observed import ObservedPlan

Goal = Callable[[int], UnitGoal | None]
"""What is planned for where at most so many units are earned; None: the shortfall of CVaR."""


@dataclass(frozen=True)
class Support:
    """Observed states of a step that are not sure: mix [s, K] how likely each latent is;
    weights [K, s] and sure [K]: the shares of psi_j that lie on them and on sure observations.
    """

    mix: np.ndarray
    weights: np.ndarray
    sure: np.ndarray


@dataclass(frozen=True)
class CountedProblem:
    """Counts between latents, and what is to be planned with them at `tau`.

    bonus [steps, K, A] in units; present [H, K]: latents that a step has; start [n, K]: latents of first
    observations; zero: units of a reward of 0; usual [H]: the usual reward of each step in units.
    prior, caution, enough: how pairs are counted that were tried seldom (`planning/observed/planner.py`).
    support: the observations of each step that are not sure. goal: another objective than CVaR.
    undominated: where the shortfall is the same, the mean decides between pairs that were tried `enough` times; of
    CVaR without bonus.
    """

    counts: LatentCounts
    horizon: int
    bonus: np.ndarray
    present: np.ndarray
    start: np.ndarray
    tau: float
    zero: int
    usual: np.ndarray
    prior: float = 0.0
    caution: float = 0.0
    enough: float = 0.0
    support: list[Support | None] | None = None
    goal: Goal | None = None
    undominated: bool = True

    @property
    def most(self) -> np.ndarray:
        """The most units that can still be earned at each step, [H + 1]."""
        counts = self.counts
        ptr, _, units, _ = counts.outcomes()
        ends = ptr[:: counts.n_latents * counts.n_actions]
        most, ended = np.zeros(self.horizon + 1, dtype=np.int64), 0
        for h in reversed(range(self.horizon)):
            t = 0 if counts.steps == 1 else h
            top = max(int(units[ends[t] : ends[t + 1]].max(initial=0)), int(self.usual[h]))
            most[h] = max(top + max(int(most[h + 1]), ended), ended + self.zero)
            ended += self.zero
        return most


class ObservedPlanner(Protocol):
    """Makes plans of a counted model, as `plan_observed` does."""

    def __call__(self, problem: CountedProblem) -> ObservedPlan:
        """The plan."""
        ...
