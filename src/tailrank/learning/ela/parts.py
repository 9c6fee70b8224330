"""The parts of ELA that can be replaced, with those of Algorithm 1 as defaults, and the state between iterations.

Parts that stand elsewhere: the bonus (`learning/ela/bonus.py`), the schedule of its constants
(`learning/schedule.py`), other planners (`planning/latent/optimistic.py`, `learning/ela/ella.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np

from tailrank.envs.protocols import CountableEnv
from tailrank.learning.oracles.fit import MleOracle
from tailrank.models.counts import TransitionCounts
from tailrank.models.lowrank import Model, step_from_arrays
from tailrank.models.problem import PlanningProblem
from tailrank.planning.latent.planner import LatentPlan, plan_latent


@dataclass(frozen=True)
class ELAState:
    """Everything that the next iteration depends on. `plan` is always playable (None: uniform actions).

    rounds: collections so far, of one episode or of H.
    """

    k: int
    rounds: int
    episodes: int
    steps: int
    seen: TransitionCounts
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

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> ELAState:
        """The state in a checkpoint, given a fresh state of the same learner and environment."""
        k, rounds, episodes, walked = (int(x) for x in arrays["counters"])
        seen, plan, model = self.seen.from_arrays(arrays), None, None
        if k:
            plan = LatentPlan.from_arrays(arrays, "plan")
            steps = tuple(step_from_arrays(arrays, f"model.{h}") for h in range(len(seen.visits)))
            model = Model[Any](steps, self.group)
        return ELAState(k, rounds, episodes, walked, seen, self.group, plan, model)


Collect = Literal["printed", "rollins", "episode", "plan", "uniform"]
"""Which episodes are played and what is learned from them (see `ELA`)."""
COLLECTS: tuple[str, ...] = get_args(Collect)
Act = Callable[[int, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Actions [n] at a step of episodes [n] that are in groups [n] with budgets [n]."""
RollIn = Callable[[ELAState, CountableEnv, np.ndarray, np.random.Generator], Act | None]
"""How episodes are played before their uniform actions begin, which is at the steps [n] given (None: no other)."""


def last_plan(state: ELAState, env: CountableEnv, uniform_from: np.ndarray, rng: np.random.Generator) -> Act | None:
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

    def make(self, env: CountableEnv) -> list[MleOracle]:
        """The H - 1 oracles."""
        ...


Planner = Callable[[PlanningProblem, list[np.ndarray], np.random.Generator], LatentPlan]
"""The plan of a problem with bonuses [G, A] of every step; the generator is for planners that simulate."""


def exact_planner(problem: PlanningProblem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
    """The latent planner, exact on groups."""
    return plan_latent(problem.model, problem.rewards, problem.law_of, bonus, problem.tau, problem.start)
