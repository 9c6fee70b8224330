"""What an iteration of ELA on observations showed, and what it hands out in the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.learning.protocol import mean_return
from tailrank.policies.lowrank import LowRankPolicy
from tailrank.policies.observed import ObservationPolicy


@dataclass(frozen=True)
class ObservedInfo:
    """What happened in an iteration; units are those of rewards."""

    returns: np.ndarray
    objective: float
    bonus_mean: float
    saturated: float
    held_out: float
    latents: int
    refitted: bool
    support_error: float
    converged: bool = True

    def row(self) -> dict[str, Any]:
        """The columns of a row."""
        return mean_return(self.returns) | {
            "objective": self.objective,
            "bonus": self.bonus_mean,
            "saturated": self.saturated,
            "log_likelihood": self.held_out,
            "latents": self.latents,
            "refitted": self.refitted,
            "support_error": self.support_error,
            "converged": self.converged,
        }


@dataclass(frozen=True)
class Output:
    """The policy to use, how it was planned (`OUTPUTS` of `observed/ela.py`), and the score of each candidate.

    episodes: that all of them played for it.
    """

    policy: ObservationPolicy | LowRankPolicy
    prior: float
    caution: float
    scores: tuple[float, ...] = ()
    episodes: int = 0
