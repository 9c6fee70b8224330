"""The decoder of finite observation spaces: every distinct observation is its own latent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np


@dataclass(frozen=True)
class TableDecoder:
    """values [K, m]: the first `used` rows are the distinct observations, the same at every step; room for more."""

    values: np.ndarray
    used: int
    kind: ClassVar[str] = "table"
    shared: ClassVar[bool] = True

    @property
    def n_latents(self) -> int:
        """K."""
        return len(self.values)

    @property
    def n_features(self) -> int:
        """m."""
        return int(self.values.shape[1])

    def log_odds(self, h: int, features: np.ndarray) -> np.ndarray:
        """0 for the observation itself, or the nearest, far below for the others, -inf for free places, [n, K]."""
        x, values = np.asarray(features, dtype=np.float64), self.values[: self.used]
        away = (x**2).sum(axis=1)[:, None] - 2 * x @ values.T + (values**2).sum(axis=1)
        away -= away.min(axis=1, keepdims=True)
        place = self._places(features)
        (known,) = np.nonzero(place >= 0)
        # The differences of large squares say little; what is known is known for sure.
        away[known] += 1.0
        away[known, place[known]] = 0.0
        odds = np.full((len(x), self.n_latents), -np.inf)
        odds[:, : self.used] = -1e6 * away
        return odds

    def nearest(self, h: int, features: np.ndarray) -> np.ndarray:
        """The latent of each observation [n, m], without the odds of all the others."""
        place = self._places(features)
        (unknown,) = np.nonzero(place < 0)
        if unknown.size:
            place[unknown] = self.log_odds(h, np.asarray(features)[unknown]).argmax(axis=1)
        return place

    def with_novel(self, h: int, features: np.ndarray) -> TableDecoder:
        """The decoder with the observations [n, m] that it does not know, as long as there is room."""
        new = np.unique(single(features)[self._places(features) < 0], axis=0)
        new = new[: len(self.values) - self.used]
        if not len(new):
            return self
        values = self.values.copy()
        values[self.used : self.used + len(new)] = new
        return TableDecoder(values, self.used + len(new))

    @cached_property
    def _index(self) -> dict[bytes, int]:
        return {row.tobytes(): i for i, row in enumerate(single(self.values[: self.used]))}

    def _places(self, features: np.ndarray) -> np.ndarray:
        """Which of the values each observation [n, m] is, to the last bit of single precision; -1 for none."""
        return np.array([self._index.get(row.tobytes(), -1) for row in single(features)], dtype=np.int64)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The observations, and how many of them are used."""
        return {"values": self.values, "used": np.array([self.used])}

    @classmethod
    def describe_arrays(cls, arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
        """What `to_arrays` returns."""
        return {"values": "float [K, m]", "used": "whole [1] >= 1, <= K"}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> TableDecoder:
        """The decoder that `to_arrays` was called on."""
        return cls(arrays["values"], int(arrays["used"][0]))


def single(features: np.ndarray) -> np.ndarray:
    """Rows as episodes keep them; -0 is 0."""
    return np.ascontiguousarray(features, dtype=np.float32) + np.float32(0.0)
