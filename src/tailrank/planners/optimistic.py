"""Optimistic value iteration in the budget-augmented MDP, with values kept in the range that they can have.

    W(g', c) = sum_x r_h(x | g, a) V_{h+1}(g', max(c - x, 0))       for each reward law
    Q_h(g, c, a) = E_{g' ~ P(. | g, a)} W(g', c) - b_h(g, c, a)
    V_h(g, c) = min_a Q_h(g, c, a), clipped to [0, c],  V_H(g, c) = c

`plan_clipped` takes bonuses [G, A] (CVaR-UCBVI with the Hoeffding bonus). `plan_bernstein` makes them from the spread
of W, and keeps a second, pessimistic value V^ >= V for what the spread itself may be wrong by (see there).
Models are tables or rows (`StepModel`, `EmpiricalStep`): all that is asked of them is an expectation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tailrank.bellman import action_type
from tailrank.planners.latent import LatentPlan
from tailrank.problem import Problem

Planner = Callable[[Problem, list[np.ndarray], np.random.Generator], LatentPlan]


def plan_clipped(problem: Problem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
    """The plan with bonuses [G, A] of every step (on the scale where a step pays at most 1)."""
    top = problem.rewards.top

    def q_of(h: int, values: np.ndarray) -> np.ndarray:
        return after_rewards(problem, h, expectation(problem, h, values)) - top * bonus[h].reshape(-1, 1)

    return backward(problem, q_of)


def backward(problem: Problem, q_of: Callable[[int, np.ndarray], np.ndarray]) -> LatentPlan:
    """The plan for Q_h [G A, C] = q_of(h, V_{h+1} [G', C]): the lowest Q everywhere, the best budget at the start."""
    budgets = np.arange(problem.rewards.n_budgets, dtype=np.float64)
    values, actions = budgets[None, :], []
    for h in reversed(range(problem.horizon)):
        chosen, values = lowest(problem, h, q_of(h, values))
        values = np.clip(values, 0.0, budgets)
        actions.append(chosen)
    return best_start(problem, actions, values)


def lowest(problem: Problem, h: int, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first action with the lowest Q [G A, C], [G, C], and its value, [G, C]."""
    table = q.reshape(*problem.law_of[h].shape, -1)
    chosen = table.argmin(axis=1)
    return chosen.astype(action_type(table.shape[1])), taken(table, chosen)


def taken(table: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The values [G, C] of the chosen actions [G, C] in a table [G, A, C]."""
    return np.take_along_axis(table, chosen[:, None, :].astype(np.int64), axis=1)[:, 0]


def best_start(problem: Problem, actions: list[np.ndarray], values: np.ndarray) -> LatentPlan:
    """The plan with these actions (last step first) and the budget that promises most."""
    curve = values[problem.start]
    objective = np.arange(curve.size) - curve / problem.tau
    best = int(np.argmax(objective >= objective.max() - 1e-11 * curve.size))
    return LatentPlan(tuple(reversed(actions)), best, float(objective[best]), curve)


def expectation(problem: Problem, h: int, table: np.ndarray) -> np.ndarray:
    """E of table [G', C] after every pair of step h, [G A, C]; after the last step nothing matters: it has one row."""
    if h == problem.horizon - 1:
        return np.broadcast_to(table[:1], (problem.law_of[h].size, table.shape[1]))
    return np.asarray(problem.model.steps[h].expect(table))


def after_rewards(problem: Problem, h: int, table: np.ndarray) -> np.ndarray:
    """sum_x r_h(x | g, a) table[g A + a, max(c - x, 0)] of a table [G A, C], each pair with its own law."""
    law_of, result = problem.law_of[h].ravel(), np.empty_like(table)
    for law in np.unique(law_of):
        pairs = law_of == law
        result[pairs] = after_reward(table[pairs], problem.rewards.laws[law])
    return result


def after_reward(table: np.ndarray, law: np.ndarray) -> np.ndarray:
    """sum_x law[x] table[., max(c - x, 0)] of a table [n, C]."""
    result = np.zeros_like(table)
    for x in np.flatnonzero(law):
        result[:, x:] += law[x] * table[:, : table.shape[1] - x]
        result[:, :x] += law[x] * table[:, :1]
    return result


def bernstein_planner(scale: float) -> Planner:
    """A planner whose bonus, for x = L / N (its argument `bonus`), is `scale` times

        sqrt(2 x Var W) + sqrt(2 x E (W^ - W)^2) + x R

    where W^ comes from the pessimistic values V^ as W from V, expectation and variance are over the next group in the
    model, and R is the most that can be earned after the step. V^ adds the bonus that V takes off.
    """

    def plan(problem: Problem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
        budgets = np.arange(problem.rewards.n_budgets, dtype=np.float64)
        low = high = budgets[None, :]
        actions = []
        for h in reversed(range(problem.horizon)):
            x = bonus[h].reshape(-1, 1)
            mean, worst, spread = _moments(problem, h, low, high, x)
            paid = scale * (spread + x * problem.left[h + 1])
            chosen, value = lowest(problem, h, mean - paid)
            actions.append(chosen)
            low = np.clip(value, 0.0, budgets)
            high = np.clip(taken((worst + paid).reshape(*bonus[h].shape, -1), chosen), 0.0, budgets)
        return best_start(problem, actions, low)

    return plan


def _moments(
    problem: Problem, h: int, low: np.ndarray, high: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E W, E W^ and sqrt(2 x Var W) + sqrt(2 x E (W^ - W)^2) of every pair, [G A, C] each."""
    law_of = problem.law_of[h].ravel()
    mean, worst, spread = (np.zeros((law_of.size, low.shape[1])) for _ in range(3))
    for law in np.unique(law_of):
        pairs = law_of == law
        w, up = (after_reward(values, problem.rewards.laws[law]) for values in (low, high))
        mean[pairs], worst[pairs] = (expectation(problem, h, table)[pairs] for table in (w, up))
        if x[pairs].any():
            variance = np.maximum(expectation(problem, h, w * w)[pairs] - mean[pairs] ** 2, 0.0)
            doubt = expectation(problem, h, (up - w) ** 2)[pairs]
            spread[pairs] = np.sqrt(2.0 * x[pairs]) * (np.sqrt(variance) + np.sqrt(doubt))
    return mean, worst, spread
