"""Which plan a learner returns (erratum 5 in docs/paper_notes.md).

- "best" (default): a few iterates, drawn before the run as the paper draws one, the plan without bonus of the last
  model, and the same plan begun with the budgets that it takes for half and for a quarter of the tail, are played for
  fresh episodes; the one with the highest CVaR there is returned, with a bound.
- "uniform": the paper's rule, one iterate drawn uniformly. - "greedy": the last model's plan without bonus.

The smaller tails are there because a model may take a crash that it has met too seldom for rarer than it is. At a tau
near the chance of that crash its best plan is then one that crashes. A smaller budget is the same plan with less to
hope for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailrank import checks
from tailrank._system.telling import doing
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.rollout import walk
from tailrank.episodes.streams import Streams
from tailrank.learning.playing import PlayedPlan
from tailrank.learning.protocol import CountableLearner, ReturnedPolicy
from tailrank.planning.evaluate import return_range
from tailrank.planning.latent.planner import LatentPlan
from tailrank.risk.intervals import dkw_bounds
from tailrank.risk.law import cvar

WHY = {
    "best": "the highest CVaR in fresh episodes",
    "uniform": "drawn uniformly among the iterates",
    "greedy": "the last model's plan without bonus",
}
RULES = tuple(WHY)
SMALLER = (2, 4)
"""Parts of the tail for which the last model's plan is tried, beside the tail itself."""


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
        candidates = [("greedy", learner.greedy(state, env, streams))]
        if self.name == "best":
            candidates += careful(candidates[0][1], learner.aim or learner.tau)
            candidates += [(f"iterate {k}", plan) for k, plan in sorted(kept.items())]
        if len(candidates) == 1:
            return ReturnedPolicy(candidates[0][1], candidates[0][0], why)
        played = []
        for i, (_, plan) in enumerate(candidates):
            with doing(f"judging candidate {i + 1} of {len(candidates)}"):
                played.append(play_plan(env, plan, state.group, self.episodes, streams.evaluation(state.k, i)))
        best = int(np.argmax([cvar(returns, learner.aim or learner.tau) for returns in played]))
        bounds = return_range(env) or (-np.inf, np.inf)
        lower, _ = dkw_bounds(played[best], learner.tau, 1 - self.delta / len(candidates), bounds)  # type: ignore[arg-type]
        bound = f"at least {lower:.4g} with confidence {1 - self.delta:g} over all {len(candidates)} candidates"
        return ReturnedPolicy(candidates[best][1], f"{candidates[best][0]}, {bound}", why)


def careful(plan: LatentPlan, tau: float) -> list[tuple[str, LatentPlan]]:
    """The same plan with the budgets for parts of the tail, as far as they are others; their names first.

    None where the plan does not know what every budget is worth, as those of CVaR-LSVI.
    """
    if plan.curve.size == 0 or (np.diff(plan.curve) < -1e-9 * plan.curve[-1]).any():
        return []
    found, budgets = list[tuple[str, LatentPlan]](), {plan.budget}
    for part in SMALLER:
        other = plan.at(tau / part)
        if other.budget not in budgets:
            budgets.add(other.budget)
            found.append((f"greedy for tau / {part}", other))
    return found


def play_plan(
    env: CountableEnv, plan: LatentPlan, group: tuple[np.ndarray, ...], episodes: int, rng: np.random.Generator
) -> np.ndarray:
    """Returns [n] of fresh episodes of a plan."""
    total = np.zeros(episodes)
    for move in walk(PlayedPlan.of(plan, env, group), env, episodes, rng):
        total += move.rewards * env.rewards.grid.discount**move.h
    return total


@dataclass
class Iterates:
    """The plans of a run that must not be forgotten: those that the rule drew, and the best by its exact CVaR."""

    drawn: frozenset[int]
    kept: dict[int, LatentPlan] = field(default_factory=dict)
    best: tuple[float, LatentPlan] | None = None

    def see(self, k: int, plan: LatentPlan, value: float) -> None:
        """The plan of iteration k and its CVaR."""
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
