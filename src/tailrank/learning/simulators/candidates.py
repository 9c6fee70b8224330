"""What a candidate is: a way to learn from episodes, what it explores with, and what it would hand out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, cast

import numpy as np

from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.tables import Policy

NARROWED = 0.6
"""How much of the training is over when exploration plans for tau itself."""


@dataclass(frozen=True)
class CandidateOutput:
    """What a candidate may hand out: a name, a policy, and the CVaR that its model promises."""

    name: str
    policy: Policy
    promise: float


@dataclass(frozen=True)
class FitData:
    """What a fit is made from: episodes, the number of actions, and the tail that matters.

    numbered: observations are numbers or names, so that being near to another one means nothing. done: the share of
    the training that is over. random: all episodes had random actions. drifts: rewards may change with the step.
    """

    played: PlayedEpisodes
    n_actions: int
    tau: float
    numbered: bool = False
    done: float = 0.0
    random: bool = False
    drifts: bool = True

    @property
    def tried(self) -> float:
        """The tail that exploration plans for: all at first, then less, down to tau.

        Where little is known a plan for the tail may do as little as it can, and then little more is learned.
        """
        return float(self.tau ** min(self.done / NARROWED, 1.0))


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

    @property
    def supersedes(self) -> bool:
        """Whether it is better than all fits to fewer episodes, so that these need not be tried."""
        ...

    def about(self) -> str:
        """What was fitted, in a few words."""
        ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What does not follow from the episodes."""
        ...


class PractisingFit(FittedCandidate, Protocol):
    """A fit that learns from the episodes of its own explorer as they come."""

    @property
    def portion(self) -> int:
        """Episodes after which it wants to be told."""
        ...

    def practised(self, played: PlayedEpisodes, rng: np.random.Generator) -> PractisingFit:
        """The fit after these episodes."""
        ...


def practising(fit: FittedCandidate) -> PractisingFit | None:
    """The fit, if it learns as it plays."""
    return cast(PractisingFit, fit) if getattr(fit, "portion", 0) else None


class LearningCandidate(Protocol):
    """Settings of a way to learn from episodes."""

    def fit(self, data: FitData, rng: np.random.Generator, before: Any) -> FittedCandidate:
        """The fit to all episodes; before: the last one, or None."""
        ...

    def restored(self, arrays: dict[str, np.ndarray], data: FitData, rng: np.random.Generator) -> FittedCandidate:
        """The fit in a checkpoint; rng is that of the fit."""
        ...


@dataclass(frozen=True)
class WrappedFit(ABC):
    """A fit whose policies play as a subclass says (`playing`)."""

    inner: FittedCandidate

    @abstractmethod
    def playing(self, policy: Policy) -> Policy:
        """The policy that is played for one of the fit."""

    def explorer(self, rng: np.random.Generator) -> Policy:
        """What to play next."""
        return self.playing(self.inner.explorer(rng))

    @property
    def promise(self) -> float:
        """That of the first output."""
        return self.inner.promise

    def outputs(self) -> list[CandidateOutput]:
        """Those of the fit."""
        return [CandidateOutput(one.name, self.playing(one.policy), one.promise) for one in self.inner.outputs()]

    @property
    def supersedes(self) -> bool:
        """As the fit does."""
        return self.inner.supersedes

    @abstractmethod
    def seen(self, played: PlayedEpisodes) -> PlayedEpisodes:
        """Episodes of the simulator as the inner fit sees them."""

    @property
    def portion(self) -> int:
        """That of the inner fit, 0 if it has none."""
        return int(getattr(self.inner, "portion", 0))

    def practised(self, played: PlayedEpisodes, rng: np.random.Generator) -> Self:
        """The inner fit after these episodes, where it learns as it plays."""
        inner = practising(self.inner)
        return self if inner is None else replace(self, inner=inner.practised(self.seen(played), rng))

    def neutral(self) -> Policy | None:
        """The plan for the mean, where there is one."""
        found = getattr(self.inner, "neutral", lambda: None)()
        return None if found is None else self.playing(found)

    def about(self) -> str:
        """What was fitted."""
        return self.inner.about()

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Those of the fit."""
        return self.inner.to_arrays()
