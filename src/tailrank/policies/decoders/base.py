"""Decoders: from an observation to the latent state behind it.

A low-rank model of observations needs two things of them: which latent j emitted the next observation,
q_j(x') with psi_j(x') = q_j(x') / sum_i q_j(x'_i) on the observed next states (no density over observations
is ever needed), and phi(x, a). Here both come from one decoder, phi_h(x, a) = sum_z q_z(x) T_h[z, a, :], so that
everything but the decoder is a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol, Self

import numpy as np

from tailrank.policies.softmax import softmax


class Decoder(Protocol):
    """Latents of observations. A shared decoder is the same at every step."""

    kind: ClassVar[str]
    """Its name in files, and in `decoders.registry.DECODERS`."""

    @property
    def shared(self) -> bool:
        """Whether it is the same at every step."""
        ...

    @property
    def n_latents(self) -> int:
        """K: latents are numbered below it at every step."""
        ...

    @property
    def n_features(self) -> int:
        """m: how many features of an observation it looks at."""
        ...

    def log_odds(self, h: int, features: np.ndarray) -> np.ndarray:
        """log q_z(x) up to a constant for each observation, [n, K]; -inf for latents that step h does not have."""
        ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Its arrays by name, for files."""
        ...

    @classmethod
    def describe_arrays(cls, arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
        """What arrays of these names must be (`_system/arrays.py`; H steps, m features, K latents)."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The decoder with these arrays, which are as described."""
        ...


def decode(decoder: Decoder, h: int, features: np.ndarray) -> np.ndarray:
    """The most likely latent of each observation, [n]; a decoder of many latents may know it without all the odds."""
    nearest = getattr(decoder, "nearest", None)
    if nearest is not None:
        return np.asarray(nearest(h, features))
    return np.asarray(decoder.log_odds(h, features).argmax(axis=1))


def posterior(decoder: Decoder, h: int, features: np.ndarray) -> np.ndarray:
    """q(x), [n, K], rows on the simplex."""
    return softmax(decoder.log_odds(h, features))
