"""What a risk measure is: a function of a law, and a way to the policy for which it is best.

A measure says what a return R is worth (larger is better). It is **monotone**: more in every outcome is worth at least
as much. That is what makes brackets certain: rewards rounded up bound the best value from above, a policy's own return,
moved down by what rounding may hide, bounds it from below.

`Measure.plan` says how the search for the best policy reduces to a `BudgetEngine`, which carries one idea: with the
terminal reward f(b) and the budget b' = b - reward, one backward induction gives max over policies of E f(b - R) for
all starting budgets b at once. Measures that need no budget (entropic, mean, worst case) are backups of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from tailrank.checks import InputError
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.reduction import Reduction, certainty

Terminal = Callable[[np.ndarray], np.ndarray]
"""f(b) for real budgets b [n] that are left at the end."""


@dataclass(frozen=True)
class BestPolicy:
    """A policy of the engine, what it is worth there at least, and what no policy exceeds there.

    budget: the starting budget, where there is one.
    """

    policy: Any
    value: float
    upper: float
    budget: float | None = None


class BudgetTable(Protocol):
    """The best E f(b - R) at each starting budget: budgets [C] increasing, values [C]."""

    @property
    def budgets(self) -> np.ndarray:
        """Starting budgets, increasing, [C]."""
        ...

    @property
    def values(self) -> np.ndarray:
        """The best E f(b - R) from each, [C]."""
        ...

    def policy(self, i: int) -> Any:
        """The policy that attains values[i] from budgets[i]."""
        ...


class TailTable(Protocol):
    """For every budget b [C]: a policy with the least E(b - R)^+ - weight E R, and its shortfall [C] and mean [C]."""

    @property
    def budgets(self) -> np.ndarray:
        """Budgets b, increasing, [C]."""
        ...

    @property
    def shortfall(self) -> np.ndarray:
        """E(b - R)^+ of the policy at each, [C]."""
        ...

    @property
    def means(self) -> np.ndarray:
        """E R of the policy at each, [C]."""
        ...

    def policy(self, i: int) -> Any:
        """The policy behind entry i."""
        ...


class BudgetEngine(Protocol):
    """Best policies of one MDP."""

    @property
    def low(self) -> float:
        """The least return."""
        ...

    @property
    def high(self) -> float:
        """The largest return."""
        ...

    def allowed(self, value: float) -> float:
        """How far an upper bound may be above this value."""
        ...

    def table(self, terminal: Terminal, first: float, last: float | None = None) -> BudgetTable:
        """The induction with terminal reward f, from all budgets first..last of the grid (or exactly `first`).

        Where two actions are worth the same, the one with the larger mean is taken.
        """
        ...

    def tails(self, weight: float = 0.0) -> TailTable:
        """The induction on shortfalls, less `weight` times the mean, from all budgets."""
        ...

    def exponential(self, beta: float) -> BestPolicy:
        """The best -log E exp(-beta R) / beta."""
        ...

    def mean(self) -> BestPolicy:
        """The best E R."""
        ...

    def worst(self) -> BestPolicy:
        """The largest return that can be had for certain."""
        ...

    def law(self, policy: Any) -> ReturnLaw:
        """The return law of a policy of this engine."""
        ...

    def may_go_on(self) -> bool:
        """Whether there is time left to narrow a bracket."""
        ...


@dataclass(frozen=True)
class Measure(ABC):
    """A risk measure. Its fields are its parameters; they are checked when it is made."""

    name: ClassVar[str]
    """On the command line, after --objective."""
    budgets: ClassVar[bool] = True
    """Whether its policy looks at a budget; without one, no grid is needed and the answer is exact for any rewards."""

    @abstractmethod
    def of_law(self, law: ReturnLaw) -> float:
        """The measure of a law."""

    @abstractmethod
    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """The best policy of the engine."""

    def reduction(self, low: float, high: float) -> Reduction:
        """The measure as an expected utility, for learners, where returns lie between `low` and `high`."""
        raise InputError(
            f"objective = {self.name}: cannot be learned, it is no OCE, utility or target; known are cvar, mean-cvar, "
            "entropic, mean-variance, utility, target, mean"
        )

    def of(self, values: object, probs: object = None) -> float:
        """The measure of the law with these values [n] and probabilities [n] (omitted: of a sample)."""
        return self.of_law(ReturnLaw.of(values, probs))

    def parameters(self) -> dict[str, Any]:
        """The parameters as plain data."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __str__(self) -> str:
        """Its name with its parameters, such as `entropic beta 0.5`."""
        return " ".join([self.name, *(f"{k.replace('_', '-')} {_plain(v)}" for k, v in self.parameters().items())])


def a_measure(objective: object) -> Measure:
    """The objective, which must be a measure."""
    if not isinstance(objective, Measure):
        raise InputError(f"objective = {objective!r:.60}: must be a measure, such as MeanCVaR(0.1, weight=0.5)")
    return objective


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(":".join(map(_plain, x)) if isinstance(x, tuple) else _plain(x) for x in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Certainty(Measure):
    """An optimised certainty equivalent, OCE_u(R) = max_b { b + E u(R - b) }.

    u: concave, non-decreasing, u(0) = 0 and 1 in its slopes at 0. After the maximum over policies the objective is
    not concave in b, so every budget is looked at.
    """

    @abstractmethod
    def utility(self, t: np.ndarray) -> np.ndarray:
        """u(t), for t [n]."""

    def bend(self) -> float:
        """The largest -u'' away from kinks at 0. Where it is zero, a best budget is an attainable return."""
        return 0.0

    def reduction(self, low: float, high: float) -> Reduction:
        """Itself. u is concave: none of its slopes exceeds that of the secant just left of -(high - low)."""
        far = np.array([-1.001, -1.0]) * max(high - low, 1e-9)
        return certainty(self.utility, float(np.diff(self.utility(far))[0] / np.diff(far)[0]))

    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """b + max over policies of E u(R - b) at all attainable b, and between them where u bends.

        On an interval of width w between two budgets, b + E u(R - b) of any policy lies at most bend w^2 / 8 above the
        line between its ends; intervals for which that is not small enough are halved.
        """

        def left(b: np.ndarray) -> np.ndarray:
            return self.utility(-b)

        table = engine.table(left, engine.low, engine.high)
        objective = table.budgets + table.values
        i = int(np.argmax(objective))
        best = BestPolicy(table.policy(i), float(objective[i]), float(objective[i]), float(table.budgets[i]))
        if self.bend() == 0.0 or table.budgets.size == 1:
            return best
        ends = list(zip(table.budgets[:-1], table.budgets[1:], objective[:-1], objective[1:], strict=True))
        while True:
            bounds = [max(u, v) + self.bend() * (b - a) ** 2 / 8 for a, b, u, v in ends]
            upper = max(best.value, *bounds)
            if upper - best.value <= engine.allowed(best.value) or not engine.may_go_on():
                return BestPolicy(best.policy, best.value, upper, best.budget)
            a, b, u, v = ends.pop(int(np.argmax(bounds)))
            middle = 0.5 * (a + b)
            single = engine.table(left, middle)
            w = middle + float(single.values[0])
            if w > best.value:
                best = BestPolicy(single.policy(0), w, w, middle)
            ends += [(a, middle, u, w), (middle, b, w, v)]
