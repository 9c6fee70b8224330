"""Which plan a learner returns (erratum 5 in docs/paper_notes.md).

- "best" (default): a few iterates, drawn before the run as the paper draws one, and the plan without bonus of
  the last model are played for fresh episodes; the one with the highest CVaR there is returned, with a bound.
- "uniform": the paper's rule, one iterate drawn uniformly. - "greedy": the last model's plan without bonus.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tailrank import checks
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.streams import Streams
from tailrank.learning.protocol import Learner, LearnerState
from tailrank.planning.evaluate import return_range
from tailrank.planning.latent.planner import LatentPlan
from tailrank.risk.intervals import dkw_bounds
from tailrank.risk.law import cvar

RULES = ("best", "uniform", "greedy")


@dataclass(frozen=True)
class OutputRule:
    """A rule by name; `episodes` fresh episodes judge each candidate of "best"."""

    name: str = "best"
    episodes: int = 1000
    delta: float = 0.1

    def __post_init__(self) -> None:
        checks.one_of(self.name, "output", RULES)
        checks.whole(self.episodes, "output episodes")

    def drawn(self, iterations: int, streams: Streams) -> list[int]:
        """The iterations whose plans must be kept."""
        if self.name == "greedy":
            return []
        n = 1 if self.name == "uniform" else math.ceil(math.log2(2 / self.delta))
        return sorted({int(k) for k in streams.output(0).integers(1, iterations + 1, size=n)})

    def choose(
        self, learner: Learner, env: CountableEnv, state: LearnerState, kept: dict[int, LatentPlan], streams: Streams
    ) -> tuple[LatentPlan, str]:
        """The plan to return, and where it comes from."""
        if self.name == "uniform":
            k = min(kept)
            return kept[k], f"iterate {k}"
        candidates = [("greedy", learner.greedy(state, env, streams))]
        if self.name == "best":
            candidates += [(f"iterate {k}", plan) for k, plan in sorted(kept.items())]
        if len(candidates) == 1:
            return candidates[0][1], candidates[0][0]
        played = [
            play_plan(env, plan, state.group, self.episodes, streams.evaluation(state.k, i))
            for i, (_, plan) in enumerate(candidates)
        ]
        best = int(np.argmax([cvar(returns, learner.aim or learner.tau) for returns in played]))
        bounds = return_range(env) or (-np.inf, np.inf)
        lower, _ = dkw_bounds(played[best], learner.tau, 1 - self.delta / len(candidates), bounds)  # type: ignore[arg-type]
        bound = f"at least {lower:.4g} with confidence {1 - self.delta:g} over all {len(candidates)} candidates"
        return candidates[best][1], f"{candidates[best][0]}, {bound}"


def play_plan(
    env: CountableEnv, plan: LatentPlan, group: tuple[np.ndarray, ...], episodes: int, rng: np.random.Generator
) -> np.ndarray:
    """Returns [n] of fresh episodes of a plan."""
    states = env.reset(episodes, rng)
    budgets = np.full(episodes, plan.budget, dtype=np.int64)
    total = np.zeros(episodes)
    for h in range(env.horizon):
        actions = plan.act(h, group[h][states], budgets)
        reward, states = env.step(h, states, actions, rng)
        total += reward * env.rewards.grid.discount**h
        budgets = env.rewards.charge(h, reward, budgets)
    return total
