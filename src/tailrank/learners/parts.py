"""The parts of ELA that can be replaced, with those of Algorithm 1 as defaults, and the state between iterations.

Parts that stand elsewhere: the bonus (`bonus.py`), the schedule of its constants (`schedules.py`), other planners
(`planners/optimistic.py`, `learners/ella.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np

from tailrank.data import Seen
from tailrank.lowrank import Model, step_from_arrays
from tailrank.oracles.fit import MleOracle
from tailrank.planners.latent import LatentPlan, plan_latent
from tailrank.problem import Problem
from tailrank.protocols import Episodic


@dataclass(frozen=True)
class State:
    """Everything that the next iteration depends on. `plan` is always playable (None: uniform actions).

    rounds: collections so far, of one episode or of H.
    """

    k: int
    rounds: int
    episodes: int
    steps: int
    seen: Seen
    group: tuple[np.ndarray, ...]
    plan: LatentPlan | None = None
    model: Model[Any] | None = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything but the groups (they come from the environment), for a checkpoint."""
        arrays = {"counters": np.array([self.k, self.rounds, self.episodes, self.steps])} | self.seen.to_arrays()
        if self.plan is not None:
            arrays |= self.plan.to_arrays("plan")
        for h, step in enumerate(self.model.steps if self.model is not None else ()):
            arrays |= {f"model.{h}.{name}": array for name, array in step.to_arrays().items()}
        return arrays

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> State:
        """The state in a checkpoint, given a fresh state of the same learner and environment."""
        k, rounds, episodes, walked = (int(x) for x in arrays["counters"])
        seen, plan, model = self.seen.from_arrays(arrays), None, None
        if k:
            plan = LatentPlan.from_arrays(arrays, "plan")
            steps = tuple(step_from_arrays(arrays, f"model.{h}") for h in range(len(seen.visits)))
            model = Model[Any](steps, self.group)
        return State(k, rounds, episodes, walked, seen, self.group, plan, model)


Collect = Literal["printed", "rollins", "episode", "plan", "uniform"]
"""Which episodes are played and what is learned from them (see `ELA`)."""
COLLECTS: tuple[str, ...] = get_args(Collect)
Act = Callable[[int, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Actions [n] at a step of episodes [n] that are in groups [n] with budgets [n]."""
RollIn = Callable[[State, Episodic, np.ndarray, np.random.Generator], Act | None]
"""How episodes are played before their uniform actions begin, which is at the steps [n] given (None: no other)."""


def last_plan(state: State, env: Episodic, uniform_from: np.ndarray, rng: np.random.Generator) -> Act | None:
    """Every episode follows the last plan."""
    plan = state.plan
    return None if plan is None else lambda h, episodes, groups, budgets: plan.act(h, groups, budgets)


Counted = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
"""The number under which groups [n] with budgets [n] are counted, of C budgets; it grows with both."""


def by_group(groups: np.ndarray, budgets: np.ndarray, n_budgets: int) -> np.ndarray:
    """Transitions are counted from group to group, whatever the budget."""
    return groups


class Oracles(Protocol):
    """Makes the maximum-likelihood oracle of every step for an environment."""

    @property
    def decoder(self) -> bool:
        """Whether the model sees states through the environment's known groups, or one by one."""
        ...

    @property
    def sparse(self) -> bool:
        """Whether counts are kept as the cells that were met, not as tables."""
        ...

    def make(self, env: Episodic) -> list[MleOracle]:
        """The H - 1 oracles."""
        ...


Planner = Callable[[Problem, list[np.ndarray], np.random.Generator], LatentPlan]
"""The plan of a problem with bonuses [G, A] of every step; the generator is for planners that simulate."""


def exact_planner(problem: Problem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
    """The latent planner, exact on groups."""
    return plan_latent(problem.model, problem.rewards, problem.law_of, bonus, problem.tau, problem.start)
