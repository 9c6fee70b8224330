"""The efficient frontier for the page: all its points, and a few plans behind them that the reader can pick."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact.bracket import PRODUCTS_A_SECOND
from tailrank.planning.exact.context import SolveContext
from tailrank.planning.exact.induction import layout
from tailrank.planning.exact.return_law import Evaluation, return_law
from tailrank.planning.objectives.efficient import EfficientFrontier, efficient_frontier
from tailrank.planning.objectives.trade import Mixed
from tailrank.planning.plan import Plan
from tailrank.policies.tables import Policy
from tailrank.report._levels import pack

POINTS, PICKED = 41, 7
MOST_SECONDS = 5.0
SOLVES = 15
"""What a frontier costs at most, in solves; where that is more than `MOST_SECONDS`, there is none."""


@dataclass(frozen=True)
class PickedFrontier:
    """The points, and which of them can be picked: places [n], and the plan behind each."""

    points: EfficientFrontier
    places: tuple[int, ...]
    plans: tuple[Mixed, ...]

    @classmethod
    def of(cls, plan: Plan, mdp: FiniteMDP | None) -> PickedFrontier | None:
        """The frontier at the level of an exact plan for CVaR, if it is quick to find and there is any trade-off."""
        if mdp is None or plan.status != "exact" or plan.criterion != "cvar" or plan.tau == 1.0 or _slow(mdp):
            return None
        try:
            found = efficient_frontier(mdp.merged(), plan.tau, points=POINTS, seconds=MOST_SECONDS)
        except InputError:
            return None
        if found.cvar[0] - found.cvar[-1] <= 1e-9 * (1.0 + abs(float(found.cvar[0]))):
            return None
        places = tuple(int(i) for i in np.unique(np.linspace(0, POINTS - 1, PICKED).round()))
        return cls(found, places, tuple(found.plan(i) for i in places))

    def others(self, mdp: FiniteMDP | None) -> Iterator[tuple[str, Policy, Evaluation]]:
        """Name, policy and law of the plans behind the points; the first point is the page's own plan."""
        if mdp is None:
            return
        for i, plan in list(zip(self.places, self.plans, strict=True))[1:]:
            name = f"CVaR {self.points.cvar[i]:.4g}, mean {self.points.mean[i]:.4g}"
            yield name, plan.policy, return_law(plan.policy, mdp, plan.first.grid)

    def data(self, before: int) -> dict[str, Any]:
        """For the page; `policy` is the place of a plan among the policies, of which `before` stand before these."""
        picked = [
            {"at": i, "policy": before + n - 1 if n else 0, "share": 1.0 if plan.pure else plan.share}
            for n, (i, plan) in enumerate(zip(self.places, self.plans, strict=True))
        ]
        columns = {name: pack(getattr(self.points, name)) for name in ("cvar", "mean", "upper", "price")}
        return {"tau": self.points.tau, "picked": picked} | columns


def _slow(mdp: FiniteMDP) -> bool:
    """Whether the frontier takes longer than `MOST_SECONDS`, by the products of one induction."""
    problem = SolveContext.of(mdp)
    grid = problem.lattice()
    return grid is None or SOLVES * layout(problem.mdp, grid, problem.met).products > MOST_SECONDS * PRODUCTS_A_SECOND
