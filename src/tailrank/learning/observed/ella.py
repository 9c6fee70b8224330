"""ELLA on observations: the learner of `learning/observed/ela.py` that plans by CVaR-LSVI in its counted latents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from tailrank._system.settings import fixed, part
from tailrank.envs.protocols import Simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.observed.ela import ObservedELA
from tailrank.planning.lsvi.observed import LatentLsvi
from tailrank.planning.observed.planner import ObservedPlanner


@dataclass(frozen=True)
class ObservedELLA(ObservedELA):
    """ELLA (Algorithm 3): ELA that plans by CVaR-LSVI."""

    planner: ObservedPlanner = part(LatentLsvi())
    undominated: bool = fixed(True)

    def prepared(self, env: Simulator, streams: Streams, total: int | None) -> Self:
        """Itself; the planner draws its numbers from the seed of the run."""
        learner = super().prepared(env, streams, total)
        return replace(learner, planner=replace(learner.planner, seed=streams.seed))  # type: ignore[type-var]
