"""What a report is about, whatever it was made from, and the same as the data of the page.

A subject has policies (one, or one a run), the problems (MDPs) they live in, and runs. Each part may be missing: a
plan without its MDP, a run that has saved nothing yet, a simulator without an MDP. Whatever is missing is said in
one line in `absent`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

import tailrank
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact.return_law import Evaluation
from tailrank.policies.tables import BudgetPolicy, MixedPolicy, Policy
from tailrank.report._beside import beside_data
from tailrank.report._domain import picture
from tailrank.report._efficient import PickedFrontier
from tailrank.report._episodes import Played
from tailrank.report._film import film_strips
from tailrank.report._learning import curves
from tailrank.report._levels import pack_law, slider
from tailrank.report._maps import state_maps
from tailrank.report.policy_table import policy_table
from tailrank.report.problem import LAW_VALUES, Offered, evaluation_data
from tailrank.risk.law import ReturnLaw
from tailrank.runs.beside import Beside
from tailrank.runs.read import Run

SCHEMA = 1
NO_RECIPE = "The environment does not draw itself"
MANY = "Maps are drawn for the first runs only: write a report of this run alone."
NO_MDP = "There is no finite MDP to play in: the environment is a simulator, or could not be made again."


@dataclass(frozen=True)
class Shown:
    """A policy on the page: its return law (exact, or of `returns` [n] that were played) and where it lives.

    problem: its place in the subject's problems. labels: names of the states for people. interval: bounds on the CVaR
    of a sample at one tau, from who played it. beside: other policies, and what it does, where it acts on observations;
    actions: their names; recipe: what a simulator is made from to draw episodes, or why it is not; mapped: whether
    there are maps of it.
    """

    name: str
    tau: float
    policy: Policy | None = None
    evaluation: Evaluation | None = None
    returns: np.ndarray | None = None
    problem: int | None = None
    mdp: FiniteMDP | None = None
    labels: tuple[str, ...] = ()
    seed: int = 0
    absent: dict[str, str] = field(default_factory=dict)
    interval: dict[str, float] | None = None
    beside: Beside | None = None
    actions: tuple[str, ...] = ()
    recipe: dict[str, Any] | str = NO_RECIPE
    mapped: bool = True

    def data(self, levels: tuple[float, ...]) -> dict[str, Any]:
        """For the page: the law, and where there is a policy on states its table and episodes."""
        absent = dict(self.absent)
        budget = self.policy.start_budget if isinstance(self.policy, BudgetPolicy) else None
        result: dict[str, Any] = {
            "name": self.name,
            "tau": self.tau,
            "problem": self.problem,
            "budget": budget,
            "law": self._law(levels),
            "table": None,
            "episodes": None,
            "domain": None,
            "labels": {},
            "actions": [],
            "absent": absent,
        } | beside_data(self.beside, levels)
        visits = None
        result["actions"] = [name[:40] for name in self.actions]
        if self.policy is not None and self.mdp is not None:
            played = Played.of(self.policy, self.mdp, self.seed)
            visits, result["episodes"] = played.visits, played.data()
            result["actions"] = [str(a)[:40] for a in self.mdp.action_labels]
            _put_part(result, "domain", picture(self.mdp))
            if result["domain"] and result["domain"]["kind"] == "chain":
                result["domain"]["flows"] = played.flows()
        else:
            for part in ("episodes", "domain"):
                absent.setdefault(part, NO_MDP)
        if self.policy is not None:
            drawn = self.policy.likelier if isinstance(self.policy, MixedPolicy) else self.policy
            _put_part(result, "table", policy_table(drawn, visits))
        result |= {"maps": None, "film": None}
        if self.beside is not None:
            _put_part(result, "maps", state_maps(self.policy, self.beside) if self.mapped else MANY)
            _put_part(result, "film", film_strips(self.recipe, self.beside))
        if result["table"] is None:
            absent.setdefault("table", "There is no policy on states to draw.")
        names = self.labels or tuple(str(x)[:60] for x in (self.mdp.labels if self.mdp is not None else ()))
        result["labels"] = {str(s): names[s] for s in sorted(_mentioned_parts(result)) if s < len(names)}
        return result

    def _law(self, levels: tuple[float, ...]) -> dict[str, Any] | None:
        if self.evaluation is not None:
            return evaluation_data(self.evaluation, levels)
        if self.returns is not None:
            law = pack_law(ReturnLaw.of(self.returns), levels, LAW_VALUES)
            return law | {"method": "sample", "episodes": int(self.returns.size), "interval": self.interval}
        return None


@dataclass(frozen=True)
class Subject:
    """A whole report. about: named tables of what was run with what; warnings: what the reader must know first."""

    title: str
    about_policy: str
    tau: float
    policies: tuple[Shown, ...]
    problems: tuple[Offered, ...] = ()
    runs: tuple[Run, ...] = ()
    about: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def frontier(self) -> PickedFrontier | None:
        """The efficient frontier, where the first policy is the best one of the first problem."""
        if not self.problems or not self.policies or self.policies[0].policy is not self.problems[0].plan.policy:
            return None
        return PickedFrontier.of(self.problems[0].plan, self.policies[0].mdp)

    @property
    def levels(self) -> tuple[float, ...]:
        """The positions of the slider."""
        return slider([self.tau, *(shown.tau for shown in self.policies)])

    def data(self) -> dict[str, Any]:
        """Everything the page needs, as plain data."""
        levels, frontier = self.levels, self.frontier
        policies, efficient = list(self.policies), None
        if frontier is not None:
            efficient = frontier.data(len(policies))
            policies += [
                replace(policies[0], name=name, policy=policy, evaluation=law)
                for name, policy, law in frontier.others(policies[0].mdp)
            ]
        return {
            "format": "tailrank-report",
            "schema": SCHEMA,
            "version": tailrank.__version__,
            "title": self.title,
            "about_policy": self.about_policy,
            "tau": self.tau,
            "levels": list(levels),
            "problems": [
                problem.data(levels) | {"efficient": None if i else efficient}
                for i, problem in enumerate(self.problems)
            ],
            "policies": [shown.data(levels) for shown in policies],
        } | self.news()

    def news(self) -> dict[str, Any]:
        """The part of the data that changes with every row of a run."""
        return {
            "learning": curves(list(self.runs)) if self.runs else None,
            "about": [{"name": name, "rows": [list(row) for row in rows]} for name, rows in self.about],
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }


def _put_part(result: dict[str, Any], part: str, found: dict[str, Any] | list[dict[str, Any]] | str) -> None:
    """A part that is there, or the reason why it is not."""
    if isinstance(found, str):
        result["absent"][part] = found
    else:
        result[part] = found


def _mentioned_parts(result: dict[str, Any]) -> set[int]:
    """States whose names the page needs."""
    states: set[int] = set()
    if result["table"]:
        states |= set(result["table"]["states"])
    if result["episodes"]:
        states |= {s for episode in result["episodes"]["kept"] for s in episode["states"]}
    if result["domain"] and result["domain"]["kind"] == "chain":
        states |= {s for step in result["domain"]["possible"] for pair in step for s in pair}
    return states
