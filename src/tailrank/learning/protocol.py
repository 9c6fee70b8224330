"""What a learner is: `init`, `step`, and a plan that can be played at any time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.streams import Streams
from tailrank.planning.latent.planner import LatentPlan


@dataclass(frozen=True)
class Info:
    """What happened in an iteration; nan where a learner has no such thing."""

    log_likelihood: float = np.nan
    objective: float = np.nan
    bonus_mean: float = np.nan
    saturated: float = np.nan
    converged: bool = True


class LearnerState(Protocol):
    """Everything that the next iteration depends on; `plan` is always playable (None: uniform actions)."""

    @property
    def k(self) -> int:
        """Iterations done."""
        ...

    @property
    def episodes(self) -> int:
        """Episodes played."""
        ...

    @property
    def steps(self) -> int:
        """Steps played."""
        ...

    @property
    def group(self) -> tuple[np.ndarray, ...]:
        """Which group the plan sees in every state, [H] of [S]."""
        ...

    @property
    def plan(self) -> LatentPlan | None:
        """The last plan."""
        ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        ...

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> Any:
        """The state in a checkpoint, given a fresh state of the same learner and environment."""
        ...


class Learner(Protocol):
    """A learner on environments whose states can be counted (`CountableEnv`); rewards are known to it."""

    @property
    def tau(self) -> float:
        """The tail that its plans are judged by."""
        ...

    @property
    def aim(self) -> float | None:
        """The tail that it plans for, if it is not tau."""
        ...

    @property
    def decoder(self) -> bool:
        """Whether plans are on the environment's groups, or on single states."""
        ...

    def init(self, env: CountableEnv) -> Any:
        """The state before the first iteration."""
        ...

    def step(self, state: Any, env: CountableEnv, streams: Streams) -> tuple[Any, Info]:
        """One iteration; the random numbers of iteration k come from `streams` by k alone."""
        ...

    def greedy(self, state: Any, env: CountableEnv, streams: Streams) -> LatentPlan:
        """What the learner believes to be best, without bonus."""
        ...


def promised(plan: LatentPlan, env: CountableEnv) -> float:
    """The objective of a plan in the units of the rewards."""
    return float(env.rewards.grid.value(0)) + plan.objective * float(env.rewards.grid.unit)
