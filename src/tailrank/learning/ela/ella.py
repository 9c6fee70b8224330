"""ELLA (Algorithm 3): ELA whose planner is CVaR-LSVI (Algorithm 2), for every starting budget.

The learned model is used only through its features and its samples. The plan that comes back is written out
on the groups that can occur, so that it is played, stored and evaluated like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tailrank._system.settings import part
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.rollout import Transitions
from tailrank.episodes.streams import Streams
from tailrank.learning.ela.ela import ELA
from tailrank.learning.ela.parts import ELAState, Planner
from tailrank.models.problem import PlanningProblem
from tailrank.planning.exact.induction import action_type
from tailrank.planning.latent.planner import LatentPlan
from tailrank.planning.lsvi.algorithm2 import CvarLsvi, GroupModel
from tailrank.planning.lsvi.settings import LsviSettings


@dataclass(frozen=True)
class LsviPlanner(LsviSettings):
    """CVaR-LSVI as ELA's planner."""

    def __call__(self, problem: PlanningProblem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
        """The plan of the problem, written out on its groups."""
        model, rewards = problem.model, problem.rewards
        goal, top = problem.goal, rewards.top
        C = rewards.n_budgets if goal is None else goal.terminal.size
        simulated = GroupModel(model, problem.law_of, rewards.laws, [b * top for b in bonus], problem.start)
        algorithm = CvarLsvi(self.iterations, self.evaluations, self.beta * top, variant=self.variant, clip=self.clip)
        found = algorithm.plan(simulated, tau=problem.tau, rng=rng, goal=goal)
        kind = action_type(problem.n_actions)
        actions = []
        for h in range(model.horizon):
            G = model.groups(h)
            groups, budgets = np.repeat(np.arange(G), C), np.tile(np.arange(C), G)
            actions.append(found.policy.act(h, groups, budgets).reshape(G, C).astype(kind))
        curve = np.zeros(C)
        curve[found.budgets] = found.values
        below = 0 if goal is None else goal.below
        return LatentPlan(tuple(actions), found.budget, float(found.objective.max()), curve, below)


@dataclass(frozen=True)
class ELLA(ELA):
    """ELLA (Algorithm 3): ELA that plans by CVaR-LSVI."""

    planner: Planner = part(LsviPlanner())

    def taught(self, state: ELAState, moves: Iterable[Transitions], env: CountableEnv, streams: Streams) -> None:
        """Nothing: its planner simulates, so that it has another plan every time."""
        return
