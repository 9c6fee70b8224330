"""Plans of different caution for one model, and the one that is returned.

The most cautious plan has the best bound, and is timid: it pays for whatever cannot be excluded of any pair, all at
once. A plan made with smaller balls does better in most of the models that are left, and is sure of less. All are
judged by the whole balls, which hold for every plan at once, so any of them may be returned with its own bound. It is
the boldest whose bound is above what is asked for (what the log's own policy earns), or if there is none the boldest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tailrank.planning.pessimistic.induction import SavedTables, best_budget, judge, plan_pessimistic, shortfall_of
from tailrank.planning.pessimistic.model import RecordedModel

CAUTION = (0.05, 0.1, 0.2, 0.4, 1.0)
"""Parts of the radius that plans are made with, the boldest first."""


@dataclass(frozen=True, eq=False)
class CautiousPlan:
    """A plan: what it saves for sure, its start budget, its bound, and its CVaR if the counts were the truth."""

    tables: SavedTables
    budget: int
    lower: float
    promise: float
    caution: float


def boldest_above(
    asked: float,
    model: RecordedModel,
    counted: RecordedModel,
    allowed: tuple[np.ndarray, ...],
    usual: np.ndarray,
    tau: float,
    cautions: tuple[float, ...] = CAUTION,
    watch: Callable[[int], None] | None = None,
) -> CautiousPlan:
    """The boldest plan whose bound is above `asked`, else the boldest. counted: the same counts as if they were
    true.
    """
    first: CautiousPlan | None = None
    for caution in cautions:
        made = plan_pessimistic(shrunk(model, caution), allowed, usual, watch)
        tables = made if caution == 1.0 else judge(model, made.actions)
        short, likely = shortfall_of(tables), shortfall_of(judge(counted, made.actions))
        # A plan begins with the budget that is best where it was made, or where it is judged.
        for budget in dict.fromkeys(best_budget(model, shortfall_of(one), tau)[0] for one in (made, tables)):
            lower, promise = (value_of(model, curve, budget, tau) for curve in (short, likely))
            found = CautiousPlan(tables, budget, lower, promise, caution)
            if lower > asked:
                return found
            first = first or found
    if first is None:
        raise ValueError("cautions: at least one is needed")
    return first


def value_of(model: RecordedModel, shortfall: np.ndarray, budget: int, tau: float) -> float:
    """b - V(b) / tau in reward units, at one budget of a curve [W_0 + 1]: no more than CVaR_tau."""
    return float(model.grid.value(budget)) - float(model.grid.unit) * float(shortfall[budget]) / tau


def shrunk(model: RecordedModel, part: float) -> RecordedModel:
    """The model with balls of a part of their radius."""
    if part == 1.0:
        return model
    steps = {id(step): replace(step, radius=part * step.radius) for step in model.steps}
    start = replace(model.start, radius=part * model.start.radius)
    return replace(model, steps=tuple(steps[id(step)] for step in model.steps), start=start)
