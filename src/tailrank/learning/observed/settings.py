"""The settings of ELA on observations. Nothing heavy is imported here (`--help` reads it)."""

from __future__ import annotations

from dataclasses import dataclass

from tailrank import checks
from tailrank._system.settings import Checked, setting
from tailrank.checks import InputError

BONUSES = ("elliptical", "visits", "none")
"""On phi, on visits of a pair, or none: to see what the bonus does."""


def _range(value: object, name: str) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise InputError(f"{name} = {value!r:.60}: must be two numbers, the least and the most")
    return checks.number(value[0], name), checks.number(value[1], name)


@dataclass(frozen=True, kw_only=True)
class Observing(Checked):
    """What is played between two plans, what the bonus measures, and the grid of learned rewards."""

    bonus: str = setting("elliptical", words=BONUSES, metavar="|".join(BONUSES), help="What the bonus measures.")
    pilot: int = setting(20, kind=int, metavar="N", help="Random episodes before the first plan.")
    batch: int = setting(1, kind=int, metavar="B", help="Episodes between two plans.")
    growth: float = setting(
        0.0,
        kind=float,
        check=lambda value, name: checks.inside(value, name, "[0, 1]"),
        metavar="P",
        help="Or this share of all so far, if it is more.",
    )
    reward_range: tuple[float, float] | None = setting(
        None, kind=tuple, check=_range, metavar="LOW HIGH", help="What rewards can be."
    )
    undominated: bool = setting(
        True, kind=bool, name="tie_break", help="Of plans with the same CVaR take one with the best mean."
    )
    levels: int = setting(20, kind=int, name="reward_levels", metavar="N", help="Steps of the reward grid.")
