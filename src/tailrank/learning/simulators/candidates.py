"""What a candidate is: a way to learn from episodes, what it explores with, and what it would hand out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.tables import Policy


@dataclass(frozen=True)
class CandidateOutput:
    """What a candidate may hand out: a name, a policy, and the CVaR that its model promises."""

    name: str
    policy: Policy
    promise: float


class FittedCandidate(Protocol):
    """A candidate after a fit."""

    def explorer(self, rng: np.random.Generator) -> Policy:
        """What to play next."""
        ...

    @property
    def promise(self) -> float:
        """The CVaR that the first of its outputs promises."""
        ...

    def outputs(self) -> list[CandidateOutput]:
        """What may be handed out, the first being the default."""
        ...

    def about(self) -> str:
        """What was fitted, in a few words."""
        ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What does not follow from the episodes."""
        ...


class LearningCandidate(Protocol):
    """Settings of a way to learn from episodes."""

    def fit(
        self,
        played: PlayedEpisodes,
        n_actions: int,
        tau: float,
        rng: np.random.Generator,
        before: Any,
    ) -> FittedCandidate:
        """The fit to all episodes; before: the last one, or None."""
        ...

    def restored(
        self,
        arrays: dict[str, np.ndarray],
        played: PlayedEpisodes,
        n_actions: int,
        tau: float,
        rng: np.random.Generator,
    ) -> FittedCandidate:
        """The fit in a checkpoint; rng is that of the fit."""
        ...
