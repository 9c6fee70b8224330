"""The two ways to judge what was learned: exactly in the true MDP, or by fresh episodes with an interval.

Regret is the paper's: the sum over k of CVaR* - CVaR(R(pi^k, c^k)), of the plans, not of the episodes that were played
to learn (they end in uniform actions). It needs the exact judge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailrank.envs.built_in.single_states import raw_model, raw_truth
from tailrank.envs.protocols import CountableEnv, Simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.protocol import CountableLearner, SimulatorLearner
from tailrank.models.lowrank import LowRankModel
from tailrank.models.mdp import FiniteMDP
from tailrank.models.rewards import dependence
from tailrank.planning.exact.return_law import Evaluation, return_law
from tailrank.planning.latent.planner import LatentPlan, law_of_plan
from tailrank.planning.solve import solve
from tailrank.policies.tables import BudgetPolicy, Policy
from tailrank.risk.intervals import cvar_interval
from tailrank.risk.law import ReturnLaw, cvar

QUICK_PAIRS = 20_000
"""Pairs up to which it is checked that rewards and next states are independent."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class ExactJudge:
    """Evaluates plans exactly in the true MDP of the environment. `star` is CVaR*.

    `quick` says that the environment's own model with its reward laws is the truth, so that the law of a plan can be
    pushed through its latents, which is far cheaper than through the rows of the MDP, and as cheap for plans on
    single states (`groups` false) as their number allows.
    """

    tau: float
    env: CountableEnv
    groups: bool
    star: float
    quick: bool

    @classmethod
    def of(cls, learner: CountableLearner, env: CountableEnv) -> ExactJudge:
        """The judge of a learner's plans; `star` comes from the exact planner."""
        quick = _on_grid(env) and env.truth.ptr.size <= QUICK_PAIRS and dependence(env.truth) < 1e-12
        return cls(learner.tau, env, learner.sees_groups(env), solve(env.truth, tau=learner.tau).cvar, quick)

    @cached_property
    def truth(self) -> FiniteMDP:
        """The true MDP of what plans see."""
        return self.env.truth if self.groups else raw_truth(self.env)

    @cached_property
    def model(self) -> tuple[LowRankModel, tuple[np.ndarray, ...], int]:
        """The true model of what plans see, the reward law of each pair, and the first group."""
        env = self.env
        if self.groups:
            return env.model, env.reward_of, int(env.group[0][env.start])
        return raw_model(env), tuple(env.reward_of[h][env.group[h]] for h in range(env.horizon)), env.start

    @property
    def labels(self) -> tuple[object, ...]:
        """The names of what plans see."""
        return self.env.truth.labels if self.groups else tuple(range(self.env.n_states))

    def policy(self, plan: LatentPlan) -> BudgetPolicy:
        """The plan as a policy of the true MDP."""
        return plan.policy(self.env.rewards)

    def law(self, plan: LatentPlan) -> Evaluation:
        """The exact law of what the plan earns."""
        if self.quick and not self.groups:
            law = self._pushed(plan)
            return Evaluation(law, np.zeros(law.values.size), "lattice")
        return return_law(self.policy(plan), self.truth)

    def cvar(self, plan: LatentPlan | None) -> float | None:
        """The exact CVaR of the plan."""
        if plan is None:
            return None
        return (self._pushed(plan) if self.quick else self.law(plan)).cvar(self.tau)

    def row(self, learner: CountableLearner, state: Any, streams: Streams) -> dict[str, Any]:
        """The exact CVaR of the last plan."""
        return {"cvar": self.cvar(state.plan)}

    def verdict(self, plan: LatentPlan, k: int) -> dict[str, Any]:
        """The exact CVaR of a plan, and its mean."""
        law = self.law(plan)
        return {"cvar": law.cvar(self.tau), "mean": law.mean}

    def _pushed(self, plan: LatentPlan) -> ReturnLaw:
        model, law_of, start = self.model
        return law_of_plan(model, self.env.rewards, law_of, plan, start)


def _on_grid(env: CountableEnv) -> bool:
    """Whether the rewards of the true MDP are those of the learner's laws, not rounded versions of them."""
    grid, unit = env.rewards.grid, float(env.rewards.grid.unit)
    for h in range(env.horizon):
        reward = env.truth.scaled_rewards(h)
        off = reward - float(grid.origin[h]) - grid.units(h, reward) * unit
        if np.abs(off).max(initial=0.0) > 1e-9 * unit:
            return False
    return True


@dataclass(frozen=True)
class FreshJudge:
    """Judges policies on features by fresh episodes: odd seeds, which no training plays.

    every: iterations between two judgements (0: none before the end). episodes: of each.
    """

    tau: float
    env: Simulator
    streams: Streams
    episodes: int
    every: int = 0

    @cached_property
    def star(self) -> float | None:
        """The best CVaR, if the simulator knows it."""
        optimum = getattr(self.env, "optimum", None)
        return None if optimum is None else float(optimum(self.tau))

    def play(self, policy: Policy, key: int) -> np.ndarray:
        """Returns [n] of fresh episodes; the same key plays the same ones."""
        return play_simulator(policy, self.env, self.streams.evaluation_seeds(key, self.episodes)).returns

    def judged(self, returns: np.ndarray, k: int) -> dict[str, Any]:
        """CVaR of a sample with an interval: certain coverage where the range of returns is known."""
        bounds, rng = getattr(self.env, "return_range", None), self.streams.evaluation(k, 1)
        found = cvar_interval(returns, self.tau, CONFIDENCE, bounds, rng=rng)
        cvar_low, cvar_high = found.lower, found.upper
        return {"cvar": cvar(returns, self.tau), "cvar_low": cvar_low, "cvar_high": cvar_high, "method": found.method}

    def row(self, learner: SimulatorLearner, state: Any, streams: Streams) -> dict[str, Any]:
        """The CVaR of the policy so far, if it is time."""
        if not self.every or state.k % self.every:
            return {"cvar": None}
        return self.judged(self.play(learner.policy(state, self.env, streams), state.k), state.k)

    def verdict(self, policy: Policy, k: int) -> dict[str, Any]:
        """The CVaR of a policy with its interval and its mean; `returns` [n] are those it was judged by."""
        returns = self.play(policy, 0)
        return self.judged(returns, k) | {"mean": float(returns.mean()), "returns": returns}
