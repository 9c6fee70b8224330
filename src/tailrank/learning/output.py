"""Which plan a learner returns (erratum 5 in docs/paper_notes.md).

- "best" (default): a few iterates, drawn before the run as the paper draws one, and the plan without bonus of
  the last model are played for fresh episodes. What they show is learned, too: if the model then has another plan, that
  is played, and so on, a few times. The plan with the best objective (CVaR) in its fresh episodes is returned, with
  a bound.
- "uniform": the paper's rule, one iterate drawn uniformly. - "greedy": the last model's plan without bonus.

A model may take a crash that it has met too seldom for rarer than it is, and at a tau near the chance of that crash its
best plan is then one that crashes. That is found out by playing it, and once it is known the plan is another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailrank import checks
from tailrank._system.telling import doing
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.rollout import Transitions, walk
from tailrank.episodes.streams import Streams
from tailrank.learning.playing import PlayedPlan
from tailrank.learning.protocol import CountableLearner, ReturnedPolicy
from tailrank.planning.evaluate import return_range
from tailrank.planning.latent.planner import LatentPlan
from tailrank.risk.intervals import dkw_bounds, law_bounds

WHY = {
    "best": "the highest CVaR in fresh episodes",
    "uniform": "drawn uniformly among the iterates",
    "greedy": "the last model's plan without bonus",
}
RULES = tuple(WHY)
ROUNDS = 5
"""Plans of the last model that are played, at most."""


@dataclass(frozen=True)
class OutputRule:
    """A rule by name; `episodes` fresh episodes judge each candidate of "best"."""

    name: str = "best"
    episodes: int = 1000
    delta: float = 0.1

    def __post_init__(self) -> None:
        checks.one_of(self.name, "output", RULES)
        checks.whole(self.episodes, "output episodes")

    def drawn(self, iterations: int, streams: Streams, earlier: bool = False) -> list[int]:
        """The iterations whose plans must be kept, each drawn uniformly among all.

        Iteration k takes a place with probability 1 / k, whoever had it before. So the last one that did is uniform
        however long the run is, and a run that goes on needs no plan that it did not keep. earlier: as 0.1 drew them.
        """
        if self.name == "greedy":
            return []
        n = 1 if self.name == "uniform" else math.ceil(math.log2(2 / self.delta))
        if earlier:
            return sorted({int(k) for k in streams.output(0).integers(1, iterations + 1, size=n)})
        number = np.arange(1, iterations + 1)
        takes = streams.output(0).random((iterations, n)) * number[:, None] < 1.0
        return sorted({int(number[column].max()) for column in takes.T})

    def choose(
        self, learner: CountableLearner, env: CountableEnv, state: Any, kept: dict[int, LatentPlan], streams: Streams
    ) -> ReturnedPolicy:
        """The plan to return, and where it comes from."""
        why = WHY[self.name]
        if self.name == "uniform":
            k = min(kept)
            return ReturnedPolicy(kept[k], f"iterate {k}", why)
        greedy = learner.greedy(state, env, streams)
        if self.name == "greedy":
            return ReturnedPolicy(greedy, "greedy", why)
        played = self._played(learner, env, state, greedy, streams)
        for i, (k, plan) in enumerate(sorted(kept.items())):
            with doing(f"judging iterate {i + 1} of {len(kept)}"):
                returns = play_plan(env, plan, state.group, self.episodes, streams.evaluation(state.k, ROUNDS + i))
            played.append((f"iterate {k}", plan, returns))
        name, plan, returns = max(played, key=lambda one: learner.score(one[2]))
        sure = 1 - self.delta / (ROUNDS + len(kept))  # as many as there could have been
        bounds: Any = return_range(env) or (-np.inf, np.inf)
        if learner.goal.tail:
            lower, _ = dkw_bounds(returns, learner.tau, sure, bounds)
        else:
            lower, _ = law_bounds(returns, learner.measure.of, sure, bounds)
            why = f"the highest {learner.goal.said_as} in fresh episodes"
        bound = f"at least {lower:.4g} with confidence {1 - self.delta:g} over all {len(played)} candidates"
        return ReturnedPolicy(plan, f"{name}, {bound}", why)

    def _played(
        self, learner: CountableLearner, env: CountableEnv, state: Any, plan: LatentPlan, streams: Streams
    ) -> list[tuple[str, LatentPlan, np.ndarray]]:
        """The plan of the last model and those that its own episodes lead to: names, plans, and returns [n] of each."""
        found = list[tuple[str, LatentPlan, np.ndarray]]()
        for i in range(ROUNDS):
            policy, rng = PlayedPlan.of(plan, env, state.group), streams.evaluation(state.k, i)
            with doing("judging the plan of the last model"):
                moves = list(walk(policy, env, self.episodes, rng))
            name = f"greedy after {i * self.episodes} more episodes" if i else "greedy"
            found.append((name, plan, returns_of(moves, env)))
            state = learner.taught(state, moves, env, streams)
            if state is None:
                break
            following = learner.greedy(state, env, streams)
            if following.same(plan):
                break
            plan = following
        return found


def returns_of(moves: Iterable[Transitions], env: CountableEnv) -> np.ndarray:
    """Returns [n] of n episodes that were played side by side to the end."""
    return np.asarray(sum(move.rewards * env.rewards.grid.discount**move.h for move in moves))


def play_plan(
    env: CountableEnv, plan: LatentPlan, group: tuple[np.ndarray, ...], episodes: int, rng: np.random.Generator
) -> np.ndarray:
    """Returns [n] of fresh episodes of a plan."""
    return returns_of(walk(PlayedPlan.of(plan, env, group), env, episodes, rng), env)


@dataclass
class Iterates:
    """The plans of a run that must not be forgotten: those that the rule drew, and the best by its exact value."""

    drawn: frozenset[int]
    kept: dict[int, LatentPlan] = field(default_factory=dict)
    best: tuple[float, LatentPlan] | None = None

    def see(self, k: int, plan: LatentPlan, value: float) -> None:
        """The plan of iteration k and what it is worth."""
        if k in self.drawn:
            self.kept[k] = plan
        if self.best is None or value > self.best[0]:
            self.best = value, plan

    def missing(self, k: int) -> list[int]:
        """Those that were drawn among the first k iterations and not kept, because another rule was in force."""
        return sorted(drawn for drawn in self.drawn if drawn <= k and drawn not in self.kept)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        arrays: dict[str, np.ndarray] = {}
        for k, plan in self.kept.items():
            arrays |= plan.to_arrays(f"kept.{k}")
        if self.best is not None:
            arrays |= {"best.cvar": np.array([self.best[0]])} | self.best[1].to_arrays("best")
        return arrays

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take the plans out of a checkpoint."""
        numbers = sorted({int(key.split(".")[1]) for key in arrays if key.startswith("kept.")})
        self.kept = {k: LatentPlan.from_arrays(arrays, f"kept.{k}") for k in numbers if k in self.drawn}
        if "best.cvar" in arrays:
            self.best = float(arrays["best.cvar"][0]), LatentPlan.from_arrays(arrays, "best")
