"""Plans of learners as policies that the one rollout (`episodes/rollout.py:walk`) plays; budgets are their memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.envs.protocols import CountableEnv
from tailrank.models.rewards import RewardLaw
from tailrank.planning.latent.planner import LatentPlan
from tailrank.policies.moved import Moved


class Charged:
    """What policies have in common whose memory is the budget that is left, as the laws `rewards` count it."""

    rewards: RewardLaw

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """The budgets that are left, [n]."""
        return self.rewards.charge(h, moved.rewards, memory)


@dataclass(frozen=True)
class PlayedPlan(Charged):
    """A plan on groups as a policy on states; group [H] of [S] says which group a state belongs to."""

    plan: LatentPlan
    rewards: RewardLaw
    group: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, plan: LatentPlan, env: CountableEnv, group: tuple[np.ndarray, ...]) -> PlayedPlan:
        """The plan in this environment."""
        return cls(plan, env.rewards, group)

    def start(self, n: int) -> np.ndarray:
        """The starting budget, [n]."""
        return np.full(n, self.plan.budget, dtype=np.int64)

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] at step h."""
        return self.plan.act(h, self.group[h][states], memory)
