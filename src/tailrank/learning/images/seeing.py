"""Candidates that see images through an encoder: its few numbers take the place of the pixels for all of them.

What of the past counts, which actions are refined and how good a model is, is then asked of these numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank._system.arrays import arrays_below
from tailrank._system.telling import doing
from tailrank.envs.protocols import Simulator
from tailrank.learning.images.training import EncoderTraining, needs_training, train_encoder
from tailrank.learning.simulators.candidates import FitData, FittedCandidate, LearningCandidate, WrappedFit
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.images import ImageLayout, ImagePolicy, layout_of
from tailrank.policies.tables import Policy


def images_of(env: Simulator) -> ImageLayout | None:
    """Where the simulator shows images, or None."""
    found = getattr(getattr(env, "encoder", None), "images", ())
    return layout_of(env.n_features, list(found)) if found else None


@dataclass(frozen=True)
class FittedSeeing(WrappedFit):
    """A fit on what an encoder sees; its policies see images."""

    training: EncoderTraining

    def playing(self, policy: Policy) -> Policy:
        """One that sees images."""
        return ImagePolicy(policy, self.training.encoder)

    def seen(self, played: PlayedEpisodes) -> PlayedEpisodes:
        """Through the encoder."""
        return seen_by(self.training, played)

    def about(self) -> str:
        """What was fitted, and to what."""
        return f"{self.inner.about()}, images seen through an encoder of {self.training.encoder.numbers} numbers"

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Those of the fit, and the encoder."""
        inner = {f"inner.{name}": x for name, x in self.inner.to_arrays().items()}
        return inner | {f"encoder.{name}": x for name, x in self.training.to_arrays().items()}


@dataclass(frozen=True)
class SeeingCandidate:
    """A candidate on what an encoder sees; the episodes of its fits are those that were seen through it."""

    inner: LearningCandidate
    training: EncoderTraining

    def fit(self, data: FitData, rng: np.random.Generator, before: Any = None) -> FittedCandidate:
        """The fit to all episodes; it goes on from the last one, whose encoder this one went on from."""
        return FittedSeeing(self.inner.fit(data, rng, before and before.inner), self.training)

    def restored(self, arrays: dict[str, np.ndarray], data: FitData, rng: np.random.Generator) -> FittedCandidate:
        """The fit in a checkpoint."""
        return FittedSeeing(self.inner.restored(arrays_below(arrays, "inner."), data, rng), self.training)


def trained_for(
    layout: ImageLayout | None,
    played: PlayedEpisodes,
    n_actions: int,
    last: FittedCandidate | None,
    rng: np.random.Generator,
) -> EncoderTraining | None:
    """The encoder for a fit to these episodes: the last one, or trained further; None where there are no images."""
    if layout is None:
        return None
    before = last.training if isinstance(last, FittedSeeing) else None
    if before is not None and not needs_training(before, played):
        return before
    with doing("training an encoder of images"):
        return train_encoder(played, layout, n_actions, rng, before)


def restored_training(
    layout: ImageLayout | None, arrays: dict[str, np.ndarray], n_actions: int
) -> EncoderTraining | None:
    """The encoder among the arrays of a fit in a checkpoint."""
    if layout is None:
        return None
    return EncoderTraining.from_arrays(layout, arrays_below(arrays, "encoder."), n_actions)


def seen_by(training: EncoderTraining | None, played: PlayedEpisodes) -> PlayedEpisodes:
    """The episodes as candidates see them."""
    return played if training is None else training.viewed(played)


def on_seen(policies: Sequence[Policy]) -> list[Policy] | None:
    """Policies on images as ones on what their encoder sees; None where they have different encoders."""
    if not any(isinstance(policy, ImagePolicy) for policy in policies):
        return list(policies)
    found = [policy for policy in policies if isinstance(policy, ImagePolicy)]
    same = len({id(policy.encoder) for policy in found}) == 1 and len(found) == len(policies)
    return [policy.inner for policy in found] if same else None
