"""What a planner returns: a policy, how good it is, and how good any policy can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tailrank.planning.exact.curve import Curve, Frontier
from tailrank.planning.exact.return_law import Evaluation
from tailrank.policies.tables import Policy
from tailrank.risk.law import ReturnLaw

Status = Literal["exact", "bracketed"]


@dataclass(frozen=True)
class Reference:
    """The risk-neutral policy, for comparison: its mean and its CVaR at the plan's tau."""

    policy: Policy
    mean: float
    cvar: float


@dataclass(frozen=True)
class Plan:
    """A policy for one tau.

    cvar: CVaR of the policy (exact, or a certified lower bound: see `evaluation.method`).
    lower, upper: certified bounds on CVaR*, the best CVaR of any policy; equal when `status` is "exact".
    budget: the starting budget c, in reward units (None for criteria without one).
    claim: the value the criterion itself gives to its plan, where that is not the CVaR.
    notes: what the user should know, a line each.

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
    cvar: float
    lower: float
    upper: float
    var: float
    mean: float
    risk_neutral: Reference
    evaluation: Evaluation
    curve: Curve
    status: Status
    seconds: float
    claim: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def law(self) -> ReturnLaw:
        """The law of the policy's return."""
        return self.evaluation.law

    def frontier(self) -> Frontier:
        """The best CVaR as a function of tau (upper bounds on it when the plan is bracketed)."""
        return self.curve.frontier()

    def as_dict(self) -> dict[str, object]:
        """The numbers, as the command line prints them."""
        result: dict[str, object] = {
            "tau": self.tau,
            "cvar": self.cvar,
            "lower": self.lower,
            "upper": self.upper,
            "budget": self.budget,
            "var": self.var,
            "mean": self.mean,
            "risk_neutral": {"mean": self.risk_neutral.mean, "cvar": self.risk_neutral.cvar},
        }
        if self.claim is not None:
            result["claim"] = self.claim
        return result
