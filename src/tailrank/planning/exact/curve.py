"""The exact planner: one induction for every budget, hence for every tau.

    CVaR*_tau = max_c { c - V(c) / tau },      V(c) = min over policies of E(c - R)^+

V is not convex, so the maximum is found by looking at every budget, never by bisection. As a function of
tau, tau CVaR*_tau = max_c { c tau - V(c) } is the conjugate of V: the whole frontier over tau is read off
the lower convex hull of the points (c, V(c)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tailrank.checks import InputError, tail_level
from tailrank.models.grid import BudgetGrid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact import induction
from tailrank.planning.exact.limits import unlimited
from tailrank.planning.exact.start_curve import StartCurve
from tailrank.policies.tables import BudgetPolicy
from tailrank.risk.law import best_budget

SHORT = 1e-12
"""A piece of the frontier that is shorter than this, relative to its tau, is rounding."""


@dataclass(frozen=True)
class Curve:
    """Budgets [C] as grid indices, in reward units, and the same less the grid's offset (which may be so large that
    it swallows their differences); V(c) [C] in reward units. mean [C], where it is known: the best mean (less the
    offset) of a policy that attains V(c)."""

    index: np.ndarray
    budget: np.ndarray
    above: np.ndarray
    shortfall: np.ndarray
    mean: np.ndarray | None = None

    @classmethod
    def of(cls, grid: BudgetGrid, index: np.ndarray, shortfall: np.ndarray, mean: np.ndarray | None = None) -> Curve:
        """From budgets as grid indices [C], V [C] in units and means [C] in reward units."""
        unit = float(grid.unit)
        return cls(index, np.asarray(grid.value(index)), index * unit, shortfall * unit, mean)

    def objective(self, tau: float) -> np.ndarray:
        """c - V(c) / tau at every budget, [C]."""
        with np.errstate(over="ignore"):
            return self.budget - self.shortfall / tail_level(tau)

    def best(self, tau: float) -> int:
        """Position of the budget that attains the maximum: of several that with the best mean, then the smallest."""
        return best_budget(self.above, self.shortfall, tail_level(tau), self.mean)

    def up_to(self, index: int) -> Curve:
        """This curve without the budgets above a grid index (its first budget stays)."""
        n = max(1, int(np.searchsorted(self.index, index, side="right")))
        return Curve(self.index[:n], self.budget[:n], self.above[:n], self.shortfall[:n])

    def refined(self, finer: Curve) -> Curve:
        """This curve, with all up to the last budget of a finer one replaced by that.

        Lines between neighbouring points of either lie below V. For the line across the seam that holds if it begins
        no higher than this curve does there. Below the first budget V is zero.
        """
        seam = finer.above[-1]
        later = self.above > seam
        shortfall = finer.shortfall.copy()
        if later.any():
            shortfall[-1] = min(shortfall[-1], float(np.interp(seam, self.above, self.shortfall)))
        parts = zip(
            (finer.index, finer.budget, finer.above, shortfall),
            (self.index, self.budget, self.above, self.shortfall),
            strict=True,
        )
        return Curve(*(np.concatenate([new, old[later]]) for new, old in parts))

    def frontier(self) -> Frontier:
        """The optimum as a function of tau; found once."""
        return self._frontier

    @cached_property
    def _frontier(self) -> Frontier:
        from tailrank.planning.exact import _hull_kernels

        span = float(self.above[-1] - self.above[0]) or 1.0
        hull = np.empty(self.above.size, np.int64)
        hull = hull[: _hull_kernels.lower_hull(self.above / span, self.shortfall / span, hull)]
        budget, shortfall = self.budget[hull], self.shortfall[hull]
        slope = np.diff(shortfall) / np.diff(self.above[hull])
        ends = np.clip(np.concatenate([[0.0], slope, [1.0]]), 0.0, 1.0)
        keep = np.diff(ends) > SHORT * ends[1:]
        return Frontier(ends[:-1][keep], ends[1:][keep], budget[keep], shortfall[keep])


@dataclass(frozen=True)
class Frontier:
    """Pieces [m] of the frontier: for tau in [tau_from, tau_to] the best budget is `budget`, V = `shortfall`."""

    tau_from: np.ndarray
    tau_to: np.ndarray
    budget: np.ndarray
    shortfall: np.ndarray

    def cvar(self, tau: float) -> float:
        """CVaR*_tau (an upper bound on it if the plan is bracketed)."""
        i = min(int(np.searchsorted(self.tau_to, tail_level(tau))), self.budget.size - 1)
        return float(self.budget[i] - self.shortfall[i] / tau)


@dataclass(frozen=True)
class InductionRequest:
    """An induction that has been laid out but not run.

    most: the largest starting budget that its tables are for. With the best means `neutral` [H + 1, S] ties go to the
    mean.
    """

    mdp: FiniteMDP
    grid: BudgetGrid
    layout: induction.Layout
    keep_actions: bool
    most: int | None = None
    neutral: np.ndarray | None = None

    @property
    def bytes(self) -> int:
        """Memory that `run` will take."""
        return self._bytes(self.layout.storage.passing)

    @property
    def kept_bytes(self) -> int:
        """Memory that `induct` will take, which keeps the tables of the first step."""
        return self._bytes(self.layout.storage.slots)

    def _bytes(self, slots: int) -> int:
        actions = induction.action_type(self.mdp.n_actions).itemsize * self.layout.entries if self.keep_actions else 0
        tables = 16 * self.mdp.n_states * self.mdp.horizon
        return 8 * slots * self.layout.storage.slot * (1 if self.neutral is None else 2) + actions + tables

    def run(self, mean_actions: np.ndarray, check: Callable[[], None] = unlimited) -> tuple[Curve, BudgetPolicy | None]:
        """The curve over budgets, and the policy (its budget still to be chosen) if actions are kept.

        check: called before every step; what it raises ends the induction.
        """
        slopes = (1.0,) if self.neutral is None else (1.0, 0.0)
        mixed = [StartCurve(self.layout.tables[0], self.mdp.start, slope) for slope in slopes]
        actions = self.induct(mean_actions, check, curves=mixed).actions
        mean = None if self.neutral is None else mixed[1].total
        curve = Curve.of(self.grid, mixed[0].budgets, mixed[0].total, mean)
        curve = curve if self.most is None else curve.up_to(self.most)
        return curve, self.policy(actions, mean_actions) if self.keep_actions else None

    def induct(
        self,
        mean_actions: np.ndarray | None,
        check: Callable[[], None] = unlimited,
        *,
        bonus: np.ndarray | None = None,
        final: np.ndarray | None = None,
        curves: Sequence[StartCurve] = (),
    ) -> induction.Induction:
        """The induction itself; see `induction.induct`."""
        return induction.induct(
            self.mdp,
            self.grid,
            self.layout,
            keep_actions=self.keep_actions,
            at_ends=mean_actions,
            bonus=bonus,
            neutral=self.neutral,
            final=final,
            curves=curves,
            check=check,
        )

    def policy(self, actions: np.ndarray, mean_actions: np.ndarray) -> BudgetPolicy:
        """The policy that plays the actions of an induction; its budget is still to be chosen."""
        tables = self.layout.tables[:-1]
        begins = self.layout.begins
        return BudgetPolicy(
            grid=self.grid,
            budget=0,
            first=np.stack([t.first for t in tables]),
            offset=np.stack([t.offset + b for t, b in zip(tables, begins[:-1], strict=True)]),
            actions=actions,
            elsewhere=mean_actions,
        )


def require_memory(job: InductionRequest, needed: int, limit: int) -> None:
    """Raise if the induction, which needs so many bytes, would not fit."""
    if needed > limit:
        raise InputError(
            f"grid: spacing {float(job.grid.unit):g} needs {needed / 2**30:.3g} GB for "
            f"{job.layout.entries} budget entries, the limit is {limit / 2**30:.3g} GB; "
            "raise memory=..., or use a coarser unit=... or a larger tolerance=..."
        )
