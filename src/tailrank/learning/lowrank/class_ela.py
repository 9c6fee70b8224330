"""Algorithm 1 on a function class: members (phi, psi) are functions of raw states, |F| is their number.

Iteration k (docs/theory.md has the lines of the print): collect with the last policy, score every member on what is
new, take the most likely one of each step, make the bonus from D under its phi, plan on the next states seen.
Scores add up, so an iteration evaluates every member only on its own transitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from tailrank import checks
from tailrank._system.settings import changed, fixed, part, setting
from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.ela.settings import Collecting
from tailrank.learning.lowrank.class_planning import ChosenModel, ClassPolicy, bonus_of, policy_in
from tailrank.learning.lowrank.collection import collected, printed_starts, rolled_in
from tailrank.learning.lowrank.function_class import FunctionClass, KnownRewards
from tailrank.learning.protocol import ReturnedPolicy, SimulatorLearner
from tailrank.learning.schedule import Schedule
from tailrank.learning.simulators.played import PlayedEpisodes, PlayedTransitions
from tailrank.policies.tables import Policy, UniformPolicy
from tailrank.risk.law import cvar


@dataclass(frozen=True)
class ClassState:
    """k iterations, what was played, scores [H - 1, F] of the members, and the last policy."""

    k: int
    played: PlayedEpisodes
    scores: np.ndarray
    policy: Policy

    @property
    def episodes(self) -> int:
        """Episodes played."""
        return self.played.n

    @property
    def steps(self) -> int:
        """Steps played."""
        return self.played.steps

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint; the policy follows from the rest."""
        return self.played.to_arrays() | {"job.k": np.array([self.k]), "scores": self.scores}


@dataclass(frozen=True)
class ClassInfo:
    """What happened in an iteration: returns [n] of its whole episodes (those of the print are cut and have none), the
    plan's promise with its bonus, the member of each step, and their log-likelihood."""

    returns: np.ndarray
    objective: float
    chosen: tuple[int, ...]
    log_likelihood: float

    def row(self) -> dict[str, Any]:
        """The columns of a row."""
        return {
            "return": float(self.returns.mean()) if self.returns.size else np.nan,
            "objective": self.objective,
            "log_likelihood": self.log_likelihood,
            "members": " ".join(map(str, self.chosen)),
        }


@dataclass(frozen=True)
class FunctionClassELA(SimulatorLearner):
    """ELA (Algorithm 1) on a finite class of functions (phi, psi) of raw states.

    members: pairs of functions (see `function_class.py`), rewards: their laws (default: those that the simulator
    tells; there is nothing that learns them here). ends: the last kind of phi is the end of an episode. To train it by
    name (`--algorithm package:Class`), derive a class whose `members` are its own.
    """

    outputs: ClassVar[tuple[str, ...]] = ("best", "greedy")
    members: Any = fixed(())
    rewards: KnownRewards | None = fixed(None)
    schedule: Schedule = part(Schedule())
    collect: Literal["printed", "plan"] = setting(
        "printed",
        words=("printed", "plan"),
        metavar="printed|plan",
        help="H episodes that end in uniform actions, or whole episodes of the plan.",
    )
    share: bool = setting(False, kind=bool, help="One member for all steps.")
    ends: bool = setting(False, kind=bool, help="The last kind of phi is the end of an episode.")
    bonus: Literal["elliptical", "none"] = setting(
        "elliptical", words=("elliptical", "none"), metavar="elliptical|none", help="What the bonus measures."
    )
    batch: int = changed(Collecting, "batch", 1)
    growth: float = changed(Collecting, "growth", 0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        FunctionClass(self.members, self.ends)

    @property
    def function_class(self) -> FunctionClass:
        """F."""
        return FunctionClass(self.members, self.ends)

    def init(self, env: Simulator, streams: Streams) -> ClassState:
        """Nothing played; uniform actions. Where H is 1 nothing is learned: the known rewards are the model."""
        self._rewards(env)
        scores = np.zeros((env.horizon - 1, self.function_class.size))
        return ClassState(0, PlayedEpisodes.none(env.horizon, env.n_features), scores, self._uniform(env, streams))

    def step(self, state: ClassState, env: Simulator, streams: Streams) -> tuple[ClassState, ClassInfo]:
        """One iteration."""
        k, printed = state.k + 1, self.collect == "printed" and env.horizon > 1
        rounds = max(self.batch, round(self.growth * self._rounds(state.played)))
        first = printed_starts(env.horizon, rounds) if printed else None
        seeds, rng = streams.train_seeds(k, rounds * self.episodes_each(env.horizon)), streams.planner(k, 0)
        played, new = state.played, PlayedEpisodes.none(env.horizon, env.n_features)
        if self.ends and printed:
            batches = rolled_in(state.policy, env, seeds, rng)
        else:
            batches = collected(state.policy, env, seeds, first, rng, whole=not self.ends)
        for batch in batches:
            new = new.with_played(batch)
            played = played.with_played(batch)
        scores = state.scores + self.function_class.scores(self.data(new)[0], env.n_actions, env.horizon - 1)
        state = replace(state, k=k, played=played, scores=scores)
        policy = self._planned(state, env, streams, explore=self.bonus != "none")
        chosen = policy.model.chosen
        likelihood = float(scores[np.arange(len(chosen)), chosen].sum())
        returns = np.zeros(0) if printed else new.returns()
        return replace(state, policy=policy), ClassInfo(returns, policy.plan.objective, chosen, likelihood)

    def chosen(self, state: ClassState) -> tuple[int, ...]:
        """The most likely member of each step, [H - 1]; with `share` one for all."""
        scores = np.tile(state.scores.sum(axis=0), (len(state.scores), 1)) if self.share else state.scores
        return tuple(self.function_class.most_likely(row) for row in scores)

    def greedy(self, state: ClassState, env: Simulator, streams: Streams) -> ClassPolicy:
        """The best policy in the most likely model, without bonus."""
        return self._planned(state, env, streams, explore=False)

    def policy(self, state: ClassState, env: Simulator, streams: Streams) -> Policy:
        """The greedy policy; uniform actions before the first iteration."""
        return self.greedy(state, env, streams) if state.k else self._uniform(env, streams)

    def choose(self, state: ClassState, env: Simulator, streams: Streams, rule: str, episodes: int) -> ReturnedPolicy:
        """The greedy plan, or ("best") the last iterate where it has a higher CVaR in so many fresh episodes each."""
        greedy = self.greedy(state, env, streams)
        if rule != "best":
            return ReturnedPolicy(greedy, "greedy", "the last model's plan without bonus")
        seeds = streams.train_seeds(state.k + 1, episodes)
        candidates: dict[str, Policy] = {"greedy": greedy, f"iterate {state.k}": state.policy}
        scores = {name: cvar(play_simulator(one, env, seeds).returns, self.tau) for name, one in candidates.items()}
        best = max(scores, key=lambda name: scores[name])
        why = f"the highest CVaR of {len(scores)} candidates in {episodes} more episodes each"
        return ReturnedPolicy(candidates[best], best, why, {"scores": scores})

    def restored(self, arrays: dict[str, np.ndarray], env: Simulator, streams: Streams) -> ClassState:
        """The state in a checkpoint, with its policy made again."""
        fresh = self.init(env, streams)
        k, scores = checks.whole(arrays["job.k"][0], "job.k", least=0), np.asarray(arrays["scores"], dtype=np.float64)
        if scores.shape != fresh.scores.shape:
            raise InputError(f"scores: must have shape {list(fresh.scores.shape)}, found {list(scores.shape)}")
        state = replace(fresh, k=k, played=fresh.played.from_arrays(arrays), scores=scores)
        return replace(state, policy=self._planned(state, env, streams, self.bonus != "none")) if k else state

    def episodes_each(self, horizon: int) -> int:
        """Episodes of a collection."""
        return horizon if self.collect == "printed" else 1

    def data(self, played: PlayedEpisodes) -> tuple[PlayedTransitions, np.ndarray]:
        """The transitions [T] of D and D~, and which of them are in D. As printed: nothing of a roll-in is in either.

        Of whole episodes all transitions are in D. That of the last step, after which nothing is decided, never is.
        """
        seen = played.transitions(played.steps, np.random.default_rng(0))  # all of them: nothing is drawn
        seen = seen.where(seen.step < played.horizon - 1)
        if self.collect == "plan":
            return seen, np.ones(seen.n, dtype=bool)
        first = seen.episode % played.horizon - 1
        used = (seen.step >= first) & (seen.step <= first + 1)
        return seen.where(used), (seen.step == first)[used]

    def _planned(self, state: ClassState, env: Simulator, streams: Streams, explore: bool) -> ClassPolicy:
        model = ChosenModel(self.function_class, self.chosen(state), self._rewards(env), env.n_actions)
        seen, in_d = self.data(state.played)
        bonus = None
        if explore and env.horizon > 1:
            bonus = bonus_of(model, seen.where(in_d), self.schedule, self._rounds(state.played))
        return policy_in(model, seen, state.played.first, self.tau, bonus, streams.planner(state.k, 1))

    def _rounds(self, played: PlayedEpisodes) -> int:
        return played.n // self.episodes_each(played.horizon)

    def _rewards(self, env: Simulator) -> KnownRewards:
        return KnownRewards.of(env) if self.rewards is None else self.rewards

    def _uniform(self, env: Simulator, streams: Streams) -> UniformPolicy:
        return UniformPolicy(env.n_actions, env.horizon, streams.planner(0))
