"""The settings of CVaR-LSVI (Algorithm 2) as the planner of ELLA."""

from __future__ import annotations

from dataclasses import dataclass

from tailrank import checks
from tailrank._system.settings import Checked, setting

VARIANTS = ("literal", "doubling", "factored")
CLIPS = ("corrected", "printed")


@dataclass(frozen=True)
class LsviSettings(Checked):
    """What both planners of ELLA have; beta is on the scale where a step pays at most 1."""

    iterations: int = setting(60, kind=int, help="T1, the episodes that CVaR-LSVI plays in the model.")
    evaluations: int = setting(100, kind=int, help="T2, the episodes that judge a starting budget.")
    beta: float = setting(0.1, kind=float, check=checks.not_negative, help="Scale of the bonus of CVaR-LSVI.")
    variant: str = setting("factored", words=VARIANTS, help="How budgets are regressed (literal: as printed).")
    clip: str = setting("corrected", words=CLIPS, help="What values are clipped to.")
