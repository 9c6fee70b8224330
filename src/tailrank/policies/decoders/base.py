"""Decoders: from an observation to the latent state behind it.

A low-rank model of observations needs two things of them: which latent j emitted the next observation,
q_j(x') with psi_j(x') = q_j(x') / sum_i q_j(x'_i) on the observed next states (no density over observations
is ever needed), and phi(x, a). Here both come from one decoder, phi_h(x, a) = sum_z q_z(x) T_h[z, a, :], so that
everything but the decoder is a table.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Decoder(Protocol):
    """Latents of observations. A shared decoder is the same at every step."""

    @property
    def kind(self) -> str:
        """Its name in files."""
        ...

    @property
    def shared(self) -> bool:
        """Whether it is the same at every step."""
        ...

    @property
    def n_latents(self) -> int:
        """K: latents are numbered below it at every step."""
        ...

    def log_odds(self, h: int, features: np.ndarray) -> np.ndarray:
        """log q_z(x) up to a constant for each observation, [n, K]; -inf for latents that step h does not have."""
        ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For files."""
        ...


FEATURES = {"mixture": ("project", 0), "table": ("values", 1), "neural": ("mean", 1)}
"""Which axis of which array of a decoder counts the features."""


def n_features(decoder: Decoder) -> int | None:
    """How many features the decoder looks at; None if it is of an unknown kind."""
    if decoder.kind not in FEATURES:
        return None
    name, axis = FEATURES[decoder.kind]
    return int(decoder.to_arrays()[name].shape[axis])


def decode(decoder: Decoder, h: int, features: np.ndarray) -> np.ndarray:
    """The most likely latent of each observation, [n]; a decoder of many latents may know it without all the odds."""
    nearest = getattr(decoder, "nearest", None)
    if nearest is not None:
        return np.asarray(nearest(h, features))
    return np.asarray(decoder.log_odds(h, features).argmax(axis=1))


def posterior(decoder: Decoder, h: int, features: np.ndarray) -> np.ndarray:
    """q(x), [n, K], rows on the simplex."""
    odds = decoder.log_odds(h, features)
    odds = np.exp(odds - odds.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
