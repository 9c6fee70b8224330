"""A plan of some episodes, judged by the others, which know nothing of how it was chosen.

The first half of the episodes, drawn at random, makes a plan and says how many judges it needs: as if the others looked
the same, the bound by fewer of them is computed, and as many as leave half of its distance to what is asked for join
those that make the plan. So where records are many, most of them make the plan. The share depends on the first half
alone, so the judges still know nothing of the plan. Steps from the behaviour keep to the halves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailrank.envs.logs.log import EpisodeLog
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.behaviour import behaviour_of
from tailrank.learning.offline.budgets import Budgets, budgets_for
from tailrank.learning.offline.candidates import USUAL, CautiousPlan, Planner, cautions_from
from tailrank.learning.offline.coverage import usual_actions
from tailrank.learning.offline.importance import sure_at_least, weigh
from tailrank.learning.offline.tilted import Bound, tilted
from tailrank.planning.pessimistic.goals import TailGoal
from tailrank.planning.pessimistic.model import RecordedModel
from tailrank.policies.tables import ClonedPolicy, Policy

APART, WEIGHTED, TILTED = "held-out episodes", "held-out episodes, by weights", "a step from the behaviour"
SHARES = (0.9, 0.8, 0.7, 0.6)
"""Of the episodes that may make the plan, where half of them are more than its judge needs."""
KEPT = 0.5
"""Part of the distance between bound and what is asked for that fewer episodes must leave."""


@dataclass(frozen=True, eq=False)
class SplitPlan:
    """A plan with the best of its bounds, the judges' model and counts, and all bounds by name.

    by_all: its value if the counts of all episodes were the truth. tilted: a step from the behaviour, where the log has
    probabilities; its bound is that of the name TILTED, and promised what it earns by the weighted returns of its
    judges.
    """

    plan: CautiousPlan
    model: RecordedModel
    counts: counting.LogCounts
    bounds: dict[str, float]
    by_all: float
    tilted: ClonedPolicy | None = None
    promised: float = np.nan


@dataclass(frozen=True, eq=False)
class SplitTask:
    """What is wanted, as `finite` has it. delta: of the bounds; own: of the log's own interval; caution: None for
    as little as is sure; tilting: a step from the behaviour is wanted too; count: budgets at the first step."""

    planner: Planner
    rewards: tuple[float, float]
    ends: tuple[float, float]
    discount: float
    how: counting.Counting
    delta: float
    own: float
    caution: float | None
    tilting: bool
    count: int | None


@dataclass(frozen=True, eq=False)
class _FirstPlan:
    """A plan, with the episodes and the budgets that made it, the usual actions there, and their balls, which are as
    large as those of as many judges."""

    plan: CautiousPlan
    choosing: EpisodeLog
    budgets: Budgets
    usual: np.ndarray
    model: RecordedModel


def split_plan(log: EpisodeLog, order: np.ndarray, task: SplitTask, rng: np.random.Generator) -> SplitPlan:
    """The plan of the first episodes of an order [n], with the bound that the others give it; rng: of quarters."""
    goal, weighted = task.planner.goal, log.probability is not None
    delta = task.delta / (3.0 if weighted else 1.0)
    first, judging = halves = _parts(log, order, 0.5)
    asked = behaviour_of(first, goal.measure, task.own, task.ends, task.discount).high
    made = _made(first, task, delta, asked)
    share = _share(made, task, asked)
    if share > 0.5:
        choosing, judging = _parts(log, order, share)
        made = _made(choosing, task, delta, asked)
    plan, budgets = made.plan, _rounding_down(made.budgets, made.choosing, judging)
    counts = counting.count(judging, budgets, task.how)
    model = counting.fixed(counts, delta, goal.nodes(budgets.widths, len(log.states)))
    judged = goal.judge(model, goal.shifted(plan.actions, plan.less))
    bounds = {APART: float(goal.values(model, judged)[plan.budget - plan.less])}

    def weighed(policy: Policy, by: EpisodeLog, other: EpisodeLog) -> float:
        return sure_at_least(policy, by, other, goal.measure, delta=delta, ends=task.ends, discount=task.discount)

    if weighted:
        bounds[WEIGHTED] = weighed(goal.policy(model, plan.actions, made.usual, plan.budget), judging, made.choosing)
    lower = max(bounds.values())
    promise, by_all = (
        goal.promise(counting.doubted(one), plan.actions, plan.budget)
        for one in (counts, counting.count(log, budgets, task.how))
    )
    found = SplitPlan(replace(plan, judged=judged, lower=lower, promise=promise), model, counts, bounds, by_all)
    if not (weighted and task.tilting and isinstance(goal, TailGoal)):
        return found
    tilt, sure, promised = _stepped(halves, task, weighed, delta, rng)
    return replace(found, bounds=bounds | {TILTED: sure}, tilted=tilt, promised=promised)


def _made(choosing: EpisodeLog, task: SplitTask, delta: float, asked: float) -> _FirstPlan:
    """The plan of these episodes alone: what was usual elsewhere is not known here."""
    planner = replace(task.planner, usual=usual_actions(choosing))
    budgets = budgets_for(choosing, task.rewards, task.discount, task.count)[0]
    counts = counting.count(choosing, budgets, task.how)
    model = counting.fixed(counts, delta, planner.goal.nodes(budgets.widths, len(choosing.states)))
    cautions = cautions_from(USUAL) if task.caution is None else (task.caution,)
    return _FirstPlan(
        planner.best_above(asked, model, counts, cautions, cautions[0]), choosing, budgets, planner.usual, model
    )


def _share(made: _FirstPlan, task: SplitTask, asked: float) -> float:
    """The largest share of the episodes that may make the plan; 1/2 where its bound is not above what is asked for."""
    goal, plan = task.planner.goal, made.plan
    spare = plan.lower - asked
    for share in SHARES if spare > 0.0 else ():
        fewer = made.model.doubted(0.5 / (1.0 - share))
        lower = goal.values(fewer, goal.judge(fewer, plan.judged.actions))[plan.budget - plan.less]
        if lower - asked >= KEPT * spare:
            return share
    return 0.5


def _stepped(
    halves: tuple[EpisodeLog, EpisodeLog], task: SplitTask, weighed: Bound, delta: float, rng: np.random.Generator
) -> tuple[ClonedPolicy, float, float]:
    """A step from the behaviour by one half, what it earns at least and about, both by the other half."""
    first, judging = halves
    budgets = _rounding_down(budgets_for(first, task.rewards, task.discount, task.count)[0], first, judging)
    planner = replace(task.planner, usual=usual_actions(first))
    step = tilted(planner, first, budgets, task.how, weighed, rng)
    sure, returns = weighed(step, judging, first), first.returns(task.discount)
    about = weigh(step, judging, planner.goal.measure, delta=delta, ends=task.ends, thresholds=returns).cvar
    return step, sure, sure if about is None else about


def _parts(log: EpisodeLog, order: np.ndarray, share: float) -> tuple[EpisodeLog, EpisodeLog]:
    """The first episodes of an order, and the others."""
    end = int(share * log.episodes)
    return log.subset(np.sort(order[:end])), log.subset(np.sort(order[end:]))


def _rounding_down(budgets: Budgets, choosing: EpisodeLog, judging: EpisodeLog) -> Budgets:
    """Budgets that depend on the choosing episodes alone: what the others add is rounded down."""
    if budgets.grid.rounding == "down":
        return budgets
    if np.isin(judging.reward, choosing.reward).all():
        return budgets  # nothing is rounded, whichever way
    return replace(budgets, grid=replace(budgets.grid, rounding="down"))
