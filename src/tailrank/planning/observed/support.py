"""The planner on the observed support: V is taken at every observed next state, through phi there.

    M_h[(k, l), c] = sum_i w_ki E_{r ~ law l} V_{h+1}(x'_i, c - r)
    V_h(x, c) = min_a phi_h(x, a) . M_h[:, c] - b_h(x, a)
    V_H(x, c) = max(c, 0)

w_ki = psi_k(x'_i) on the support, so no density over observations is needed. Rewards are real numbers; budgets c lie
on a grid of one spacing, and V is interpolated between them. V has slopes in [0, 1] (without bonus), so interpolation
is off by at most a quarter of the spacing at each step; nothing is lost where rewards are multiples of the spacing.
The table of step h reaches from the least to the most that can still be earned: below it V is constant, above it has
slope 1. Ended episodes earn nothing more: their kind has V = max(c, 0).

Other objectives have another V_H (`risk/measures/reduction.py`); tables then hold all budgets that can be left, at
every step alike. Where u jumps (a target) and rewards lie between budgets, nothing bounds what interpolation does.
Ties are broken by the mean as in `planning/observed/planner.py`: below the table, and below zero at the end, V has the
slope TIE.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrank._system.telling import tell
from tailrank.models.grid import exact_grid
from tailrank.planning.observed.planner import TIE
from tailrank.policies.lowrank import SupportPlan
from tailrank.risk.law import best_budget
from tailrank.risk.measures.base import Measure
from tailrank.risk.measures.reduction import Reduction

BUDGETS = 200
"""Budgets of the first step, unless rewards share a unit."""


@dataclass(frozen=True)
class RewardKinds:
    """Laws of the reward: law l has the values[l] [n_l] with equal weight. spacing of the budgets; exact: no reward
    lies between two budgets. low, high: what a step can pay.
    """

    values: tuple[np.ndarray, ...]
    spacing: float
    exact: bool

    @property
    def low(self) -> float:
        """The least that a step pays, counting the 0 of an ended episode."""
        return float(min(0.0, *(v.min() for v in self.values)))

    @property
    def high(self) -> float:
        """The most."""
        return float(max(0.0, *(v.max() for v in self.values)))


@dataclass(frozen=True)
class SupportStep:
    """What a step's outcomes lead to: states [N] of the next step, known by phi there [N, A, J], their bonus [N, A] or
    None, and the weights [K, N] of each psi_k. Kinds k >= K of phi have ended.
    """

    phi: np.ndarray
    weights: np.ndarray
    bonus: np.ndarray | None = None


def plan_support(
    steps: Callable[[int], SupportStep],
    start: np.ndarray,
    rewards: RewardKinds,
    horizon: int,
    tau: float,
    *,
    start_bonus: np.ndarray | None = None,
    measure: Measure | None = None,
    undominated: bool = True,
) -> SupportPlan:
    """The plan of a low-rank model. steps(h): the states that follow step h; start [n, A, J]: phi of first states.

    measure: what is planned for; None: the CVaR at tau. undominated: as in `plan_observed`.
    """
    ends = rewards.low * horizon, rewards.high * horizon
    aim = None if measure is None else measure.reduction(*ends)
    met = TIE if undominated and aim is None and start_bonus is None else 0.0
    J, L, spacing = start.shape[2], len(rewards.values), rewards.spacing
    kinds = J // L
    first = np.array(
        [np.floor(rewards.low * (horizon - h) / spacing + 1e-9) for h in range(horizon + 1)], dtype=np.int64
    )
    last = np.array(
        [np.ceil(rewards.high * (horizon - h) / spacing - 1e-9) for h in range(horizon + 1)], dtype=np.int64
    )
    if aim is not None:
        first, last = np.full_like(first, first[0] - last[0]), np.full_like(last, last[0] - first[0])
    tables: list[np.ndarray] = []
    error = 0.0
    for h in reversed(range(horizon)):
        tell(horizon - h, horizon, "steps planned")
        budgets = spacing * np.arange(first[h + 1], last[h + 1] + 1)
        ended = np.where(budgets > 0.0, budgets, met * budgets) if aim is None else aim.cost(budgets)
        ahead = np.tile(ended, (kinds, 1))
        if h + 1 < horizon:
            step = steps(h)
            values = _values(step.phi, step.bonus, tables[-1])
            ahead[: len(step.weights)] = step.weights @ values
            error += _standard_error(step.weights, values, ahead)
        wide = int(last[h] - first[h]) + 1
        table = np.empty((kinds, L, wide))
        for i, law in enumerate(rewards.values):
            table[:, i] = _after(ahead, law / spacing, int(first[h] - first[h + 1]), wide, spacing, met)
        tables.append(table.reshape(J, wide))
    curve = _values(start, start_bonus, tables[-1]).mean(axis=0)
    budgets = spacing * np.arange(first[0], last[0] + 1)
    off = 0.0 if rewards.exact else horizon * spacing / 4
    if aim is None:
        best = best_budget(budgets, curve, tau)
        budget, objective, slope = float(budgets[best]), float(budgets[best] - curve[best] / tau), 1.0 / tau
    else:
        budget, objective = _best_start(aim, budgets, curve, ends)
        slope = min(aim.slope * aim.loss, 1e300)
        off = 1.0 / slope if aim.jumps and off else off
    errors = off * slope, 2 * error * slope
    return SupportPlan(tuple(reversed(tables)), first[:-1], spacing, budget, objective, curve, *errors)


def _best_start(
    aim: Reduction, budgets: np.ndarray, curve: np.ndarray, ends: tuple[float, float]
) -> tuple[float, float]:
    """The budget to start with, and what is promised there; budgets [C] with V_0 = curve [C]; ends: of returns."""
    if aim.start is not None:
        value = np.interp(aim.start, budgets, curve)
        return aim.start, float(aim.value(np.array(aim.start), value))
    inside = np.flatnonzero((budgets >= ends[0]) & (budgets <= ends[1]))
    promised = aim.value(budgets[inside], curve[inside])
    best = int(np.argmax(promised))
    return float(budgets[inside[best]]), float(promised[best])


def reward_kinds(seen: np.ndarray, horizon: int, most: int = 12, each: int = 16) -> tuple[RewardKinds, np.ndarray]:
    """The laws of rewards seen [n], and the law [n] that each belongs to.

    Up to `most` different rewards are laws of their own. More are cut at their quantiles, and a law is then spread
    evenly over `each` quantiles of what it holds. Budgets get the unit that all rewards share, if it is not too fine.
    """
    values, kind = np.unique(seen, return_inverse=True)
    if values.size <= most:
        laws = tuple(values[i : i + 1] for i in range(values.size))
    else:
        edges = np.unique(np.quantile(seen, np.linspace(0, 1, most + 1)[1:-1]))
        kind = np.searchsorted(edges, seen, side="right")
        used, kind = np.unique(kind, return_inverse=True)
        levels = (np.arange(each) + 0.5) / each
        laws = tuple(np.unique(seen[kind == i]) for i in range(used.size))
        laws = tuple(v if v.size == 1 else np.quantile(seen[kind == i], levels) for i, v in enumerate(laws))
    spread = horizon * (max(float(values[-1]), 0.0) - min(float(values[0]), 0.0))
    unit = _shared(values, spread) if values.size <= 100 else None
    if unit is not None and values.size <= most:
        return RewardKinds(laws, unit, True), kind
    return RewardKinds(laws, max(spread, 1e-9) / BUDGETS, False), kind


def nearest_kind(rewards: RewardKinds, seen: np.ndarray) -> np.ndarray:
    """The law [n] that each reward [n] comes closest to."""
    middle = np.array([float(np.mean(v)) for v in rewards.values])
    order = np.argsort(middle)
    edges = (middle[order][1:] + middle[order][:-1]) / 2
    return order[np.searchsorted(edges, seen)]


def _shared(values: np.ndarray, spread: float) -> float | None:
    """The unit of all rewards and 0, if a table of at most 4 BUDGETS multiples of it is enough."""
    grid = exact_grid([np.union1d(values, [0.0])], 1, 1.0)
    if grid is None or grid.unit == Fraction(0) or spread / float(grid.unit) > 4 * BUDGETS:
        return None
    return float(grid.unit)


def _values(phi: np.ndarray, bonus: np.ndarray | None, table: np.ndarray) -> np.ndarray:
    """min over actions of phi [n, A, J] . table [J, C] - bonus [n, A], [n, C]."""
    best = phi[:, 0] @ table
    if bonus is not None:
        best -= bonus[:, :1]
    for a in range(1, phi.shape[1]):
        found = phi[:, a] @ table
        if bonus is not None:
            found -= bonus[:, a, None]
        np.minimum(best, found, out=best)
    return np.asarray(best)


def _after(ahead: np.ndarray, law: np.ndarray, shift: int, wide: int, spacing: float, met: float) -> np.ndarray:
    """Mean over rewards r of the law (in spacings) of ahead [K, C'] at the places shift + 0..wide - 1 - r.

    met: its slope below the first place.
    """
    last = ahead.shape[1] - 1
    result = np.zeros((len(ahead), wide))
    near = np.round(law)
    for r in np.where(np.abs(law - near) < 1e-6, near, law):
        place = shift + np.arange(wide) - r
        inside = np.clip(place, 0.0, last)
        left = np.minimum(inside.astype(np.int64), max(last - 1, 0))
        share = inside - left
        result += (1.0 - share) * ahead[:, left] + share * ahead[:, np.minimum(left + 1, last)]
        result += spacing * (np.maximum(place - last, 0.0) + met * np.minimum(place, 0.0))
    return result / law.size


def _standard_error(weights: np.ndarray, values: np.ndarray, mean: np.ndarray) -> float:
    """The largest standard error of a weighted mean over the support."""
    spread = np.maximum(weights @ values**2 - mean[: len(weights)] ** 2, 0.0)
    return float(np.sqrt(spread * (weights**2).sum(axis=1, keepdims=True)).max(initial=0.0))
