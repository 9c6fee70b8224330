"""The plan of one half of the episodes, judged by the other half, which knows nothing of how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailrank.envs.logs.log import EpisodeLog
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.budgets import Budgets, budgets_for
from tailrank.learning.offline.candidates import CautiousPlan, boldest_above, value_of
from tailrank.learning.offline.importance import weigh
from tailrank.planning.pessimistic.induction import judge, policy_of, shortfall_of
from tailrank.planning.pessimistic.model import RecordedModel

FEWEST = 20
"""Episodes below which there are no halves."""


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

    rewards: tuple[float, float]
    discount: float
    how: counting.Counting
    tau: float
    delta: float
    allowed: tuple[np.ndarray, ...]
    usual: np.ndarray
    asked: float
    cautions: tuple[float, ...]
    count: int | None = None


def half_plan(log: EpisodeLog, task: HalfTask, rng: np.random.Generator) -> HalfPlan | None:
    """The plan of a random half with the bound that the other half gives it; None for very few episodes."""
    if log.episodes < FEWEST:
        return None
    choosing, judging = log.halves(rng)
    tau, discount, usual = task.tau, task.discount, task.usual
    budgets = _rounding_down(budgets_for(choosing, task.rewards, discount, task.count)[0], choosing, judging)
    chosen = counting.count(choosing, budgets, task.how)
    nodes = int(len(log.states) * budgets.widths[:-1].sum())
    weighted = judging.probability is not None
    share = task.delta * (0.5 if weighted else 1.0)
    guess = counting.fixed(chosen, share, nodes)
    made = boldest_above(task.asked, guess, counting.plain(chosen), task.allowed, usual, tau, task.cautions)
    actions, budget = made.tables.actions, made.budget
    counts = counting.count(judging, budgets, task.how)
    model = counting.fixed(counts, share, nodes)
    tables = judge(model, actions)
    bounds = {"half of the episodes": value_of(model, shortfall_of(tables), budget, tau)}
    if weighted:
        policy = policy_of(model, actions, usual, budget)
        scale = float((discount ** np.arange(log.horizon)).sum())
        ends = (task.rewards[0] * scale, task.rewards[1] * scale)
        thresholds = choosing.returns(discount)[choosing.whole]
        found = weigh(policy, judging, tau, delta=share, ends=ends, thresholds=thresholds, discount=discount)
        bounds["half, by importance weights"] = found.lower
    promise = value_of(model, shortfall_of(judge(counting.plain(counts), actions)), budget, tau)
    return HalfPlan(CautiousPlan(tables, budget, max(bounds.values()), promise, made.caution), model, counts, bounds)


def _rounding_down(budgets: Budgets, choosing: EpisodeLog, judging: EpisodeLog) -> Budgets:
    """Budgets that depend on the choosing half alone: what the other half adds is rounded down."""
    if budgets.grid.rounding == "down":
        return budgets
    if np.isin(judging.reward, choosing.reward).all():
        return budgets  # nothing is rounded, whichever way
    return replace(budgets, grid=replace(budgets.grid, rounding="down"))
