"""What an MDP offers: the best CVaR at every tau, the policies that reach it, and the risk-neutral one.

One induction gives V(c) for every budget, hence the best CVaR at every tau (`planning/exact/curve.py`). The policies
that attain it differ in their starting budget only; their return laws are found one by one,
so there are as many of them as are quick to find.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.models.grid import BudgetGrid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact.return_law import Evaluation, return_law
from tailrank.planning.plan import Plan
from tailrank.planning.solve import solve
from tailrank.policies.tables import BudgetPolicy
from tailrank.report._levels import pack, pack_curve, pack_law

MOST_BEST = 48
BEST_SECONDS = 4.0
BEST_VALUES = 320
LAW_VALUES = 4000
COARSE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Levels of the best policies where each of them needs bounds of its own."""


@dataclass(frozen=True, eq=False)
class Offered:
    """An MDP and its plan at one tau. `mdp` is None for a plan that came without."""

    name: str
    plan: Plan
    mdp: FiniteMDP | None
    notes: tuple[str, ...] = ()
    known: dict[tuple[float, ...], dict[str, Any]] = field(default_factory=dict, repr=False)

    @classmethod
    def solve(cls, name: str, mdp: FiniteMDP, tau: float, *, seconds: float = 60.0) -> Offered:
        """The problem with its best plan at `tau`; what the solver warns of becomes a note."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            plan = solve(mdp, tau=tau, seconds=seconds)
        return cls(name, plan, mdp, plan.notes)

    def data(self, levels: tuple[float, ...]) -> dict[str, Any]:
        """Everything on the page that does not depend on the policy that is looked at; found once for `levels`."""
        if levels not in self.known:
            self.known[levels] = self._data(levels)
        return self.known[levels]

    def _data(self, levels: tuple[float, ...]) -> dict[str, Any]:
        plan = self.plan
        neutral = self.neutral_law()
        result: dict[str, Any] = {
            "name": self.name,
            "exact": plan.status == "exact",
            "curve": pack_curve(plan.curve, levels),
            "neutral": {"mean": plan.risk_neutral.mean, "law": None},
            "best": [],
            "absent": {},
            "notes": list(self.notes),
        }
        if neutral is not None:
            result["neutral"]["law"] = evaluation_data(neutral, levels)
        elif self.mdp is None:
            result["absent"]["neutral"] = "The plan came without its MDP, so other policies cannot be evaluated."
        else:
            result["absent"]["neutral"] = "The risk-neutral policy has too many returns to list."
        if self.mdp is not None:
            result["best"] = self._best(self.mdp, levels)
        return result

    @property
    def grid(self) -> BudgetGrid | None:
        """Where rewards may be rounded to when a law is too long to list."""
        return self.plan.policy.grid if isinstance(self.plan.policy, BudgetPolicy) else None

    def neutral_law(self) -> Evaluation | None:
        """The return law of the risk-neutral policy, or None where it cannot be found."""
        if self.mdp is None:
            return None
        try:
            return return_law(self.plan.risk_neutral.policy, self.mdp.merged(), self.grid)
        except InputError:
            return None

    def _best(self, mdp: FiniteMDP, levels: tuple[float, ...]) -> list[dict[str, Any]]:
        """The policies that are best at the slider's positions: which positions, mean and law of each."""
        plan = self.plan
        if plan.status != "exact" or plan.criterion != "cvar" or not isinstance(plan.policy, BudgetPolicy):
            return self._coarse(mdp, levels)
        where = [plan.curve.best(tau) for tau in levels]
        order = sorted(set(where))
        # Own level first, then ever finer: when time runs out, what is there is spread evenly.
        own = plan.curve.best(plan.tau)
        picked = list(dict.fromkeys([own, *(order[i] for i in spread(len(order)))]))[:MOST_BEST]
        stop = time.perf_counter() + BEST_SECONDS
        found: list[dict[str, Any]] = []
        for place in picked:
            if found and time.perf_counter() > stop:
                break
            policy = plan.policy.with_budget(int(plan.curve.index[place]))
            evaluation = return_law(policy, mdp, policy.grid)
            at = [i for i, p in enumerate(where) if p == place]
            found.append(_entry(at, policy.start_budget, evaluation, levels))
        return sorted(found, key=lambda entry: entry["at"][:1])

    def _coarse(self, mdp: FiniteMDP, levels: tuple[float, ...]) -> list[dict[str, Any]]:
        own = self.plan if self.plan.criterion == "cvar" else None
        taus = [tau for tau in sorted({*COARSE, self.plan.tau}) if own is None or tau != own.tau]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                plans = solve(mdp, tau=taus, tolerance="5%", seconds=max(BEST_SECONDS, self.plan.seconds))
        except InputError:
            return []
        chosen = sorted([*plans, *([own] if own is not None else [])], key=lambda p: p.tau)
        return [_entry([levels.index(p.tau)], p.budget, p.evaluation, levels) for p in chosen]


def spread(n: int) -> list[int]:
    """0..n-1, the ends first and then ever finer."""
    order, step = [0, n - 1], n - 1
    while step > 1:
        step = (step + 1) // 2
        order += range(0, n, step)
    return list(dict.fromkeys(order)) if n > 0 else []


def _entry(at: list[int], budget: float | None, found: Evaluation, levels: tuple[float, ...]) -> dict[str, Any]:
    return {"at": at, "budget": budget, "mean": found.mean, "law": pack_law(found.law, levels, BEST_VALUES)}


def evaluation_data(found: Evaluation, levels: tuple[float, ...], most: int = LAW_VALUES) -> dict[str, Any]:
    """A law for the page; where it is not exact, `low` [levels] are certified lower bounds on its CVaR."""
    result = pack_law(found.law, levels, most) | {"method": found.method}
    if not found.exact:
        result["low"] = pack(np.array([found.cvar(tau) for tau in levels]))
    return result
