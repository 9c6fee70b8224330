"""The budget induction on the representatives of a kernel model.

    V_H(j, c) = c^+,    V_h(j, c) = min_a { sum_e w_e V_{h+1}(after_e, c - r_e) - bonus(j, a) }

on `count` budgets. Rewards are real: a reward between two budgets is split between its neighbours, which makes the
shortfall larger (V is convex between kinks), never smaller. Without bonus, c - V_0(c) / tau is at most what the best
outcomes add up to, whatever the data. A pair that is allowed without any outcome has the shortfall -bonus times the
steps that are left.

Actions are looked for only with the steps left for which tables are kept, and held in between: a plan, too, for the
share 1 / A of the work. Near the end, where what is best changes from step to step, all tables are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailrank._system.telling import tell
from tailrank.policies.kernel import BudgetScale, KernelRows
from tailrank.risk.law import best_budget

DENSE, RATIO = 16, 1.15
"""Tables are kept for the last `DENSE` steps, and before that for steps left that grow by this ratio."""


@dataclass(frozen=True)
class KernelPlan:
    """steps [T] left, their tables [T, M, C] (units, float32); curve [C] of the start, its best budget and promise."""

    steps: np.ndarray
    tables: np.ndarray
    curve: np.ndarray
    budget: float
    promise: float


def kept_steps(horizon: int) -> np.ndarray:
    """Steps left 0..H - 1 whose tables are kept: dense near the end, thinner before.

    >>> kept_steps(25).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 23, 24]
    """
    steps = list(range(min(DENSE + 1, horizon)))
    while steps[-1] < horizon - 1:
        steps.append(min(int(steps[-1] * RATIO), horizon - 1))
    return np.array(steps, dtype=np.int64)


def plan_kernel(
    rows: KernelRows,
    scale: BudgetScale,
    horizon: int,
    start: np.ndarray,
    tau: float,
    bonus: np.ndarray,
    allowed: np.ndarray,
) -> KernelPlan:
    """The plan of H steps; start [M]: how likely each representative is at first; bonus, allowed [M, A]."""
    from tailrank.planning.kernel._kernels import backup, held_backup, widen

    pad = rows.farthest(horizon) + 1
    table = np.empty((len(bonus) + 1, scale.count + 2 * pad))

    def step(left: int, values: np.ndarray, taken: np.ndarray, held: bool) -> np.ndarray:
        widen(values[0], pad, scale.ended(left - 1), table)
        result, law = np.empty_like(values), _law(rows, horizon - left)
        if held:
            held_backup(*law, bonus, pad, float(left), table, result[0], taken[0])
        else:
            backup(*law, bonus, allowed, pad, float(left), table, result[0], taken[0])
        return result

    return _planned(step, 1, scale, horizon, start, tau)


def plan_crossed(
    halves: tuple[KernelRows, KernelRows],
    scale: BudgetScale,
    horizon: int,
    start: np.ndarray,
    tau: float,
    allowed: np.ndarray,
) -> KernelPlan:
    """The plan of two models of the same representatives, made of different episodes; its tables are their mean.

        V_h^1(j, c) = Q_h^1(j, c, a^2),  a^2 = argmin_a Q_h^2(j, c, a),    and the other way round

    The least of several estimates is too small, the more so the more there are, and a plan goes where it is smallest.
    What one half says of the action that the other one chose is not too small on average (van Hasselt 2010).
    """
    from tailrank.planning.kernel._kernels import crossed_backup, held_backup, widen

    pad = max(rows.farthest(horizon) for rows in halves) + 1
    tables = np.empty((2, len(allowed) + 1, scale.count + 2 * pad))
    none = np.zeros(allowed.shape)

    def step(left: int, values: np.ndarray, taken: np.ndarray, held: bool) -> np.ndarray:
        for mine, table in zip(values, tables, strict=True):
            widen(mine, pad, scale.ended(left - 1), table)
        result, (one, other) = np.empty_like(values), (_law(rows, horizon - left) for rows in halves)
        if held:
            for law, table, found, mine in zip((one, other), tables, result, taken, strict=True):
                held_backup(*law, none, pad, float(left), table, found, mine)
        else:
            crossed_backup(one, other, allowed, pad, *tables, *result, taken)
        return result

    return _planned(step, 2, scale, horizon, start, tau)


def _law(rows: KernelRows, h: int) -> tuple[np.ndarray, ...]:
    """ptr, after, shift and weight at step h."""
    now = rows.at(h)
    return now.ptr, now.after, now.shift, now.weight


def _planned(
    step: Callable[[int, np.ndarray, np.ndarray, bool], np.ndarray],
    models: int,
    scale: BudgetScale,
    horizon: int,
    start: np.ndarray,
    tau: float,
) -> KernelPlan:
    """The plan whose values [models, M, C] with `left` steps are step(left, those with one step less, taken, held):
    it finds the actions taken [models, M, C], or holds them."""
    C, steps = scale.count, kept_steps(horizon)
    tables = np.empty((len(steps), start.size, C), dtype=np.float32)
    values = np.tile(np.maximum(np.arange(C) + scale.low, 0.0), (models, start.size, 1))
    taken = np.zeros(values.shape, dtype=np.int16)
    tables[0] = values[0]
    for left in range(1, horizon + 1):
        tell(left, horizon, "steps planned")
        kept = int(np.searchsorted(steps, left))
        keeps = kept < len(steps) and steps[kept] == left
        values = step(left, values, taken, not (keeps or left == horizon))
        if keeps:
            tables[kept] = values.mean(axis=0)
    curve = start @ values.mean(axis=0) * scale.unit
    budgets = scale.budget(np.arange(C), horizon)
    best = best_budget(budgets, curve, tau)
    return KernelPlan(steps, tables, curve, float(budgets[best]), float(budgets[best] - curve[best] / tau))
