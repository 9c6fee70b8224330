"""The optimistic learner of Bastani, Ma, Shen and Xu (2022) for risk-sensitive objectives, at the CVaR.

The empirical law of every (state, action) is made optimistic in the sense of stochastic dominance: each of its
probabilities is lowered by

    eps = c sqrt(L / (2 N)),   L = log(S A H k / delta)

(never below zero), and what they lose goes to a state s_inf in which the largest reward is paid at every step that is
left. With probability 1 - delta no policy earns less there than in the true MDP, whatever monotone objective is used.
A pair that was never tried leads to s_inf. One episode of the last plan is played between two plans.

Departures: the rewards are known here (the paper also shifts their estimated laws), the largest reward is that of the
known laws at each step, and k stands for the final number of episodes in L. c is `alpha_scale`, 1 in the theory, at
which the bonus vanishes only after of the order of S^2 visits of every pair: that is the S^{3/2} of its regret bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank._system.settings import fixed
from tailrank.learning.aim import CVAR, Aim
from tailrank.learning.ela.bonus import BonusRule, per_visit
from tailrank.learning.ela.parts import Planner
from tailrank.learning.rivals.states.cvar_ucbvi import Tabular
from tailrank.models.lowrank import EmpiricalStep
from tailrank.models.problem import PlanningProblem
from tailrank.planning.latent.optimistic import ModelRows, plan_clipped, plan_rows
from tailrank.planning.latent.planner import LatentPlan


def plan_optimistic(problem: PlanningProblem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
    """The plan of the shifted laws; without bonus that of the empirical ones."""
    if not any(width.any() for width in bonus):
        return plan_clipped(problem, bonus, rng)
    return plan_shifted(problem, [np.sqrt(width / 2.0) for width in bonus])


@dataclass(frozen=True)
class Bastani(Tabular):
    """The optimistic learner of Bastani et al. (2022); `alpha_scale` is c."""

    goal: Aim = fixed(CVAR)
    planner: Planner = plan_optimistic
    bonus: BonusRule = per_visit


def plan_shifted(problem: PlanningProblem, eps: list[np.ndarray]) -> LatentPlan:
    """The plan where every probability is lowered by eps [G, A] of its pair, and s_inf gets the rest."""
    budgets, left, H = np.arange(problem.rewards.n_budgets, dtype=np.float64), problem.left, problem.horizon
    rows = [lowered(problem.model.steps[h], eps[h]) for h in range(H - 1)]
    at_best = [np.maximum(budgets - left[h + 1], 0.0) for h in range(H)]
    return plan_rows(problem, [*rows, ModelRows.of(problem, H - 1)], lambda h, table: at_best[h], problem.no_bonus)


def lowered(step: EmpiricalStep, eps: np.ndarray) -> ModelRows:
    """The step with lowered probabilities; its `rest` is what each pair lost (1 where it was never tried)."""
    pair = step.pair
    prob = np.maximum(step.prob - eps.ravel()[pair], 0.0)
    kept = np.bincount(pair, weights=prob, minlength=eps.size)
    return ModelRows(step.first, step.after, prob, 1.0 - kept)
