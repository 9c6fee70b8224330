"""Learners with candidates in the shape that runs on observations have: `init`, `step`, `policy`, `restored`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.rivals.observations.playing import Callback, Row, trained
from tailrank.learning.simulators.kernel import KernelCandidate
from tailrank.learning.simulators.learner import Candidate, CandidatesLearner, CandidatesState
from tailrank.policies.tables import Policy

NAMES = ("kernel", "shortfall", "auto")


@dataclass(frozen=True)
class SimulatorRival:
    """The settings. candidates: kernel, shortfall, or auto (both, the network where JAX is installed)."""

    tau: float
    candidates: str = "auto"
    representatives: int = 1000
    budgets: int = 160
    bonus: float = 0.3
    epsilon: float = 0.1
    growth: float = 0.3
    choice: float = 0.2
    stored: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.one_of(self.candidates, "candidates", NAMES)
        self.learner(None)

    @property
    def each(self) -> int:
        """Episodes an update, at least."""
        return 20

    def learner(self, total: int | None) -> CandidatesLearner:
        """The learner for so many episodes."""
        found: list[Candidate] = []
        if self.candidates != "shortfall":
            found.append(KernelCandidate(self.representatives, self.budgets, bonus=self.bonus, epsilon=self.epsilon))
        neural = find_spec("jax") is not None and find_spec("optax") is not None
        if self.candidates == "shortfall" and not neural:
            raise InputError("shortfall-dqn: needs jax and optax; install tailrank[neural]")
        if self.candidates != "kernel" and neural:
            from tailrank.learning.shortfall.candidate import ShortfallCandidate

            found.append(ShortfallCandidate(epsilon=self.epsilon))
        return CandidatesLearner(self.tau, tuple(found), total, growth=self.growth, choice=self.choice)

    def init(self, simulator: Simulator, seed: int, total: int) -> RivalProgress:
        """Nothing played."""
        learner, streams = self.learner(total), Streams(seed)
        return RivalProgress(learner, streams, simulator, learner.init(simulator, streams))

    def step(self, progress: RivalProgress, simulator: Simulator) -> Row:
        """One iteration."""
        progress.state, info = progress.learner.step(progress.state, simulator, progress.streams)
        row = info.row()
        return {"episodes": progress.played, "cvar": row["played"], "mean": row["return"]}

    def policy(self, progress: RivalProgress) -> Policy:
        """The output that is ahead."""
        return progress.learner.policy(progress.state, progress.simulator, progress.streams)

    def restored(self, progress: RivalProgress, arrays: dict[str, np.ndarray]) -> RivalProgress:
        """The progress in a checkpoint."""
        progress.state = progress.learner.restored(arrays, progress.simulator, progress.streams)
        return progress

    def train(self, simulator: Simulator, episodes: int, seed: int, callback: Callback | None = None) -> Policy:
        """The policy after `episodes` episodes."""
        return trained(self, simulator, episodes, seed, callback)


@dataclass
class RivalProgress:
    """Where a learner stands."""

    learner: CandidatesLearner
    streams: Streams
    simulator: Any
    state: CandidatesState

    @property
    def played(self) -> int:
        """Episodes; all of them when the choice is made, which may leave a few over."""
        total, over = self.learner.total or 0, self.learner.over(self.state, self.simulator.horizon)
        return max(self.state.episodes, total) if over else min(self.state.episodes, total - 1)

    @property
    def steps(self) -> int:
        """Steps."""
        return self.state.steps

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        return self.state.to_arrays()
