"""The plan of one half of the episodes, judged by the other half, which knows nothing of how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailrank.envs.logs.log import EpisodeLog
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.budgets import Budgets, budgets_for
from tailrank.learning.offline.candidates import CautiousPlan, Planner
from tailrank.learning.offline.importance import sure_at_least, weigh
from tailrank.learning.offline.tilted import tilted
from tailrank.planning.pessimistic.goals import TailGoal
from tailrank.planning.pessimistic.model import RecordedModel
from tailrank.policies.tables import ClonedPolicy, Policy

TILTED = "a step from the behaviour"


@dataclass(frozen=True, eq=False)
class HalfPlan:
    """A plan with the best of its bounds, the judging half's model and counts, and all bounds by name.

    tilted: a step from the behaviour, where the log has probabilities; its bound is that of the name TILTED, and
    promised what it earns by the weighted returns of the judging half.
    """

    plan: CautiousPlan
    model: RecordedModel
    counts: counting.LogCounts
    bounds: dict[str, float]
    tilted: ClonedPolicy | None = None
    promised: float = np.nan


@dataclass(frozen=True, eq=False)
class HalfTask:
    """What is wanted of the half plan, as `finite` has it; asked: the bound that is looked for; rng: of quarters."""

    planner: Planner
    rewards: tuple[float, float]
    ends: tuple[float, float]
    discount: float
    how: counting.Counting
    delta: float
    asked: float
    cautions: tuple[float, ...]
    rng: np.random.Generator
    tilting: bool
    count: int | None = None


def half_plan(halves: tuple[EpisodeLog, EpisodeLog], task: HalfTask) -> HalfPlan:
    """The plan of the first half with the bound that the other half gives it."""
    choosing, judging = halves
    goal, usual = task.planner.goal, task.planner.usual
    budgets = _rounding_down(budgets_for(choosing, task.rewards, task.discount, task.count)[0], choosing, judging)
    chosen = counting.count(choosing, budgets, task.how)
    nodes = goal.nodes(budgets.widths, len(choosing.states))
    weighted = judging.probability is not None
    share = task.delta / (3.0 if weighted else 1.0)
    made = task.planner.boldest_above(task.asked, counting.fixed(chosen, share, nodes), chosen, task.cautions)
    actions, budget = made.tables.actions, made.budget
    counts = counting.count(judging, budgets, task.how)
    model = counting.fixed(counts, share, nodes)
    tables = goal.judge(model, actions)
    bounds = {"half of the episodes": float(goal.values(model, tables)[budget])}
    tilt, promised = None, np.nan
    if weighted:

        def weighed(policy: Policy, by: EpisodeLog, other: EpisodeLog) -> float:
            return sure_at_least(policy, by, other, goal.measure, delta=share, ends=task.ends, discount=task.discount)

        bounds["half, by importance weights"] = weighed(goal.policy(model, actions, usual, budget), judging, choosing)
        if task.tilting and isinstance(goal, TailGoal):
            tilt = tilted(task.planner, choosing, budgets, task.how, weighed, task.rng)
            bounds[TILTED] = weighed(tilt, judging, choosing)
            returns = choosing.returns(task.discount)
            estimate = weigh(tilt, judging, goal.measure, delta=share, ends=task.ends, thresholds=returns).cvar
            promised = bounds[TILTED] if estimate is None else estimate
    promise = goal.promise(counting.doubted(counts), actions, budget)
    lower = max(value for name, value in bounds.items() if name != TILTED)
    return HalfPlan(CautiousPlan(tables, budget, lower, promise, made.caution), model, counts, bounds, tilt, promised)


def _rounding_down(budgets: Budgets, choosing: EpisodeLog, judging: EpisodeLog) -> Budgets:
    """Budgets that depend on the choosing half alone: what the other half adds is rounded down."""
    if budgets.grid.rounding == "down":
        return budgets
    if np.isin(judging.reward, choosing.reward).all():
        return budgets  # nothing is rounded, whichever way
    return replace(budgets, grid=replace(budgets.grid, rounding="down"))
