"""The learners on simulators that are made of candidates."""

from __future__ import annotations

from dataclasses import dataclass

from tailrank._system.lazy import has_jax
from tailrank._system.settings import part
from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.episodes.streams import Streams
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
    """A network that learns the shortfall of every budget at once (extra `neural`)."""

    network: ShortfallCandidate = part(ShortfallCandidate())

    def candidates(self, env: Simulator) -> tuple[LearningCandidate, ...]:
        """The network."""
        return (self.network,)

    def init(self, env: Simulator, streams: Streams) -> CandidatesState:
        """Nothing played; JAX must be there."""
        if not has_jax():
            raise InputError("shortfall-dqn: needs jax and optax; install tailrank[neural]")
        return super().init(env, streams)


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
class AutoLearner(CandidatesLearner):
    """A kernel model and, where it cannot count, a search or a network beside it; the best is returned."""

    kernel: KernelCandidate = part(KernelCandidate())
    search: SearchCandidate = part(SearchCandidate())
    network: ShortfallCandidate = part(ShortfallCandidate())

    def candidates(self, env: Simulator) -> tuple[LearningCandidate, ...]:
        """The kernel model alone where each observation can be a representative: it counts there. Otherwise the search
        too; where that has too many parameters and observations cannot be numbered, the network, if JAX is there."""
        values = getattr(getattr(env, "encoder", None), "n_values", None)
        if values is not None and values <= self.kernel.representatives:
            return (self.kernel,)
        if self.search.suits(self.n_seen(env), env.n_actions):
            return (self.kernel, self.search)
        numbered = getattr(getattr(env, "encoder", None), "is_table", False)
        return (self.kernel, self.network) if has_jax() and not numbered else (self.kernel,)
