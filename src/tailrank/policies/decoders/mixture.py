"""The decoder of a mixture of Gaussians; `learning/decoding/mixture.py` fits it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tailrank.checks import InputError

LARGEST_SAMPLE = 400
"""Observations of a step that the fit looks at, drawn evenly over the latents of the last fit."""
SEPARATION = 3.5
"""Standard deviations between two latents."""


@dataclass(frozen=True)
class MixtureDecoder:
    """Centres [H, K, k] in the whitened subspace x -> x @ project [m, k]; log weights [H, K], -inf where absent.

    within [m, m]: the within-latent covariance, where the next fit starts.
    """

    project: np.ndarray
    centres: np.ndarray
    log_weights: np.ndarray
    within: np.ndarray
    kind: ClassVar[str] = "mixture"

    @property
    def shared(self) -> bool:
        """One mixture for all steps."""
        return len(self.centres) == 1

    @property
    def n_latents(self) -> int:
        """K."""
        return int(self.centres.shape[1])

    @property
    def n_features(self) -> int:
        """m."""
        return len(self.project)

    def log_odds(self, h: int, features: np.ndarray) -> np.ndarray:
        """log of weight times density, up to a constant, [n, K]."""
        h = 0 if self.shared else h
        places = np.asarray(features, dtype=np.float64) @ self.project
        away = ((places[:, None, :] - self.centres[h]) ** 2).sum(axis=2)
        return self.log_weights[h] - 0.5 * away

    def with_novel(self, h: int, features: np.ndarray) -> MixtureDecoder:
        """The decoder with a new latent at step h where an observation [n, m] fits none, if there is room."""
        h = 0 if self.shared else h
        decoder, k = self, self.project.shape[1]
        limit = max(SEPARATION**2, 2 * price(k, LARGEST_SAMPLE))
        for place in np.asarray(features, dtype=np.float64) @ self.project:
            have = np.isfinite(decoder.log_weights[h])
            away = ((decoder.centres[h][have] - place) ** 2).sum(axis=1).min()
            if away > limit and not have.all():
                centres, weights = decoder.centres.copy(), decoder.log_weights.copy()
                new = int(np.flatnonzero(~have)[0])
                centres[h, new], weights[h, new] = place, weights[h][have].min()
                decoder = replace(decoder, centres=centres, log_weights=weights)
        return decoder

    def rescaled(self, scale: np.ndarray) -> MixtureDecoder:
        """The same decoder for observations divided by scale [m]."""
        return replace(self, project=self.project * scale[:, None], within=self.within / np.outer(scale, scale))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Its fields by name."""
        return {name: getattr(self, name) for name in ARRAYS}

    @classmethod
    def describe_arrays(cls, arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
        """What its fields must be."""
        return ARRAYS

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> MixtureDecoder:
        """The decoder with these fields."""
        decoder = cls(**arrays)
        if not ((decoder.log_weights < np.inf).all() and np.isfinite(decoder.log_weights).any(axis=1).all()):
            raise InputError("log_weights: must be numbers or -inf, and a latent must be left at every step")
        return decoder


ARRAYS = {
    "project": "float [m, k]",
    "centres": "float [T=1|H, K, k]",
    "log_weights": "float64 [T, K] any",
    "within": "float [m, m]",
}


def price(k: int, n: int) -> float:
    """Nats that a component must earn: above what the farthest of n normal points in k dimensions would give it."""
    return k + math.log(max(n, 2)) + 6
