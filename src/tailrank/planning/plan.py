"""What a planner returns: a policy, how good it is, and how good any policy can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from tailrank.checks import InputError
from tailrank.envs.mdp_files.draft import Source
from tailrank.planning.exact.curve import Curve, Frontier
from tailrank.planning.exact.return_law import Evaluation
from tailrank.policies import names
from tailrank.policies.result import Result, number
from tailrank.policies.tables import Policy
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import Measure
from tailrank.risk.measures.cvar import CVaR

Status = Literal["exact", "bracketed"]


@dataclass(frozen=True)
class Reference:
    """The risk-neutral policy, for comparison: its mean and its CVaR at the plan's tau.

    find: gives the policy and its mean, evaluate: its return law; each when it is first asked for.
    """

    find: Callable[[], tuple[Policy, float]]
    tau: float
    evaluate: Callable[[], Evaluation]

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self.find()[0]

    @property
    def mean(self) -> float:
        """Its mean, the best of any policy."""
        return self.find()[1]

    @cached_property
    def evaluation(self) -> Evaluation:
        """Its return law."""
        return self.evaluate()

    @property
    def cvar(self) -> float:
        """Its CVaR, or a certified lower bound on it."""
        return self.evaluation.cvar(self.tau)


@dataclass(frozen=True, repr=False)
class Plan(Result):
    """A policy for one objective, and what it earns; CVaR and VaR are those at `tau`.

    objective: the measure that the policy is for; None for a criterion that is no risk measure of the return.
    value: the measure of the policy (CVaR where there is no objective): exact, or a certified lower bound.
    lower, upper: certified bounds on the best value of any policy; equal when `status` is "exact".
    budget: the starting budget c, in reward units (None for policies without one).
    claim: the value the criterion itself gives to its plan, where that is not the CVaR.
    notes: what the user should know, a line each. source: the MDP that it was made for, with its name.
    compute_law: finds the return law of the policy, when that is first asked for. budget_curve: see `curve`.

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
    compute_law: Callable[[], Evaluation]
    budget_curve: Curve | None
    status: Status
    seconds: float
    claim: float | None = None
    notes: tuple[str, ...] = ()
    objective: Measure | None = None
    source: Source | None = field(default=None, compare=False)

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        what = "CVaR" if self.criterion == "cvar" else f"criterion {self.criterion}"
        what = what if self.plain else str(self.objective)
        where = "" if self.source is None else f" in {self.source.name}"
        level = f" at tau = {self.tau:g}" if self.plain else ""
        return f"Plan for the best {what}{level}{where} ({self.status})"

    @property
    def plain(self) -> bool:
        """Whether it is about the CVaR, not about another measure of the return."""
        return self.objective is None or isinstance(self.objective, CVaR)

    @property
    def facts(self) -> dict[str, str]:
        """What it earns, what is best, and what maximising the mean earns instead."""
        between = f"{number(self.lower)} .. {number(self.upper)}"
        best = {"best possible": number(self.lower) if self.lower == self.upper else between}
        found = {} if self.plain else {"value": number(self.value)} | best
        found |= {
            "CVaR" if self.plain else f"CVaR at {self.tau:g}": number(self.cvar),
            **(best if self.plain else {}),
            "VaR": number(self.var),
            "mean": number(self.mean),
            "best mean": f"{number(self.risk_neutral.mean)}, with CVaR {number(self.risk_neutral.cvar)}",
        }
        if self.budget is not None:
            found["start budget"] = number(self.budget)
        if self.source is not None:
            mdp = self.source.mdp
            found["problem"] = f"{mdp.n_states} states, {mdp.n_actions} actions, {mdp.horizon} steps"
        return found

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was assumed when the problem was read, and what the solver has to say."""
        return (*(self.source.notes if self.source else ()), *self.notes)

    @property
    def home(self) -> Any:
        """The MDP that it was made for."""
        return None if self.source is None else self.source.mdp

    @property
    def known_law(self) -> ReturnLaw:
        """The law of the policy's return."""
        return self.law

    @property
    def labels(self) -> tuple[Sequence[object], Sequence[object]]:
        """Names of the states and of the actions."""
        return ((), ()) if self.source is None else (self.source.mdp.labels, self.source.mdp.action_labels)

    def about(self) -> dict[str, Any]:
        """What a policy file keeps beside the policy."""
        found: dict[str, Any] = {"plan": self.as_dict(), "criterion": self.criterion, "status": self.status}
        if self.source is not None:
            own = [names.own_names(labels) for labels in self.labels]
            found |= {"source": self.source.name} | {k: v for k, v in zip(("states", "actions"), own, strict=True) if v}
        return found

    @cached_property
    def evaluation(self) -> Evaluation:
        """The return law of the policy, exact or with bounds."""
        return self.compute_law()

    @property
    def law(self) -> ReturnLaw:
        """The law of the policy's return."""
        return self.evaluation.law

    @cached_property
    def cvar(self) -> float:
        """CVaR of the policy at `tau` (exact, or a certified lower bound: see `evaluation.method`)."""
        if isinstance(self.objective, CVaR) and self.objective.tau == self.tau:
            return self.value
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
