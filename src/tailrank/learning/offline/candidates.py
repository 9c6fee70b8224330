"""Plans of different caution, the one that other records like best, and the one that is returned.

The plan with the best bound is timid: it pays for whatever cannot be excluded of any pair, all at once. The plan of
plain counts is rash: of many pairs that were seen once it takes the luckiest. In between, a plan is made with a few
`nats` of doubt about every pair (`counts.doubted`). How many is chosen by cross-fitting: each half of the episodes
makes a plan of every caution, and the counts of the other half say what it is worth. Whatever made it, a plan is then
judged by the whole balls, which hold for every plan at once, so it may be returned with its own bound.

If the chosen plan is not sure to beat what is asked for (what the log's own policy earns), more cautious ones are
tried, and at last the plan with the best bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailrank.envs.logs.log import EpisodeLog
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.budgets import Budgets
from tailrank.planning.pessimistic.goals import Goal, Masks
from tailrank.planning.pessimistic.induction import SavedTables
from tailrank.planning.pessimistic.model import RecordedModel

CAUTION = (0.1, 0.3, 1.0, 3.0)
"""Nats of doubt that plans are made with, the boldest first."""
MIDDLE = 1.0
FEWEST = 20
"""Episodes below which there are no halves."""
WHOLE = np.inf
"""The caution of the plan that is made with the balls themselves."""
TIE = 1e-9


@dataclass(frozen=True, eq=False)
class CautiousPlan:
    """A plan: its tables in the whole balls, start budget, bound, its value if the counts were true, its caution."""

    tables: SavedTables
    budget: int
    lower: float
    promise: float
    caution: float


@dataclass(frozen=True, eq=False)
class Planner:
    """What all plans of a log have in common: the goal, which actions are allowed [H] [S A], the usual ones [H, S]."""

    goal: Goal
    allowed: Masks
    usual: np.ndarray

    def boldest_above(
        self,
        asked: float,
        model: RecordedModel,
        counts: counting.LogCounts,
        cautions: tuple[float, ...],
        watch: Callable[[int], None] | None = None,
    ) -> CautiousPlan:
        """The boldest plan whose bound in `model` is above `asked`, else the boldest. cautions: increasing."""
        first: CautiousPlan | None = None
        for caution in cautions:
            made = self.goal.plan(_doubted(model, counts, caution), self.allowed, self.usual, watch)
            tables = made if caution == WHOLE else self.goal.judge(model, made.actions)
            hoped, sure = self.goal.values(model, made), self.goal.values(model, tables)
            # Of the budgets to begin with from which the plan is sure to do better, the best one where it was made.
            better = np.flatnonzero(sure > asked)
            if first is None or better.size:
                budget = int(better[hoped[better].argmax()] if better.size else hoped.argmax())
                promise = self.goal.promise(counting.doubted(counts), made.actions, budget)
                found = CautiousPlan(tables, budget, float(sure[budget]), promise, caution)
                if better.size:
                    return found
                first = found
        if first is None:
            raise ValueError("cautions: at least one is needed")
        return first

    def cross_fitted(
        self, halves: tuple[EpisodeLog, EpisodeLog], budgets: Budgets, how: counting.Counting
    ) -> dict[float, float]:
        """What plans of every caution are worth on average by the counts of the half that did not make them.

        Nothing for very few episodes.
        """
        if halves[0].episodes + halves[1].episodes < FEWEST:
            return {}
        counted = [counting.count(half, budgets, how) for half in halves]
        worth = dict.fromkeys(CAUTION, 0.0)
        for made_by, judged_by in (counted, counted[::-1]):
            judging = counting.doubted(judged_by)
            for caution in CAUTION:
                tables = self.goal.plan(counting.doubted(made_by, caution), self.allowed, self.usual)
                budget = int(self.goal.values(judging, tables).argmax())
                worth[caution] += 0.5 * self.goal.promise(judging, tables.actions, budget)
        return worth


def best_caution(worth: dict[float, float]) -> float:
    """The caution that is worth most; of those that tie, and where nothing is known, the one nearest to the middle."""
    most = max(worth.values(), default=0.0)
    tied = [caution for caution, value in worth.items() if value >= most - TIE * (1.0 + abs(most))]
    return min(tied, key=lambda caution: abs(np.log(caution / MIDDLE)), default=MIDDLE)


def _doubted(model: RecordedModel, counts: counting.LogCounts, caution: float) -> RecordedModel:
    return model if caution == WHOLE else counting.doubted(counts, caution)
