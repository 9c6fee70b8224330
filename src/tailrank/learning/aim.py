"""The settings that say what a learner plans for, where it is not the CVaR at tau. Nothing heavy is imported here.

Learners take the measures that are expected utilities of what is left (`risk/measures/reduction.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from tailrank import checks
from tailrank._system.settings import Checked, setting
from tailrank.checks import InputError

if TYPE_CHECKING:
    from tailrank.models.goal import UnitGoal
    from tailrank.models.grid import BudgetGrid
    from tailrank.risk.measures.base import Measure

LEARNED = ("cvar", "mean-cvar", "entropic", "mean-variance", "utility", "target", "mean")
"""Measures that can be learned: OCEs, utilities and targets."""
PARAMETERS = {"weight": "weight", "risk_beta": "beta", "at": "at", "risk_aversion": "risk_aversion", "points": "points"}
"""Settings of `Aim`, and what the parameters of measures are called."""


def _points(value: Any, name: str) -> tuple[str, ...]:
    """Texts R:U, as on the command line."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InputError(f"{name} = {value!r:.60}: must be a list of texts R:U")
    return tuple(":".join(repr(x) for x in _pair(text, name)) for text in value)


def _pair(text: Any, name: str) -> tuple[float, float]:
    first, _, second = str(text).rpartition(":")
    try:
        return float(first), float(second)
    except ValueError:
        raise InputError(f"{name} = {text!r:.60}: must be two numbers with a colon between them, R:U") from None


@dataclass(frozen=True)
class Aim(Checked):
    """The measure that is planned for; parameters that it does not have must be left out. tau is the learner's."""

    objective: str = setting(
        "cvar", words=LEARNED, metavar="|".join(LEARNED), help="Risk measure of the return that is learned for."
    )
    weight: float | None = setting(None, kind=float, metavar="W", help="Weight of the mean (mean-cvar).")
    risk_beta: float | None = setting(None, kind=float, metavar="B", help="Risk aversion (entropic).")
    at: float | None = setting(None, kind=float, metavar="C", help="The return to reach (target).")
    risk_aversion: float | None = setting(None, kind=float, metavar="C", help="Weight of the variance (mean-variance).")
    points: tuple[str, ...] = setting(
        (), kind=tuple, check=_points, metavar="R:U", help="Utility U of a return R; twice or more (utility)."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tail or any(getattr(self, name) not in (None, ()) for name in PARAMETERS):
            self.measure(0.5)  # raises where they do not fit

    @classmethod
    def of(cls, measure: Measure) -> Self:
        """The aim with this measure."""
        return cls(**{name: value for name, value in aim_settings(measure).items() if name != "tau"})

    @property
    def said_as(self) -> str:
        """What its value is called."""
        return "CVaR" if self.tail else self.objective

    @property
    def tail(self) -> bool:
        """Whether it is the CVaR."""
        return self.objective == "cvar"

    def measure(self, tau: float) -> Measure:
        """The measure; raises where a parameter is missing, out of range or not its own."""
        from tailrank.risk.measures.registry import make_measure, measure_class

        given: dict[str, Any] = {}
        for name, parameter in PARAMETERS.items():
            value = getattr(self, name)
            if value not in (None, ()):
                given[parameter] = tuple(_pair(text, name) for text in value) if name == "points" else value
        if "tau" in {f.name for f in fields(measure_class(self.objective))}:
            given["tau"] = tau
        return make_measure(self.objective, given)

    def units(self, tau: float, low: float, unit: float, most: int) -> UnitGoal | None:
        """What planners in units minimise, where 0..most units are earned above `low`; None: the shortfall of CVaR."""
        from tailrank.models.goal import UnitGoal

        return None if self.tail else UnitGoal.of(self.measure(tau), low, unit, most)

    def on(self, tau: float, grid: BudgetGrid, most: int) -> UnitGoal | None:
        """`units` on a grid."""
        return self.units(tau, float(grid.value(0)), float(grid.unit), most)

    def said(self, tau: float, low: float, high: float) -> tuple[str, ...]:
        """What a run notes: the objective and which guarantee holds; nothing for CVaR."""
        if self.tail:
            return ()
        measure = self.measure(tau)
        return (f"objective {measure}: {measure.reduction(low, high).guarantee()}",)


CVAR = Aim()


def aim_settings(measure: Measure) -> dict[str, Any]:
    """The settings of a learner that plans for this measure, tau among them where the measure has one."""
    checks.one_of(measure.name, "objective", LEARNED)
    own = {parameter: name for name, parameter in PARAMETERS.items()}
    found: dict[str, Any] = {"objective": measure.name}
    for parameter, value in measure.parameters().items():
        plain = tuple(f"{x!r}:{u!r}" for x, u in value) if parameter == "points" else value
        found[own.get(parameter, parameter)] = plain
    return found
