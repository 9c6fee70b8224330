"""ELA with one part taken away or changed: Rep-UCB plans for the mean, two ablations explore without a bonus."""

from __future__ import annotations

from dataclasses import dataclass

from tailrank._system.settings import fixed
from tailrank.learning.aim import CVAR, Aim
from tailrank.learning.ela.bonus import BonusRule, none
from tailrank.learning.ela.ela import ELA
from tailrank.learning.ela.settings import Collect
from tailrank.learning.schedule import PRACTICAL, Schedule


@dataclass(frozen=True)
class RepUCB(ELA):
    """Rep-UCB (Uehara et al. 2022): ELA for the mean."""

    goal: Aim = fixed(CVAR)
    aim: float | None = fixed(1.0)


@dataclass(frozen=True)
class Greedy(ELA):
    """ELA without bonus."""

    schedule: Schedule = PRACTICAL
    bonus: BonusRule = none


@dataclass(frozen=True)
class Uniform(Greedy):
    """Uniform actions, then ELA's plan without bonus."""

    collect: Collect = fixed("uniform")
