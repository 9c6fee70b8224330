"""The plan of one half of the episodes, judged by the other half, which knows nothing of how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailrank.envs.logs.log import EpisodeLog
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.budgets import Budgets, budgets_for
from tailrank.learning.offline.candidates import FEWEST, CautiousPlan, Planner
from tailrank.learning.offline.importance import weigh
from tailrank.planning.pessimistic.model import RecordedModel


@dataclass(frozen=True, eq=False)
class HalfPlan:
    """A plan with the best of its bounds, the judging half's model and counts, and all bounds by name."""

    plan: CautiousPlan
    model: RecordedModel
    counts: counting.LogCounts
    bounds: dict[str, float]


@dataclass(frozen=True, eq=False)
class HalfTask:
    """What is wanted of the half plan: as `learn_logs` has it; asked: the bound that is looked for."""

    planner: Planner
    rewards: tuple[float, float]
    discount: float
    how: counting.Counting
    delta: float
    asked: float
    cautions: tuple[float, ...]
    count: int | None = None


def half_plan(halves: tuple[EpisodeLog, EpisodeLog], task: HalfTask) -> HalfPlan | None:
    """The plan of the first half with the bound that the other half gives it; None for very few episodes."""
    choosing, judging = halves
    if choosing.episodes + judging.episodes < FEWEST:
        return None
    goal, usual = task.planner.goal, task.planner.usual
    budgets = _rounding_down(budgets_for(choosing, task.rewards, task.discount, task.count)[0], choosing, judging)
    chosen = counting.count(choosing, budgets, task.how)
    nodes = goal.nodes(budgets.widths, len(choosing.states))
    weighted = judging.probability is not None
    share = task.delta * (0.5 if weighted else 1.0)
    made = task.planner.boldest_above(task.asked, counting.fixed(chosen, share, nodes), chosen, task.cautions)
    actions, budget = made.tables.actions, made.budget
    counts = counting.count(judging, budgets, task.how)
    model = counting.fixed(counts, share, nodes)
    tables = goal.judge(model, actions)
    bounds = {"half of the episodes": float(goal.values(model, tables)[budget])}
    if weighted:
        policy = goal.policy(model, actions, usual, budget)
        scale = float((task.discount ** np.arange(choosing.horizon)).sum())
        ends = (task.rewards[0] * scale, task.rewards[1] * scale)
        thresholds = choosing.returns(task.discount)[choosing.whole]
        found = weigh(
            policy, judging, goal.measure, delta=share, ends=ends, thresholds=thresholds, discount=task.discount
        )
        bounds["half, by importance weights"] = found.lower
    promise = goal.promise(counting.doubted(counts), actions, budget)
    return HalfPlan(CautiousPlan(tables, budget, max(bounds.values()), promise, made.caution), model, counts, bounds)


def _rounding_down(budgets: Budgets, choosing: EpisodeLog, judging: EpisodeLog) -> Budgets:
    """Budgets that depend on the choosing half alone: what the other half adds is rounded down."""
    if budgets.grid.rounding == "down":
        return budgets
    if np.isin(judging.reward, choosing.reward).all():
        return budgets  # nothing is rounded, whichever way
    return replace(budgets, grid=replace(budgets.grid, rounding="down"))
