"""Plans that look at the state alone, for criteria without a budget (the mean, the nested CVaR).

V_h(g) = max_a Q_h(g, a), clipped to [0, the most that can still be earned],  V_H = 0, in units
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tailrank.models.problem import PlanningProblem
from tailrank.planning.exact.induction import action_type
from tailrank.planning.latent.planner import LatentPlan


def plan_markov(problem: PlanningProblem, q_of: Callable[[int, np.ndarray], np.ndarray]) -> LatentPlan:
    """The plan for Q_h [G, A] = q_of(h, V_{h+1} [G']) (V_H has one entry): the largest Q, ties by what is not clipped.

    Its tables say the same for every budget, its objective is V_0 at the start, and its curve, which such a criterion
    does not have, is nan.
    """
    budgets, left = problem.rewards.n_budgets, problem.left
    values, actions = np.zeros(1), []
    for h in reversed(range(problem.horizon)):
        q = q_of(h, values)
        chosen = q.argmax(axis=1).astype(action_type(q.shape[1]))
        actions.append(np.repeat(chosen[:, None], budgets, axis=1))
        values = np.clip(q.max(axis=1), 0.0, left[h])
    return LatentPlan(tuple(reversed(actions)), budgets - 1, float(values[problem.start]), np.full(budgets, np.nan))
