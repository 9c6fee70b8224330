"""`LearnedFromLogs`: a policy from records, and everything that is known about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tailrank.envs.logs.log import Label
from tailrank.learning.offline.behaviour import Behaviour
from tailrank.learning.offline.coverage import Coverage
from tailrank.policies.names import own_names
from tailrank.policies.result import Result, number
from tailrank.policies.tables import Policy
from tailrank.risk.measures.base import Measure
from tailrank.risk.measures.cvar import CVaR


@dataclass(frozen=True, eq=False, repr=False)
class LearnedFromLogs(Result):
    """A policy from records, and what can be said of its objective with probability 1 - delta.

    lower: `measure` (CVaR_tau unless another was asked for) of `policy` is at least this. upper: that of no policy is
    above this. promise: what it is if the counts were the truth. behaviour: that of whoever made the log. status:
    "improved" if lower is above behaviour.high, else "not improved", and then `policy` takes only actions that were
    taken more than once in their state, or acts as whoever made the log. bounds: every bound that was computed, by
    name. assumptions, notes: lines for the user.
    """

    policy: Policy
    tau: float
    delta: float
    lower: float
    upper: float
    promise: float
    behaviour: Behaviour
    coverage: Coverage
    status: str
    episodes: int
    transitions: int
    seconds: float
    states: tuple[Label, ...]
    actions: tuple[Label, ...]
    measure: Measure = field(default_factory=lambda: CVaR(0.1))
    bounds: dict[str, float] = field(default_factory=dict)
    diagnostics: dict[str, Any] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return f"Policy from {self.episodes} recorded episodes for the {self.objective} ({self.status})"

    @property
    def objective(self) -> str:
        """What is bounded, in words."""
        return f"CVaR at tau = {self.tau:g}" if isinstance(self.measure, CVaR) else str(self.measure)

    @property
    def short(self) -> str:
        """The same in one word."""
        return "CVaR" if isinstance(self.measure, CVaR) else self.measure.name

    @property
    def facts(self) -> dict[str, str]:
        """The bounds, and what whoever made the records earned."""
        b = self.behaviour
        own = f"{number(b.cvar)} in {number(b.low)} .. {number(b.high)}"
        return {
            f"{self.short} at least": f"{number(self.lower)} with probability {1 - self.delta:g}",
            "model promises": f"{self.short} {number(self.promise)}",
            "no policy above": number(self.upper),
            "records' own": f"{self.short} {own}, mean {number(b.mean)}",
        }

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was assumed, and what should be known."""
        return (*self.assumptions, *self.notes)

    @property
    def labels(self) -> tuple[Sequence[object], Sequence[object]]:
        """Names of the states and of the actions."""
        return self.states, self.actions

    def about(self) -> dict[str, Any]:
        """What a policy file keeps beside the policy."""
        own = {"states": own_names(self.states), "actions": own_names(self.actions)}
        return {"logs": self.as_dict(), "tau": self.tau} | {name: labels for name, labels in own.items() if labels}

    def as_dict(self) -> dict[str, Any]:
        """The numbers, as the command line prints them."""
        b = self.behaviour
        named = {} if isinstance(self.measure, CVaR) else {"objective": str(self.measure)}
        return {
            "status": self.status,
            **named,
            "tau": self.tau,
            "delta": self.delta,
            "episodes": self.episodes,
            "transitions": self.transitions,
            "lower": self.lower,
            "upper": self.upper,
            "promise": self.promise,
            "behaviour": {"cvar": b.cvar, "low": b.low, "high": b.high, "mean": b.mean},
            "seconds": self.seconds,
        }
