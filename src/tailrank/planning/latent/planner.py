"""The latent planner: the budget induction of a low-rank model, through d numbers for each budget.

    M_h[j, c] = E_{g' ~ psi_hj} V_{h+1}(g', c)                                        [d, C] a step
    Q_h(g, c, a) = -b_h(g, a) + sum_x r_h(x | g, a) phi_h(g, a) . M_h[:, max(c - x, 0)]
    V_h = min_a Q_h,   V_H(g, c) = c

Other objectives have another V_H (`models/goal.py`), on tables of one width.

One backward pass gives min over policies for every starting budget, so the best budget for any tau is
found by looking at all of them (Algorithm 1, lines 15-16). On finite groups the expectation is exact.

With at most `top` units a step, V_h has slope one in c from (H - h) top on, and one action is best there: tables of
step h hold the budgets up to there and no more, which is half of the work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tailrank._system.blas import on_one_blas_thread
from tailrank._system.parallel import run_together
from tailrank._system.telling import tell
from tailrank.models.goal import UnitGoal
from tailrank.models.lowrank import LowRankModel
from tailrank.models.rewards import RewardLaw
from tailrank.planning.exact.induction import action_type
from tailrank.policies.tables import BudgetPolicy
from tailrank.risk.law import ReturnLaw, best_budget

TIE = 1e-12
"""Values that differ by less, relative to their size, are tied; the lowest action wins."""


@dataclass(frozen=True)
class LatentPlan:
    """A policy on groups: actions [H] of [G, C_h], the last column for all budgets above it.

    `budget` and `objective` are in units, curve is V_0(start, c) [C]. below: columns for budgets below zero,
    which stand first; `budget` counts them.
    """

    actions: tuple[np.ndarray, ...]
    budget: int
    objective: float
    curve: np.ndarray
    below: int = 0

    def at(self, tau: float) -> LatentPlan:
        """The same policy with the budget that is best for this tail (the smallest of them): no new induction."""
        best = best_budget(np.arange(self.curve.size), self.curve, tau)
        return replace(self, budget=best, objective=float(best - self.curve[best] / tau))

    def towards(self, goal: UnitGoal | None, tau: float) -> LatentPlan:
        """The same policy with the budget that is best for the goal; None: for the CVaR at tau."""
        if goal is None:
            return self.at(tau)
        best, objective = goal.best(self.curve)
        return replace(self, budget=best, objective=objective, below=goal.below)

    def neutral_when_met(self) -> LatentPlan:
        """The same plan, and where the budget is met the best for the mean: the action above all budgets.

        Without bonus every action is as good there. Other objectives than CVaR go on below zero: nothing changes.
        """
        if self.below:
            return self
        met = [np.concatenate([table[:, -1:], table[:, 1:]], axis=1) for table in self.actions]
        return replace(self, actions=tuple(met))

    def same(self, other: LatentPlan) -> bool:
        """Whether the other plan begins with the same budget and plays the same actions everywhere."""
        same_tables = all(map(np.array_equal, self.actions, other.actions))
        return self.budget == other.budget and same_tables

    def to_arrays(self, name: str) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        tables = {f"{name}.actions.{h}": table for h, table in enumerate(self.actions)}
        return tables | {
            f"{name}.budget": np.array([self.budget]),
            f"{name}.objective": np.array([self.objective]),
            f"{name}.curve": self.curve,
            **({f"{name}.below": np.array([self.below])} if self.below else {}),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], name: str) -> LatentPlan:
        """From a checkpoint."""
        steps = sum(key.startswith(f"{name}.actions.") for key in arrays)
        return cls(
            tuple(arrays[f"{name}.actions.{h}"] for h in range(steps)),
            int(arrays[f"{name}.budget"][0]),
            float(arrays[f"{name}.objective"][0]),
            arrays[f"{name}.curve"],
            int(arrays[f"{name}.below"][0]) if f"{name}.below" in arrays else 0,
        )

    def act(self, h: int, groups: np.ndarray, budgets: np.ndarray) -> np.ndarray:
        """Actions [n] at step h for groups [n] and remaining budgets [n]."""
        table = self.actions[h]
        return table[groups, np.minimum(budgets, table.shape[1] - 1)].astype(np.int64)

    def policy(self, rewards: RewardLaw) -> BudgetPolicy:
        """The same as a `BudgetPolicy` whose states are groups, for exact evaluation and for files."""
        H, G = len(self.actions), max(a.shape[0] for a in self.actions)
        begin, elsewhere = np.zeros((H, G + 1), dtype=np.int64), np.zeros((H, G), dtype=np.int64)
        done = 0
        for h, table in enumerate(self.actions):
            n, width = table.shape
            begin[h] = done + np.minimum(np.arange(G + 1), n) * width
            elsewhere[h, :n] = table[:, 0]
            done += table.size
        actions = np.concatenate([table.ravel() for table in self.actions])
        first = np.full_like(elsewhere, -self.below)
        return BudgetPolicy(rewards.grid, self.budget - self.below, first, begin, actions, elsewhere)


PART_PRODUCTS, MOST_PARTS = 5_000_000, 16
"""A step is cut into parts of at least so many products, which threads share. Parts depend on the sizes alone, so the
bits of their sum do not depend on the number of threads."""

ROWS_A_LAW = 16
"""Pairs a reward law must have on average for its own table to be worth making."""


def plan_latent(
    model: LowRankModel,
    rewards: RewardLaw,
    law_of: tuple[np.ndarray, ...],
    bonus: list[np.ndarray],
    tau: float,
    start: int,
    goal: UnitGoal | None = None,
) -> LatentPlan:
    """The optimal plan of the model with these bonuses (on the scale where a step pays at most 1).

    law_of [H] of [G, A]: the reward law of every pair. start: the group of the first state. goal: other than CVaR.
    """
    H, kind = model.horizon, action_type(law_of[0].shape[1])
    table = np.zeros((1, 1)) if goal is None else goal.terminal[None]  # V_H(g, c) = c
    actions: list[np.ndarray] = []
    for h in reversed(range(H)):
        tell(H - h, H, "steps planned")
        shape = law_of[h].shape
        phi = np.ones((*shape, 1)) if h == H - 1 else model.steps[h].phi
        psi = model.steps[h - 1].psi if h else np.eye(1, shape[0], start)
        width = (H - h) * rewards.top + 1 if goal is None else goal.terminal.size
        chosen = np.empty((shape[0], width), dtype=kind)
        table = backup(phi, table, law_of[h], rewards.laws, bonus[h] * rewards.top, psi, chosen)
        actions.append(chosen)
    return LatentPlan(tuple(reversed(actions)), 0, 0.0, table[0]).towards(goal, tau)


def backup(
    phi: np.ndarray,
    table: np.ndarray,
    law_of: np.ndarray,
    laws: np.ndarray,
    bonus: np.ndarray,
    psi: np.ndarray,
    actions: np.ndarray,
) -> np.ndarray:
    """One step: psi V [d', W] for psi [d', G] and V [G, W]; the lowest minimisers go to `actions` [G, W].

    phi [G, A, d], table [d, W'] of the step after (slope one above), law_of [G, A] into laws [L, n], bonus [G, A] in
    units. Few laws are applied to the table, many to what every pair expects.
    """
    from tailrank.planning.latent import _kernels as _kernels

    (G, A, d), L, width = phi.shape, len(laws), actions.shape[1]
    tables, table_of, no_law = table[None], np.zeros_like(law_of), np.ones((1, 1))
    if max(d, ROWS_A_LAW) * L <= min(G * A, _kernels.CELLS // width):
        tables, table_of = np.empty((L, d, width)), law_of
        _kernels.after_rewards(table, laws, tables)
        laws, law_of = no_law, np.zeros_like(law_of)
    n_parts = max(1, min(G, MOST_PARTS, G * A * d * width // PART_PRODUCTS))
    cuts = [G * i // n_parts for i in range(n_parts + 1)]
    sums = np.zeros((n_parts, psi.shape[0], width))
    arguments = (
        np.ascontiguousarray(phi),
        tables,
        table_of,
        laws,
        law_of,
        bonus,
        np.ascontiguousarray(psi),
        TIE,
        actions,
    )
    tasks = [partial(_kernels.latent_backup, *cuts[i : i + 2], *arguments, sums[i]) for i in range(n_parts)]
    if n_parts == 1:
        tasks[0]()
    else:
        with on_one_blas_thread():
            run_together(tasks)
    return np.asarray(sums.sum(axis=0))


def law_of_plan(
    model: LowRankModel, rewards: RewardLaw, law_of: tuple[np.ndarray, ...], plan: LatentPlan, start: int
) -> ReturnLaw:
    """The exact law of what a plan earns (on the grid of rewards) where the model is the truth."""
    from tailrank.planning.latent import _kernels as _kernels

    H, E = model.horizon, rewards.n_budgets
    mass = np.zeros((model.groups(0), E))
    mass[start, 0] = 1.0
    for h in range(H):
        last = h == H - 1
        phi = np.ones((*law_of[h].shape, 1)) if last else model.steps[h].phi
        latent = np.zeros((phi.shape[2], E))
        _kernels.push_plan(mass, plan.actions[h], plan.budget, law_of[h], rewards.laws, phi, latent)
        mass = latent if last else model.steps[h].psi.T @ latent
    earned = np.flatnonzero(mass[0] > 0)
    return ReturnLaw(np.asarray(rewards.grid.value(earned)), mass[0, earned] / mass[0].sum())
