"""What the records support: which pairs they hold, where the plan goes, and which pairs cost most of its bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailrank.envs.logs.log import EpisodeLog
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.candidates import CautiousPlan
from tailrank.planning.pessimistic.goals import Goal
from tailrank.planning.pessimistic.model import RecordedModel

RARE = 10
"""Visits below which a pair is rare."""
TOP = 10
"""Pairs that are listed."""
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0, 16.0)
CHEAP = 2e8
"""Products below which the bound is computed again for logs of other lengths."""


@dataclass(frozen=True)
class Coverage:
    """pairs: seen and possible; least, median: visits of seen pairs.

    rare, unseen: the share of the plan's steps (in the counted model) on pairs with fewer than ten visits, and with
    none; None where it is not known.
    """

    seen_pairs: int
    possible_pairs: int
    least: int
    median: float
    rare: float | None = None
    unseen: float | None = None

    @property
    def share(self) -> float:
        """Of the possible pairs that were seen."""
        return self.seen_pairs / max(self.possible_pairs, 1)


def seen_pairs(log: EpisodeLog) -> np.ndarray:
    """How often each action was taken in each state, [S, A]."""
    S, A = len(log.states), len(log.actions)
    return np.bincount(log.state.astype(np.int64) * A + log.action, minlength=S * A).reshape(S, A)


def usual_actions(log: EpisodeLog) -> np.ndarray:
    """The admissible action taken most often in each state, [H, S]."""
    seen = seen_pairs(log)
    allowed = seen if log.admissible is None else np.where(log.admissible, seen, -1)
    return np.tile(allowed.argmax(axis=1), (log.horizon, 1))


def action_shares(log: EpisodeLog) -> np.ndarray:
    """How often each action was taken in each state, as shares [S, A]; those of all states where it was never met."""
    seen = seen_pairs(log).astype(np.float64)
    seen[seen.sum(axis=1) == 0] = seen.sum(axis=0)
    return seen / seen.sum(axis=1, keepdims=True)


def coverage_of(
    log: EpisodeLog,
    counts: counting.LogCounts,
    model: RecordedModel,
    plan: CautiousPlan,
    goal: Goal,
    delta: float | None,
) -> tuple[Coverage, dict[str, Any]]:
    """What the log covers and the diagnostics of the plan; delta: of bounds for other numbers of
    episodes, None for none."""
    seen = seen_pairs(log).ravel()
    went = goal.reach(model, replace(plan.judged, actions=plan.actions), plan.budget)
    cost = goal.reach(model, plan.judged, plan.budget - plan.less).cost if plan.less else went.cost
    total = float(went.visits.sum()) or 1.0
    visits = went.visits.sum(axis=0)
    possible = seen.size if log.admissible is None else int(log.admissible.sum())
    some = seen[seen > 0]
    coverage = Coverage(
        int((seen > 0).sum()),
        possible,
        int(some.min()),
        float(np.median(some)),
        float(visits[(seen > 0) & (seen < RARE)].sum() / total),
        float(visits[seen == 0].sum() / total),
    )
    diagnostics: dict[str, Any] = {
        "costly_pairs": _costly(log, cost.sum(axis=0), visits, seen),
        "bound_by_episodes": [] if delta is None else _by_episodes(log, counts, goal, delta),
    }
    return coverage, diagnostics


def _costly(log: EpisodeLog, cost: np.ndarray, visits: np.ndarray, seen: np.ndarray) -> list[dict[str, Any]]:
    """The pairs that take most off the bound, in units of the objective."""
    order = [int(k) for k in np.argsort(-cost, kind="stable")[:TOP] if cost[k] > 0.0]
    A = len(log.actions)
    return [
        {
            "state": log.states[k // A],
            "action": log.actions[k % A],
            "cost": float(cost[k]),
            "visits_of_plan": float(visits[k]),
            "visits_in_log": int(seen[k]),
        }
        for k in order
    ]


def _by_episodes(log: EpisodeLog, counts: counting.LogCounts, goal: Goal, delta: float) -> list[dict[str, float]]:
    """The bound that a log of other length would give if it looked the same: computed, not measured."""
    work = counts.steps[0].count.size * float(counts.budgets.widths.sum())
    if work * len(FACTORS) > CHEAP:
        return []
    usual = usual_actions(log)
    pairs = len(log.states) * len(log.actions)
    allowed = (np.ones(pairs, dtype=bool),) * log.horizon
    rows = []
    for factor in FACTORS:
        model = counting.every_law(counts.scaled(factor), delta)
        tables = goal.plan(model, allowed, usual)
        value = float(goal.values(model, tables).max())
        rows.append({"episodes": float(round(log.episodes * factor)), "lower": value})
    return rows
