"""Optimistic value iteration in the budget-augmented MDP, with values kept in the range that they can have.

    W(g', c) = sum_x r_h(x | g, a) V_{h+1}(g', max(c - x, 0))       for each reward law
    Q_h(g, c, a) = E_{g' ~ P(. | g, a)} W(g', c) - b_h(g, c, a)
    V_h(g, c) = min_a Q_h(g, c, a), clipped to [0, c],  V_H(g, c) = c

Other objectives have another V_H (`models/goal.py`); values are then clipped to what V_H is worth between the most that
can still be earned and nothing.

`plan_clipped` takes bonuses [G, A] (CVaR-UCBVI with the Hoeffding bonus). `plan_bernstein` makes them from the spread
of W, and keeps a second, pessimistic value V^ >= V for what the spread itself may be wrong by (see there).
Models are tables or rows (`StepModel`, `EmpiricalStep`): all that is asked of them is an expectation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailrank.models.lowrank import EmpiricalStep
from tailrank.models.problem import PlanningProblem
from tailrank.planning.exact.induction import action_type
from tailrank.planning.latent.planner import LatentPlan


@dataclass(frozen=True)
class ModelRows:
    """The laws of the pairs of one step as rows over columns: groups, or the latents of a low-rank step.

    Pair k owns rows first[k]:first[k + 1] of column [n] and prob [n]. rest [G A]: weight of the mean over the columns.
    """

    first: np.ndarray
    column: np.ndarray
    prob: np.ndarray
    rest: np.ndarray
    psi: np.ndarray | None = None

    @classmethod
    def of(cls, problem: PlanningProblem, h: int) -> ModelRows:
        """Those of step h; after the last one there is one column."""
        pairs = problem.law_of[h].size
        if h == problem.horizon - 1:
            return cls(np.arange(pairs + 1), np.zeros(pairs, dtype=np.int64), np.ones(pairs), np.zeros(pairs))
        step = problem.model.steps[h]
        if isinstance(step, EmpiricalStep):
            return cls(step.first, step.after, step.prob, (step.first[1:] == step.first[:-1]).astype(np.float64))
        d = step.psi.shape[0]
        return cls(np.arange(pairs + 1) * d, np.tile(np.arange(d), pairs), step.phi.ravel(), np.zeros(pairs), step.psi)

    def columns(self, table: np.ndarray) -> np.ndarray:
        """A table over next groups [.., G', C] as one over columns [.., n, C]."""
        return np.ascontiguousarray(table if self.psi is None else self.psi @ table)


def plan_clipped(problem: PlanningProblem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
    """The plan with bonuses [G, A] of every step (on the scale where a step pays at most 1)."""
    rows = [ModelRows.of(problem, h) for h in range(problem.horizon)]
    return plan_rows(problem, rows, lambda h, table: table.mean(axis=0), [problem.rewards.top * b for b in bonus])


def _last(problem: PlanningProblem) -> np.ndarray:
    """V_H(c), [1, C]."""
    if problem.goal is not None:
        return problem.goal.terminal[None]
    return np.arange(problem.rewards.n_budgets, dtype=np.float64)[None]


def _clip(problem: PlanningProblem, h: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value that step h can have at each budget, [C] each."""
    last = _last(problem)[0]
    if problem.goal is None:
        return np.zeros_like(last), last
    return last[np.maximum(np.arange(last.size) - problem.left[h], 0)], last


def plan_rows(
    problem: PlanningProblem,
    rows: list[ModelRows],
    rest_row: Callable[[int, np.ndarray], np.ndarray],
    bonus: list[np.ndarray],
) -> LatentPlan:
    """The plan for laws given as rows; what a law lacks is worth rest_row(h, V_{h+1}) [C]. bonus in units."""
    from tailrank.planning.latent._optimistic_kernels import rows_backup

    values, actions = _last(problem), []
    for h in reversed(range(problem.horizon)):
        own, (G, A) = rows[h], problem.law_of[h].shape
        now, chosen = np.empty((G, values.shape[1])), np.empty((G, values.shape[1]), dtype=action_type(A))
        rows_backup(
            own.first,
            own.column,
            own.prob,
            own.rest,
            rest_row(h, values),
            own.columns(values),
            problem.law_of[h],
            problem.rewards.laws,
            bonus[h],
            *_clip(problem, h),
            now,
            chosen,
        )
        values = now
        actions.append(chosen)
    return best_start(problem, actions, values)


def lowest(problem: PlanningProblem, h: int, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first action with the lowest Q [G A, C], [G, C], and its value, [G, C]."""
    table = q.reshape(*problem.law_of[h].shape, -1)
    return table.argmin(axis=1).astype(action_type(table.shape[1])), table.min(axis=1)


def best_start(problem: PlanningProblem, actions: list[np.ndarray], values: np.ndarray) -> LatentPlan:
    """The plan with these actions (last step first) and the budget that promises most."""
    return LatentPlan(tuple(reversed(actions)), 0, 0.0, values[problem.start]).towards(problem.goal, problem.tau)


def expectation(problem: PlanningProblem, h: int, table: np.ndarray) -> np.ndarray:
    """E of table [G', C] after every pair of step h, [G A, C]; after the last step nothing matters: it has one row."""
    if h == problem.horizon - 1:
        return np.broadcast_to(table[:1], (problem.law_of[h].size, table.shape[1]))
    return np.asarray(problem.model.steps[h].expect(table))


def after_rewards(problem: PlanningProblem, h: int, table: np.ndarray) -> np.ndarray:
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


def plan_bernstein(problem: PlanningProblem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
    """The plan whose bonus, for x and y of every step (`bonus`: [2, G, A], or x alone [G, A], which is y too), is

        sqrt(2 x Var W) + sqrt(2 x E (W^ - W)^2) + y R

    where W^ comes from the pessimistic values V^ as W from V, expectation and variance are over the next group in the
    model, and R is the most that can be earned after the step. V^ adds the bonus that V takes off.
    """
    from tailrank.planning.latent._optimistic_kernels import bernstein_backup

    low = high = _last(problem)
    actions: list[np.ndarray] = []
    for h in reversed(range(problem.horizon)):
        own, (G, A) = ModelRows.of(problem, h), problem.law_of[h].shape
        tables = _moments(problem, low, high)
        now = [np.empty((G, low.shape[1])) for _ in range(2)]
        chosen = np.empty(now[0].shape, dtype=action_type(A))
        bernstein_backup(
            own.first,
            own.column,
            own.prob,
            own.rest,
            tables.mean(axis=2),
            own.columns(tables),
            problem.law_of[h],
            *(bonus[h] if bonus[h].ndim == 3 else (bonus[h], bonus[h])),
            problem.spread(h + 1),
            *_clip(problem, h),
            *now,
            chosen,
        )
        low, high = now
        actions.append(chosen)
    return best_start(problem, actions, low)


def _moments(problem: PlanningProblem, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """W, W^2, W^ and (W^ - W)^2 for every reward law, [4, L, G', C]."""
    w, up = (np.stack([after_reward(values, law) for law in problem.rewards.laws]) for values in (low, high))
    return np.stack([w, w * w, up, (up - w) ** 2])
