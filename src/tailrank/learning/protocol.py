"""What a learner is: a frozen dataclass of settings with `init`, `step`, and a policy that can be played at any time.

    state = learner.init(env, streams)
    state, info = learner.step(state, env, streams)
    policy = learner.policy(state, env, streams)

The random numbers of iteration k come from `streams` by k alone, so any iteration can be resumed, and asking for a
policy changes nothing. There are two kinds: learners on a `CountableEnv`, whose plans act on groups of states and can
be judged exactly (derive from `CountableLearner`), and learners on a `Simulator`, whose policies act on features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from tailrank import checks
from tailrank._system.settings import Checked, fixed, setting
from tailrank.checks import InputError
from tailrank.envs.protocols import CountableEnv, Simulator
from tailrank.episodes.rollout import Decoded, Transitions
from tailrank.episodes.streams import Streams
from tailrank.learning.aim import CVAR, Aim
from tailrank.planning.latent.planner import LatentPlan
from tailrank.policies.tables import Policy, UniformPolicy
from tailrank.risk.law import cvar
from tailrank.risk.measures.base import Measure

COUNTABLE, SIMULATOR = "countable", "simulator"
FEWEST_RETURNS = 5
"""Episodes of an iteration below which their mean has no interval."""


class LearnerState(Protocol):
    """Everything that the next iteration depends on."""

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

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        ...


class IterationInfo(Protocol):
    """What happened in an iteration."""

    def row(self) -> dict[str, Any]:
        """Its columns in the rows of a run; nan where a learner has no such thing."""
        ...


@dataclass(frozen=True)
class ReturnedPolicy:
    """The policy that a run returns (a `LatentPlan` where states are counted), which one it is, and why.

    about: more about it, for the result of the run.
    """

    policy: Any
    returned: str
    why: str
    about: dict[str, Any] = field(default_factory=dict)


class Learner(Protocol):
    """A learner of either kind."""

    kind: ClassVar[str]
    """`COUNTABLE` or `SIMULATOR`."""
    outputs: ClassVar[tuple[str, ...]]
    """The rules of `tailrank train --output` that it knows; none: it returns its last policy."""
    stored: ClassVar[bool]
    """Whether a checkpoint holds its state; one that does not plays everything again."""
    foresees: ClassVar[bool]
    """Whether what it plays depends on how long the run will be."""

    @property
    def tau(self) -> float:
        """The tail that its policies are judged by."""
        ...

    def prepared(self, env: Any, streams: Streams, total: int | None) -> Any:
        """Itself as it learns here; total: the episodes that will be played, if that is known."""
        ...

    def init(self, env: Any, streams: Streams) -> Any:
        """The state before the first iteration; raises `InputError` where it cannot learn in this environment."""
        ...

    def step(self, state: Any, env: Any, streams: Streams) -> tuple[Any, Any]:
        """One iteration: the state after it, and what happened."""
        ...

    def policy(self, state: Any, env: Any, streams: Streams) -> Policy:
        """What it believes to be best, ready to be played."""
        ...

    def restored(self, arrays: dict[str, np.ndarray], env: Any, streams: Streams) -> Any:
        """The state in a checkpoint."""
        ...

    def episodes_each(self, horizon: int) -> int:
        """Episodes of a collection (of an iteration, where there is one a time)."""
        ...


@dataclass(frozen=True)
class Tail(Checked):
    """What every learner has: the tail that its policies are judged by.

    goal: what is planned for, a setting of the learners that take other objectives than CVaR.
    """

    tau: float = setting(
        0.1, kind=float, check=checks.tail_level, metavar="T", help="Tail fraction in (0, 1]; 1 is the mean."
    )
    goal: Aim = fixed(CVAR)

    @property
    def measure(self) -> Measure:
        """What its policies are planned for and judged by."""
        return self.goal.measure(self.tau)

    def score(self, returns: np.ndarray) -> float:
        """What a sample of returns [n] is worth to whoever plans: its CVaR, or the objective."""
        return cvar(returns, self.tau) if self.goal.tail else self.measure.of(returns)


@dataclass(frozen=True)
class Info:
    """What happened in an iteration; nan where a learner has no such thing."""

    log_likelihood: float = np.nan
    objective: float = np.nan
    bonus_mean: float = np.nan
    saturated: float = np.nan
    converged: bool = True

    def row(self) -> dict[str, Any]:
        """The columns of a row."""
        return {
            "objective": self.objective,
            "bonus": self.bonus_mean,
            "saturated": self.saturated,
            "log_likelihood": self.log_likelihood,
            "converged": self.converged,
        }


@dataclass(frozen=True)
class CountableLearner(Tail, ABC):
    """The base of learners where states can be counted and rewards are known.

    Their states have `plan`, the last `LatentPlan` (None: uniform actions), `group` [H] of [S], which group the plan
    sees in every state, and `from_arrays`, which a fresh state turns a checkpoint into a state with.
    aim: the tail that is planned for, if it is not tau (1: the mean).
    """

    kind: ClassVar[str] = COUNTABLE
    outputs: ClassVar[tuple[str, ...]] = ("best", "uniform", "greedy")
    stored: ClassVar[bool] = True
    foresees: ClassVar[bool] = False
    aim: float | None = fixed(None)

    def prepared(self, env: CountableEnv, streams: Streams, total: int | None) -> Self:
        """Itself."""
        return self

    def sees_groups(self, env: CountableEnv) -> bool:
        """Whether plans are on the environment's groups, or on single states."""
        return False

    @abstractmethod
    def init(self, env: CountableEnv, streams: Streams) -> Any:
        """The state before the first iteration."""

    @abstractmethod
    def step(self, state: Any, env: CountableEnv, streams: Streams) -> tuple[Any, Info]:
        """One iteration."""

    def greedy(self, state: Any, env: CountableEnv, streams: Streams) -> LatentPlan:
        """What the learner believes to be best, without bonus: the last plan, if there is no bonus in it."""
        plan: LatentPlan | None = state.plan
        if plan is None:
            raise InputError("state: no iteration has been run, there is no model to plan in")
        return plan

    def taught(self, state: Any, moves: Iterable[Transitions], env: CountableEnv, streams: Streams) -> Any:
        """The state after these moves too, to plan in and not to go on from; None where it learns nothing from them."""
        return None

    def score(self, returns: np.ndarray) -> float:
        """What a sample of returns [n] is worth to whoever plans: the CVaR at `aim` or tau, or the objective."""
        return super().score(returns) if self.aim is None else cvar(returns, self.aim)

    def policy(self, state: Any, env: CountableEnv, streams: Streams) -> Policy:
        """The greedy plan as a policy on states; uniform actions before the first iteration."""
        if state.k == 0:
            return UniformPolicy(env.n_actions, env.horizon, streams.planner(0))
        return Decoded(self.greedy(state, env, streams).policy(env.rewards), state.group)

    def restored(self, arrays: dict[str, np.ndarray], env: CountableEnv, streams: Streams) -> Any:
        """The state in a checkpoint."""
        return self.init(env, streams).from_arrays(arrays)

    def episodes_each(self, horizon: int) -> int:
        """Episodes of a collection."""
        return 1


@dataclass(frozen=True)
class SimulatorLearner(Tail, ABC):
    """The base of learners on simulators.

    total: the episodes that will be played in all, for schedules that end with them; a run fills it in.
    keeps_episodes: whether its state has a `replay`, which is stored beside the checkpoint (see `runs/job.py`).
    refines: whether it can begin with a part of the actions (`envs/action_grid.py`).
    """

    kind: ClassVar[str] = SIMULATOR
    outputs: ClassVar[tuple[str, ...]] = ()
    stored: ClassVar[bool] = True
    foresees: ClassVar[bool] = False
    keeps_episodes: ClassVar[bool] = False
    refines: ClassVar[bool] = False
    total: int | None = fixed(None)

    def prepared(self, env: Simulator, streams: Streams, total: int | None) -> Self:
        """Itself with the number of episodes that will be played."""
        if getattr(env, "grid", None) is not None and not self.refines:
            raise InputError(f"refine: {type(self).__name__} does not refine actions; kernel and auto do")
        return replace(self, total=total)

    @abstractmethod
    def init(self, env: Simulator, streams: Streams) -> Any:
        """The state before the first iteration."""

    @abstractmethod
    def step(self, state: Any, env: Simulator, streams: Streams) -> tuple[Any, Any]:
        """One iteration."""

    @abstractmethod
    def policy(self, state: Any, env: Simulator, streams: Streams) -> Policy:
        """The policy as it would be returned now."""

    @abstractmethod
    def restored(self, arrays: dict[str, np.ndarray], env: Simulator, streams: Streams) -> Any:
        """The state in a checkpoint, given what `to_arrays` of the state gave."""

    def choose(self, state: Any, env: Simulator, streams: Streams, rule: str, episodes: int) -> ReturnedPolicy:
        """What a run returns by an output rule of `outputs`, with so many more episodes: the last policy."""
        return ReturnedPolicy(self.policy(state, env, streams), "the last policy", "it is what the rival returns")

    def neutral(self, state: Any, env: Simulator) -> Policy | None:
        """What it would play for the mean alone, to be set beside its policy; None where it has no such plan."""
        return None

    def episodes_each(self, horizon: int) -> int:
        """Episodes an iteration."""
        return 1


def mean_return(returns: np.ndarray) -> dict[str, float]:
    """Columns of a row: the mean of returns [n], with a 95% interval (Student's t) where there are enough of them."""
    n, mean = returns.size, float(returns.mean()) if returns.size else np.nan
    if n < FEWEST_RETURNS:
        return {"return": mean}
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, 0.975) * returns.std(ddof=1) / np.sqrt(n))
    return {"return": mean, "return_low": mean - half, "return_high": mean + half}


@dataclass(frozen=True)
class PlayedInfo:
    """The CVaR and the mean of the returns of the episodes of an iteration."""

    cvar: float
    mean: float

    @classmethod
    def of(cls, returns: np.ndarray, tau: float) -> PlayedInfo:
        """Of returns [n]."""
        return cls(cvar(returns, tau), float(returns.mean()))

    def row(self) -> dict[str, Any]:
        """The columns of a row."""
        return {"return": self.mean, "objective": self.cvar}


def single_states(env: CountableEnv) -> tuple[np.ndarray, ...]:
    """Every state its own group, [H] of [S]."""
    return (np.arange(env.n_states),) * env.horizon


def promised(plan: LatentPlan, env: CountableEnv) -> float:
    """The objective of a plan in the units of the rewards."""
    return float(env.rewards.grid.value(0)) + plan.objective * float(env.rewards.grid.unit)
