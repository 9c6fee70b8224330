"""What a plan is made from: a model, the known rewards, and how much was seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.models.goal import UnitGoal
from tailrank.models.lowrank import Model
from tailrank.models.rewards import RewardLaw


@dataclass(frozen=True)
class PlanningProblem:
    """The planning problem of an iteration.

    law_of [H] of [G, A]: the reward law of every pair. start: the group of the first state. visits [H - 1] of
    [G, A]: how often each pair was met in D_h. rounds: collections so far. dimension: d. log_class: log |F|.
    goal: what is planned for; None: the CVaR at tau.
    """

    model: Model[Any]
    rewards: RewardLaw
    law_of: tuple[np.ndarray, ...]
    start: int
    tau: float
    visits: tuple[np.ndarray, ...]
    rounds: int
    dimension: int
    log_class: float
    goal: UnitGoal | None = None

    @property
    def horizon(self) -> int:
        """H."""
        return self.model.horizon

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.law_of[0].shape[1])

    @property
    def no_bonus(self) -> list[np.ndarray]:
        """Zeros [G, A] for every step."""
        return [np.zeros(law.shape) for law in self.law_of]

    @property
    def left(self) -> np.ndarray:
        """The most units that can be earned from step h on, [H + 1], as far as the reward laws tell."""
        reward = np.arange(self.rewards.laws.shape[1])
        most = np.where(self.rewards.laws > 0.0, reward, 0).max(axis=1)
        steps = [int(most[law].max()) for law in self.law_of]
        return np.concatenate([np.cumsum(steps[::-1])[::-1], [0]])

    def spread(self, h: int) -> float:
        """The most units by which values may differ at step h."""
        left = int(self.left[h])
        return float(left) if self.goal is None else self.goal.spread(left)
