"""The two ways to judge what was learned: exactly in the true MDP, or by fresh episodes with an interval.

Where the objective is not CVaR, rows have it as `value` beside CVaR, and regret is counted in it.

Regret is the paper's: the sum over k of CVaR* - CVaR(R(pi^k, c^k)), of the plans, not of the episodes that were played
to learn (they end in uniform actions). It needs the exact judge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.built_in.single_states import raw_model, raw_truth
from tailrank.envs.protocols import CountableEnv, Simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.protocol import CountableLearner, SimulatorLearner
from tailrank.models.lowrank import LowRankModel
from tailrank.models.mdp import FiniteMDP
from tailrank.models.rewards import dependence
from tailrank.planning.exact.return_law import Evaluation, return_law
from tailrank.planning.latent.planner import LatentPlan, law_of_plan, plan_latent
from tailrank.planning.objectives.judge import value_of_returns
from tailrank.planning.solve import solve
from tailrank.policies.tables import BudgetPolicy, Policy
from tailrank.risk.intervals import cvar_interval, law_bounds
from tailrank.risk.law import ReturnLaw, cvar
from tailrank.risk.measures.base import Measure

QUICK_PAIRS = 20_000
"""Pairs up to which it is checked that rewards and next states are independent."""
CONFIDENCE = 0.95
FINER = 50
"""How many times finer than the learner's grid is that on which CVaR* is bounded."""


@dataclass(frozen=True)
class ExactJudge:
    """Evaluates plans exactly in the true MDP of the environment. `star` is the best value of the objective, CVaR*.

    objective: the measure, None for CVaR.

    `quick` says that the environment's own model with its reward laws is the truth, so that the law of a plan can be
    pushed through its latents, which is far cheaper than through the rows of the MDP, and as cheap for plans on
    single states (`groups` false) as their number allows.

    Where rewards are not on the learner's grid (`Episodic.real`), what a plan earns is bounded from both sides and what
    counts is the lower bound; CVaR* lies between `star_low` and `star`.
    """

    tau: float
    env: CountableEnv
    groups: bool
    star: float
    quick: bool
    objective: Measure | None = None
    star_low: float | None = None

    @staticmethod
    def check(learner: CountableLearner, env: CountableEnv) -> None:
        """Raise where plans of the learner cannot be judged."""
        if getattr(env, "real", None) is not None and not learner.goal.tail:
            raise InputError(f"objective: {env.name} has rewards off a grid, where only the CVaR is judged")

    @classmethod
    def of(cls, learner: CountableLearner, env: CountableEnv) -> ExactJudge:
        """The judge of a learner's plans; `star` comes from the exact planner."""
        cls.check(learner, env)
        if getattr(env, "real", None) is not None:
            star_low, star = real_optimum(env, learner.tau)
            return cls(learner.tau, env, learner.sees_groups(env), star, False, star_low=star_low)
        quick = _on_grid(env) and env.truth.ptr.size <= QUICK_PAIRS and dependence(env.truth) < 1e-12
        objective = None if learner.goal.tail else learner.measure
        plan = solve(env.truth, tau=learner.tau, objective=objective)
        star = plan.cvar if objective is None else plan.value
        return cls(learner.tau, env, learner.sees_groups(env), star, quick, objective)

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
        """The exact law of what the plan earns, or bounds on it."""
        if self.star_low is not None:
            return return_law(self.policy(plan), self.env.real.mdp, listed_limit=0)  # type: ignore[attr-defined]
        if self.quick and not self.groups:
            law = self._pushed(plan)
            return Evaluation(law, np.zeros(law.values.size), "lattice")
        return return_law(self.policy(plan), self.truth)

    def cvar(self, plan: LatentPlan | None) -> float | None:
        """The exact CVaR of the plan, or a lower bound on it."""
        if plan is None:
            return None
        return (self._pushed(plan) if self.quick else self.law(plan)).cvar(self.tau)

    def row(self, learner: CountableLearner, state: Any, streams: Streams) -> dict[str, Any]:
        """The exact CVaR of the last plan, and its value where the objective is another."""
        if self.objective is None:
            return {"cvar": self.cvar(state.plan)}
        if state.plan is None:
            return {"cvar": None, "value": None}
        law = self._pushed(state.plan) if self.quick else self.law(state.plan).law
        return {"cvar": law.cvar(self.tau), "value": self.objective.of_law(law)}

    def verdict(self, plan: LatentPlan, k: int) -> dict[str, Any]:
        """The exact CVaR of a plan, or bounds on it, its mean, and its value where the objective is another."""
        law = self.law(plan)
        found = {"cvar": law.cvar(self.tau), "mean": law.mean}
        if self.star_low is not None:
            found |= {"cvar_upper": law.cvar_upper(self.tau), "cvar_star_lower": self.star_low}
        return found if self.objective is None else found | {"value": self.objective.of_law(law.law)}

    def _pushed(self, plan: LatentPlan) -> ReturnLaw:
        model, law_of, start = self.model
        return law_of_plan(model, self.env.rewards, law_of, plan, start)


def real_optimum(env: Any, tau: float) -> tuple[float, float]:
    """Bounds on CVaR* where rewards are not on the learner's grid: from its optimum on one `FINER` times as fine.

    Rewards rounded up are never less than the real ones, and by at most a unit a step more, which moves CVaR by at most
    H units (erratum 4).
    """
    rewards = env.real.laws.rounded_up(env.real.spacing / FINER)
    none = [np.zeros(law.shape) for law in env.reward_of]
    plan = plan_latent(env.model, rewards, tuple(rewards.which), none, tau, int(env.group[0][env.start]))
    upper, unit = float(rewards.grid.value(0)) + plan.objective * float(rewards.grid.unit), float(rewards.grid.unit)
    return upper - env.horizon * unit, upper


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
    objective: Measure | None = None

    @cached_property
    def star(self) -> float | None:
        """The best CVaR, if the simulator knows it; not that of other objectives."""
        if self.objective is not None:
            return None
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
        judged = {"cvar": cvar(returns, self.tau), "cvar_low": cvar_low, "cvar_high": cvar_high, "method": found.method}
        if self.objective is None:
            return judged
        law = ReturnLaw.of(returns)
        value, about = value_of_returns(self.objective, law, returns.size, CONFIDENCE, self.streams.evaluation(k, 2))
        low, high, method = about.lower, about.upper, about.method
        if bounds is not None:
            (low, high), method = law_bounds(returns, self.objective.of, CONFIDENCE, bounds), "dkw"
        return judged | {"value": value, "value_low": low, "value_high": high, "value_method": method}

    def row(self, learner: SimulatorLearner, state: Any, streams: Streams) -> dict[str, Any]:
        """The CVaR of the policy so far, if it is time."""
        if not self.every or state.k % self.every:
            return {"cvar": None}
        return self.judged(self.play(learner.policy(state, self.env, streams), state.k), state.k)

    def verdict(self, policy: Policy, k: int) -> dict[str, Any]:
        """The CVaR of a policy with its interval and its mean; `returns` [n] are those it was judged by."""
        returns = self.play(policy, 0)
        return self.judged(returns, k) | {"mean": float(returns.mean()), "returns": returns}
