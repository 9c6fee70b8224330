"""Plans of different caution, the one that other records like best, and the one that is returned.

The plan with the best bound is timid: it pays for whatever cannot be excluded of any pair, all at once. The plan of
plain counts is rash: of many pairs that were seen once it takes the luckiest. In between, a plan is made with a few
`nats` of doubt about every pair (`counts.doubted`). How many is chosen by cross-fitting: each half of the episodes
makes a plan of every caution, and the counts of the other half say what it is worth. Halves are drawn several times,
and a little doubt is left for another only if that is better by two standard errors. Whatever made it, a plan is then
judged by the whole balls, which hold for every plan at once, so it may be returned with its own bound.

If the chosen plan is not sure to beat what is asked for (what the log's own policy earns), other budgets to begin with
and more cautious plans are looked at, up to the one with the best bound: of those that are sure, the one that is worth
most if the counts are true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tailrank.envs.logs.log import EpisodeLog
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.budgets import Budgets
from tailrank.planning.pessimistic.goals import Goal, Masks
from tailrank.planning.pessimistic.induction import SavedTables
from tailrank.planning.pessimistic.model import RecordedModel

CAUTION = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Nats of doubt that plans are made with, the boldest first."""
USUAL = 0.1
"""What is taken where the records do not say which is better: next to nothing, but for pairs that were seen once."""
SURE = 2.0
"""Standard errors by which another caution must be worth more."""
REPEATS, FEWER, CHEAP = 4, 2, 2e7
"""How often halves are drawn, and for plans of that many outcomes times budgets."""
FEWEST = 20
"""Episodes below which there are no halves."""
WHOLE = np.inf
"""The caution of the plan that is made with the balls themselves."""
TRIED = 16
"""Budgets to begin with that are compared, where not all of them have a bound that is high enough."""
NEAR = 0.01
"""Part of what plans promise above what is asked for that a better bound is worth."""
TIE = 1e-9
Told = Callable[[str, float], None]
"""As `Watch` of `finite`."""


@dataclass(frozen=True, eq=False)
class CautiousPlan:
    """A plan: its actions, start budget, bound, its value if the counts were true, its caution.

    judged: its tables in the whole balls, by budgets that are `less` units less than its own. bent: it is not
    the one that was wanted, or begins with another budget than what is best where it was made, for a higher bound.
    """

    actions: Masks
    budget: int
    judged: SavedTables
    less: int
    lower: float
    promise: float
    caution: float
    bent: bool


@dataclass(frozen=True, eq=False)
class Planner:
    """What all plans of a log have in common: the goal, which actions are allowed [H] [S A], the usual ones [H, S]."""

    goal: Goal
    allowed: Masks
    usual: np.ndarray

    def best_above(
        self,
        asked: float,
        model: RecordedModel,
        counts: counting.LogCounts,
        cautions: tuple[float, ...],
        wanted: float,
        watch: Callable[[int], None] | None = None,
    ) -> CautiousPlan:
        """The plan of the wanted caution, if its bound in `model` is above `asked` or no plan's is; otherwise, of all
        plans whose bound is above, the one that is worth most if the counts are true. cautions: increasing; the wanted
        one is the first, unless it is known already that another will be chosen, which then stands alone.

        No plan has a better bound than the most cautious, so that one says whether to look at those in between.
        """

        def made(caution: float) -> CautiousPlan:
            return self._made(caution, wanted, asked, model, counts, watch)

        first = made(cautions[0])
        if len(cautions) == 1 or (first.lower > asked and not first.bent):
            return first
        surest = made(cautions[-1])
        if not surest.lower > asked:
            return first
        found = [plan for plan in (first, *map(made, cautions[1:-1]), surest) if plan.lower > asked]
        return found[preferred([plan.promise for plan in found], [plan.lower for plan in found], asked)]

    def _made(
        self,
        caution: float,
        wanted: float,
        asked: float,
        model: RecordedModel,
        counts: counting.LogCounts,
        watch: Callable[[int], None] | None,
    ) -> CautiousPlan:
        """The plan of a caution with its bound in `model`. The wanted plan begins with the budget that is best where it
        was made. If its bound is then not above `asked`, and for other cautions, it is bent: it begins with that of the
        budgets whose bound is above from which it is worth most if the counts are true."""
        made = self.goal.plan(_doubted(model, counts, caution), self.allowed, self.usual, watch)
        plain = counting.doubted(counts)

        def promise(budget: int) -> float:
            return self.goal.promise(plain, made.actions, budget)

        budget = int(self.goal.values(model, made).argmax())
        sure, less = self._surely(model, made.actions)
        better = np.flatnonzero(sure > asked)
        bent = bool(better.size) and not (caution == wanted and sure[budget] > asked)
        if bent:
            some = better[np.unique(np.linspace(0, better.size - 1, TRIED).astype(np.int64))]
            budget = int(some[preferred([promise(int(one)) for one in some], sure[some], asked)])
        by = int(less[budget])
        judged = self.goal.judge(model, self.goal.shifted(made.actions, by))
        return CautiousPlan(made.actions, budget, judged, by, float(sure[budget]), promise(budget), caution, bent)

    def _surely(self, model: RecordedModel, actions: Masks) -> tuple[np.ndarray, np.ndarray]:
        """The best bound of a plan from every start budget, and the shift of the judge that gives it, both [n]."""
        sure, less = np.empty(0), np.empty(0, dtype=np.int64)
        for by in self.goal.shifts(model):
            found = self.goal.values(model, self.goal.judge(model, self.goal.shifted(actions, by)))
            if by == 0:
                sure, less = found, np.zeros(found.size, dtype=np.int64)
            better = np.flatnonzero(found[: found.size - by] > sure[by:]) + by
            sure[better], less[better] = found[better - by], by
        return sure, less

    def cross_fitted(
        self,
        log: EpisodeLog,
        budgets: Budgets,
        how: counting.Counting,
        rng: np.random.Generator,
        told: Told | None = None,
    ) -> list[list[float]]:
        """What plans of each caution are worth by the counts of the half that did not make them, [R, len(CAUTION)]: the
        mean over the two halves, for R ways to draw them.

        Nothing for very few episodes.
        """
        if log.episodes < FEWEST:
            return []
        cost = counting.count(log, budgets, how).outcomes * float(budgets.widths.sum())
        worth = np.zeros((REPEATS if cost < CHEAP else FEWER, len(CAUTION)))
        for i, row in enumerate(worth):
            counted = [counting.count(half, budgets, how) for half in log.halves(rng)]
            for j, (made_by, judged_by) in enumerate((counted, counted[::-1])):
                judging = counting.doubted(judged_by)
                for k, caution in enumerate(CAUTION):
                    tables = self.goal.plan(counting.doubted(made_by, caution), self.allowed, self.usual)
                    budget = int(self.goal.values(judging, tables).argmax())
                    row[k] += 0.5 * self.goal.promise(judging, tables.actions, budget)
                    if told is not None:
                        told("cross-fitting", (2 * i + j + (k + 1) / len(CAUTION)) / (2 * len(worth)))
        return worth.tolist()


def preferred(promised: Sequence[float], lower: Sequence[float] | np.ndarray, asked: float) -> int:
    """Which of some plans to return: the one that promises most, or one with a better bound that promises as much but
    for a hundredth of what there is above `asked`."""
    most = max(promised)
    near = [i for i, one in enumerate(promised) if one >= most - NEAR * max(most - asked, 0.0)]
    return max(near, key=lambda i: lower[i])


def best_caution(worth: Sequence[Sequence[float]]) -> float:
    """The caution that is surely worth most, of cross-fitted worths [R, len(CAUTION)]; USUAL unless another is worth
    more by two standard errors."""
    if len(worth) < 2:
        return USUAL
    gain = np.asarray(worth) - np.asarray(worth)[:, [CAUTION.index(USUAL)]]
    sure = gain.mean(axis=0) - SURE * gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
    most = int(sure.argmax())
    scale = 1.0 + float(np.abs(worth).max())
    return CAUTION[most] if sure[most] > TIE * scale else USUAL


def cautions_from(least: float) -> tuple[float, ...]:
    """The least caution and all that are larger."""
    return tuple(caution for caution in (*CAUTION, WHOLE) if caution >= least)


def _doubted(model: RecordedModel, counts: counting.LogCounts, caution: float) -> RecordedModel:
    return model if caution == WHOLE else counting.doubted(counts, caution)
