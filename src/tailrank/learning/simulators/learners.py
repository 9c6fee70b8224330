"""The learners on simulators that are made of candidates."""

from __future__ import annotations

from dataclasses import dataclass

from tailrank._system.settings import part
from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.gradient.candidate import GradientCandidate
from tailrank.learning.lowrank.candidate import LowRankCandidate
from tailrank.learning.search.candidate import MOST_PARAMETERS, SearchCandidate
from tailrank.learning.shortfall.candidate import ShortfallCandidate
from tailrank.learning.simulators.candidates import LearningCandidate
from tailrank.learning.simulators.kernel import KernelCandidate
from tailrank.learning.simulators.learner import CandidatesLearner
from tailrank.learning.simulators.state import CandidatesState


@dataclass(frozen=True)
class KernelLearner(CandidatesLearner):
    """A kernel model of the simulator, planned in for every budget."""

    kernel: KernelCandidate = part(KernelCandidate())

    def candidates(self, env: Simulator) -> tuple[LearningCandidate, ...]:
        """The kernel model."""
        return (self.kernel,)


@dataclass(frozen=True)
class ShortfallLearner(CandidatesLearner):
    """A network that learns the shortfall of every budget at once."""

    network: ShortfallCandidate = part(ShortfallCandidate())

    def candidates(self, env: Simulator) -> tuple[LearningCandidate, ...]:
        """The network."""
        return (self.network,)


@dataclass(frozen=True)
class SearchLearner(CandidatesLearner):
    """A small policy, improved by searching in a model of the simulator."""

    search: SearchCandidate = part(SearchCandidate())

    def candidates(self, env: Simulator) -> tuple[LearningCandidate, ...]:
        """The search."""
        return (self.search,)

    def init(self, env: Simulator, streams: Streams) -> CandidatesState:
        """Nothing played; there must not be too many parameters."""
        if not self.search.suits(self.n_seen(env), env.n_actions):
            raise InputError(
                f"search: {env.name} has {self.n_seen(env)} features and {env.n_actions} actions, which takes more "
                f"than {MOST_PARAMETERS} parameters; use --algorithm kernel"
            )
        return super().init(env, streams)


@dataclass(frozen=True)
class GradientLearner(CandidatesLearner):
    """A policy network that sees the budget, improved by gradients from its own episodes."""

    gradient: GradientCandidate = part(GradientCandidate())

    def candidates(self, env: Simulator) -> tuple[LearningCandidate, ...]:
        """The gradient."""
        return (self.gradient,)


@dataclass(frozen=True)
class AutoLearner(CandidatesLearner):
    """A kernel model and, where it cannot count, a search, a network, a policy gradient and a low-rank model (of short
    episodes) beside it; soon the worst is given up, and in the end the best is returned."""

    kernel: KernelCandidate = part(KernelCandidate())
    search: SearchCandidate = part(SearchCandidate())
    network: ShortfallCandidate = part(ShortfallCandidate())
    gradient: GradientCandidate = part(GradientCandidate())
    lowrank: LowRankCandidate = part(LowRankCandidate())

    def candidates(self, env: Simulator) -> tuple[LearningCandidate, ...]:
        """The kernel model alone where each observation can be a representative: it counts there. Otherwise all of
        them, but for those that do not suit."""
        values = getattr(getattr(env, "encoder", None), "n_values", None)
        if values is not None and values <= self.kernel.representatives:
            return (self.kernel,)
        seen, A = self.n_seen(env), env.n_actions
        search = (self.search,) if self.search.suits(seen, A) else ()
        lowrank = (self.lowrank,) if self.lowrank.suits(env.horizon, seen, A) else ()
        return (self.kernel, *lowrank, *search, self.network, self.gradient)
