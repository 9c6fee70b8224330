"""What a planner returns: a policy, how good it is, and how good any policy can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tailrank.checks import InputError
from tailrank.planning.exact.curve import Curve, Frontier
from tailrank.planning.exact.return_law import Evaluation
from tailrank.policies.tables import Policy
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import Measure

Status = Literal["exact", "bracketed"]


@dataclass(frozen=True)
class Reference:
    """The risk-neutral policy, for comparison: its mean and its CVaR at the plan's tau.

    evaluate: computes its return law, when that is first asked for.
    """

    policy: Policy
    mean: float
    tau: float
    evaluate: Callable[[], Evaluation]

    @cached_property
    def evaluation(self) -> Evaluation:
        """Its return law."""
        return self.evaluate()

    @property
    def cvar(self) -> float:
        """Its CVaR, or a certified lower bound on it."""
        return self.evaluation.cvar(self.tau)


@dataclass(frozen=True)
class Plan:
    """A policy for one objective; CVaR and VaR are those at `tau`.

    objective: the measure that the policy is for; None for a criterion that is no risk measure of the return.
    value: the measure of the policy (CVaR where there is no objective): exact, or a certified lower bound.
    lower, upper: certified bounds on the best value of any policy; equal when `status` is "exact".
    budget: the starting budget c, in reward units (None for policies without one).
    claim: the value the criterion itself gives to its plan, where that is not the CVaR.
    notes: what the user should know, a line each.
    evaluate: computes the return law of the policy, when that is first asked for. budget_curve: see `curve`.

    >>> from tailrank import FiniteMDP, solve
    >>> rows = [(0, 0, 0, 1, 1), (0, 1, 0, 0.9, 2), (0, 1, 0, 0.1, -5)]  # s, a, s', p, r
    >>> plan = solve(FiniteMDP.from_rows(*zip(*rows), horizon=1), tau=0.2)
    >>> plan.status, plan.budget, plan.law.values.tolist(), round(plan.frontier().cvar(1.0), 9)
    ('exact', 1.0, [1.0], 1.3)
    """

    tau: float
    criterion: str
    policy: Policy
    budget: float | None
    value: float
    lower: float
    upper: float
    risk_neutral: Reference
    evaluate: Callable[[], Evaluation]
    budget_curve: Curve | None
    status: Status
    seconds: float
    claim: float | None = None
    notes: tuple[str, ...] = ()
    objective: Measure | None = None

    @cached_property
    def evaluation(self) -> Evaluation:
        """The return law of the policy, exact or with bounds."""
        return self.evaluate()

    @property
    def law(self) -> ReturnLaw:
        """The law of the policy's return."""
        return self.evaluation.law

    @cached_property
    def cvar(self) -> float:
        """CVaR of the policy (exact, or a certified lower bound: see `evaluation.method`)."""
        return self.evaluation.cvar(self.tau)

    @property
    def var(self) -> float:
        """VaR of the policy."""
        return self.evaluation.var(self.tau)

    @property
    def mean(self) -> float:
        """The mean of the policy."""
        return self.evaluation.mean

    @property
    def curve(self) -> Curve:
        """The least shortfall at every budget."""
        if self.budget_curve is None:
            raise InputError(f"curve, frontier: are for the objective cvar, this plan is for {self.objective}")
        return self.budget_curve

    def frontier(self) -> Frontier:
        """The best CVaR as a function of tau (upper bounds on it when the plan is bracketed)."""
        return self.curve.frontier()

    def as_dict(self) -> dict[str, object]:
        """The numbers, as the command line prints them."""
        result: dict[str, object] = {
            "tau": self.tau,
            "value": self.value,
            "cvar": self.cvar,
            "lower": self.lower,
            "upper": self.upper,
            "budget": self.budget,
            "var": self.var,
            "mean": self.mean,
            "risk_neutral": {"mean": self.risk_neutral.mean, "cvar": self.risk_neutral.cvar},
        }
        if self.objective is not None:
            result["objective"] = {"name": self.objective.name} | self.objective.parameters()
        if self.claim is not None:
            result["claim"] = self.claim
        return result
