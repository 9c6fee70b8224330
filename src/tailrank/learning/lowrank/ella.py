"""ELLA on observations: the learner of `ela.py` that plans by CVaR-LSVI, in counted latents or in a low-rank model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from tailrank._system.settings import fixed, part
from tailrank.envs.protocols import Simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.lowrank.ela import LowRankELA, fitted
from tailrank.learning.lowrank.planning import supported
from tailrank.learning.lowrank.state import LowRankState
from tailrank.planning.lsvi.observed import LatentLsvi
from tailrank.planning.lsvi.support import RewardUnits, SupportModel, plan_support_lsvi
from tailrank.policies.lowrank import Exploration
from tailrank.policies.optimistic import OptimisticPolicy

SOFT = 0.1
"""beta in a low-rank model, as a share of that in counted latents: there a feature is almost a single 1, here it is a
mixture, and optimism that large hides for hundreds of simulated episodes what the mixtures differ in."""


@dataclass(frozen=True)
class LowRankELLA(LowRankELA):
    """ELLA (Algorithm 3): ELA that plans by CVaR-LSVI."""

    planner: LatentLsvi = part(LatentLsvi())
    undominated: bool = fixed(True)  # estimates have no ties

    def prepared(self, env: Simulator, streams: Streams, total: int | None) -> Self:
        """Itself; the planner draws its numbers from the seed of the run."""
        learner = super().prepared(env, streams, total)
        return replace(learner, planner=replace(learner.planner, seed=streams.seed))

    def _planned(
        self, state: LowRankState, simulator: Simulator, exploration: Exploration | None = None
    ) -> OptimisticPolicy:
        """The plan of Algorithm 2 in the low-rank model of the state, with rewards rounded up to `levels` steps."""
        fit, support = fitted(state)
        model = supported(fit, support, exploration)
        units = RewardUnits.of(fit.rewards, self.levels)
        simulated = SupportModel(model.steps, model.start, units, simulator.horizon, model.start_bonus)
        planner = replace(self.planner, beta=SOFT * self.planner.beta)
        measure = None if self.goal.tail else self.measure
        plan, inverse, beta = plan_support_lsvi(planner, simulated, self.tau, state.episodes, measure)
        return OptimisticPolicy(fit.network, plan, exploration, fit.laws, inverse=inverse, beta=beta)
