"""The parts of ELA that can be replaced, with those of Algorithm 1 as defaults, and the state between iterations.

Parts that stand elsewhere: the bonus (`learning/ela/bonus.py`), the schedule of its constants
(`learning/schedule.py`), other planners (`planning/latent/optimistic.py`, `learning/ela/ella.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tailrank.envs.protocols import CountableEnv
from tailrank.learning.oracles.fit import MleOracle
from tailrank.learning.oracles.held_out import Menu
from tailrank.models.counts import TransitionCounts
from tailrank.models.lowrank import Model, step_from_arrays
from tailrank.models.problem import PlanningProblem
from tailrank.planning.latent.planner import LatentPlan, plan_latent
from tailrank.policies.moved import Moved


@dataclass(frozen=True)
class ELAState:
    """Everything that the next iteration depends on. `plan` is always playable (None: uniform actions).

    rounds: collections so far, of one episode or of H. menu: what may be fitted, and what is.
    """

    k: int
    rounds: int
    episodes: int
    steps: int
    seen: TransitionCounts
    group: tuple[np.ndarray, ...]
    menu: Menu
    plan: LatentPlan | None = None
    model: Model[Any] | None = None

    @property
    def oracles(self) -> tuple[MleOracle, ...]:
        """Those of each step that fit the model."""
        return self.menu.current.oracles

    @property
    def said(self) -> str:
        """Which model is fitted and why, where it was chosen."""
        return self.menu.said

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint: everything but the groups and the oracles, which come from the environment."""
        arrays = {"counters": np.array([self.k, self.rounds, self.episodes, self.steps])} | self.seen.to_arrays()
        arrays |= self.menu.to_arrays()
        if self.plan is not None:
            arrays |= self.plan.to_arrays("plan")
        for h, step in enumerate(self.model.steps if self.model is not None else ()):
            arrays |= {f"model.{h}.{name}": array for name, array in step.to_arrays().items()}
        return arrays

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> ELAState:
        """The state in a checkpoint, given a fresh state of the same learner and environment."""
        k, rounds, episodes, walked = (int(x) for x in arrays["counters"])
        seen, plan, model = self.seen.from_arrays(arrays), None, None
        if k:
            plan = LatentPlan.from_arrays(arrays, "plan")
            steps = tuple(step_from_arrays(arrays, f"model.{h}") for h in range(len(seen.visits)))
            model = Model[Any](steps, self.group)
        return ELAState(k, rounds, episodes, walked, seen, self.group, self.menu.from_arrays(arrays), plan, model)


Act = Callable[[int, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Actions [n] at a step of episodes [n] that are in groups [n] with budgets [n]."""
RollIn = Callable[[ELAState, CountableEnv, np.ndarray, np.random.Generator], Act | None]
"""How episodes are played before their uniform actions begin, which is at the steps [n] given (None: no other)."""


def last_plan(state: ELAState, env: CountableEnv, uniform_from: np.ndarray, rng: np.random.Generator) -> Act | None:
    """Every episode follows the last plan."""
    plan = state.plan
    return None if plan is None else lambda h, episodes, groups, budgets: plan.act(h, groups, budgets)


@dataclass
class RolledIn:
    """Roll in, then uniform actions from the step `uniform_from` [n] of each episode on.

    The memory [n, 2] is the budget that is left and the number of the episode.
    """

    state: ELAState
    env: CountableEnv
    uniform_from: np.ndarray
    roll_in: RollIn
    rng: np.random.Generator
    follow: Act | None = None

    def start(self, n: int) -> np.ndarray:
        """The starting budget; here the roll-in draws what it draws."""
        self.follow = self.roll_in(self.state, self.env, self.uniform_from, self.rng)
        budget = 0 if self.state.plan is None else self.state.plan.budget
        return np.stack([np.full(n, budget, dtype=np.int64), np.arange(n)], axis=1)

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] at step h."""
        actions = self.rng.integers(0, self.env.n_actions, size=states.size)
        follows = h < self.uniform_from[memory[:, 1]]
        if self.follow is not None and follows.any():
            budgets, episodes = memory[follows].T
            actions[follows] = self.follow(h, episodes, self.state.group[h][states[follows]], budgets)
        return actions

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """The budgets that are left."""
        return np.stack([self.env.rewards.charge(h, moved.rewards, memory[:, 0]), memory[:, 1]], axis=1)


Counted = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
"""The number under which groups [n] with budgets [n] are counted, of C budgets; it grows with both."""


def by_group(groups: np.ndarray, budgets: np.ndarray, n_budgets: int) -> np.ndarray:
    """Transitions are counted from group to group, whatever the budget."""
    return groups


class Oracles(Protocol):
    """Makes the maximum-likelihood oracle of every step for an environment."""

    def sees_groups(self, env: CountableEnv) -> bool:
        """Whether the model sees states through the environment's known groups, or one by one."""
        ...

    @property
    def sparse(self) -> bool:
        """Whether counts are kept as the cells that were met, not as tables."""
        ...

    def make(self, env: CountableEnv) -> list[MleOracle]:
        """The H - 1 oracles."""
        ...


Planner = Callable[[PlanningProblem, list[np.ndarray], np.random.Generator], LatentPlan]
"""The plan of a problem with bonuses [G, A] of every step; the generator is for planners that simulate."""


def exact_planner(problem: PlanningProblem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
    """The latent planner, exact on groups."""
    return plan_latent(problem.model, problem.rewards, problem.law_of, bonus, problem.tau, problem.start, problem.goal)
