"""The latent planner: the budget induction of a low-rank model, through d numbers for each budget.

    M_h[j, c] = E_{g' ~ psi_hj} V_{h+1}(g', c)                                        [d, C] a step
    Q_h(g, c, a) = -b_h(g, a) + sum_x r_h(x | g, a) phi_h(g, a) . M_h[:, max(c - x, 0)]
    V_h = min_a Q_h,   V_H(g, c) = c

One backward pass gives min over policies for every starting budget, so the best budget for any tau is
found by looking at all of them (Algorithm 1, lines 15-16). On finite groups the expectation is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailrank.bellman import action_type
from tailrank.lowrank import LowRankModel
from tailrank.policy import BudgetPolicy
from tailrank.rewards import RewardLaw
from tailrank.risk import ReturnLaw, best_budget


@dataclass(frozen=True)
class LatentPlan:
    """A policy on groups: actions [H] of [G, C]; `budget` and `objective` in units, curve V_0(start, c) [C]."""

    actions: tuple[np.ndarray, ...]
    budget: int
    objective: float
    curve: np.ndarray

    def at(self, tau: float) -> LatentPlan:
        """The same policy with the budget that is best for this tail (the smallest of them): no new induction."""
        best = best_budget(np.arange(self.curve.size), self.curve, tau)
        return replace(self, budget=best, objective=float(best - self.curve[best] / tau))

    def to_arrays(self, name: str) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        tables = {f"{name}.actions.{h}": table for h, table in enumerate(self.actions)}
        return tables | {
            f"{name}.budget": np.array([self.budget]),
            f"{name}.objective": np.array([self.objective]),
            f"{name}.curve": self.curve,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], name: str) -> LatentPlan:
        """From a checkpoint."""
        steps = sum(key.startswith(f"{name}.actions.") for key in arrays)
        return cls(
            tuple(arrays[f"{name}.actions.{h}"] for h in range(steps)),
            int(arrays[f"{name}.budget"][0]), float(arrays[f"{name}.objective"][0]), arrays[f"{name}.curve"],
        )  # fmt: skip

    def act(self, h: int, groups: np.ndarray, budgets: np.ndarray) -> np.ndarray:
        """Actions [n] at step h for groups [n] and remaining budgets [n]."""
        table = self.actions[h]
        return table[groups, np.minimum(budgets, table.shape[1] - 1)].astype(np.int64)

    def policy(self, rewards: RewardLaw) -> BudgetPolicy:
        """The same as a `BudgetPolicy` whose states are groups, for exact evaluation and for files."""
        H, C = len(self.actions), self.curve.size
        G = max(a.shape[0] for a in self.actions)
        tables = np.zeros((H, G, C), dtype=self.actions[0].dtype)
        for h, table in enumerate(self.actions):
            tables[h, : table.shape[0]] = table
        begin = np.arange(H)[:, None] * G * C + np.arange(G + 1) * C
        first = np.zeros((H, G), dtype=np.int64)
        return BudgetPolicy(rewards.grid, self.budget, first, begin, tables.ravel(), tables[:, :, 0].astype(np.int64))


def plan_latent(
    model: LowRankModel,
    rewards: RewardLaw,
    law_of: tuple[np.ndarray, ...],
    bonus: list[np.ndarray],
    tau: float,
    start: int,
) -> LatentPlan:
    """The optimal plan of the model with these bonuses (on the scale where a step pays at most 1).

    law_of [H] of [G, A]: the reward law of every pair. start: the group of the first state.
    """
    from tailrank import kernels

    H, C, kind = model.horizon, rewards.n_budgets, action_type(law_of[0].shape[1])
    budgets = np.arange(C, dtype=np.float64)
    table, after = budgets[None, :], None
    actions: list[np.ndarray] = []
    for h in reversed(range(H)):
        shape = law_of[h].shape
        if after is None:
            phi = np.ones((*shape, 1))
        else:
            phi, table = model.steps[h].phi, model.steps[h].psi @ after
        values, chosen = np.empty((shape[0], C)), np.empty((shape[0], C), dtype=kind)
        kernels.latent_backup(phi, table, law_of[h], rewards.laws, bonus[h] * rewards.top, values, chosen)
        actions.append(chosen)
        after = values
    curve = after[start]  # type: ignore[index]
    return LatentPlan(tuple(reversed(actions)), 0, 0.0, curve).at(tau)


def law_of_plan(
    model: LowRankModel, rewards: RewardLaw, law_of: tuple[np.ndarray, ...], plan: LatentPlan, start: int
) -> ReturnLaw:
    """The exact law of what a plan earns (on the grid of rewards) where the model is the truth."""
    from tailrank import kernels

    H, E = model.horizon, rewards.n_budgets
    mass = np.zeros((model.groups(0), E))
    mass[start, 0] = 1.0
    for h in range(H):
        last = h == H - 1
        phi = np.ones((*law_of[h].shape, 1)) if last else model.steps[h].phi
        latent = np.zeros((phi.shape[2], E))
        kernels.push_plan(mass, plan.actions[h], plan.budget, law_of[h], rewards.laws, phi, latent)
        mass = latent if last else model.steps[h].psi.T @ latent
    earned = np.flatnonzero(mass[0] > 0)
    return ReturnLaw(np.asarray(rewards.grid.value(earned)), mass[0, earned] / mass[0].sum())
