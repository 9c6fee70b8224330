"""The decoder of finite observation spaces: every distinct observation is its own latent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.checks import InputError
from tailrank.replay import Replay

LARGEST_TABLE = 5000


@dataclass(frozen=True)
class TableDecoder:
    """values [K, m]: the first `used` rows are the distinct observations, the same at every step; room for more."""

    values: np.ndarray
    used: int
    kind = "table"
    shared = True

    @property
    def n_latents(self) -> int:
        """K."""
        return len(self.values)

    def log_odds(self, h: int, features: np.ndarray) -> np.ndarray:
        """0 for the nearest value, far below for the others, -inf for free places, [n, K]."""
        away = self._away(features)
        odds = np.full(away.shape, -np.inf)
        odds[:, : self.used] = -1e6 * (away[:, : self.used] - away[:, : self.used].min(axis=1, keepdims=True))
        return odds

    def with_novel(self, h: int, features: np.ndarray) -> TableDecoder:
        """The decoder with the observations [n, m] that it does not know, as long as there is room."""
        new = np.unique(np.asarray(features)[self._away(features)[:, : self.used].min(axis=1) > 1e-9], axis=0)
        new = new[: len(self.values) - self.used]
        if not len(new):
            return self
        values = self.values.copy()
        values[self.used : self.used + len(new)] = new
        return TableDecoder(values, self.used + len(new))

    def _away(self, features: np.ndarray) -> np.ndarray:
        x = np.asarray(features, dtype=np.float64)
        return np.maximum((x**2).sum(axis=1)[:, None] - 2 * x @ self.values.T + (self.values**2).sum(axis=1), 0.0)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For files."""
        return {"values": self.values, "used": np.array([self.used])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> TableDecoder:
        """From a file."""
        return cls(arrays["values"], int(arrays["used"][0]))


def fit_table(replay: Replay) -> TableDecoder:
    """The observations seen so far as a table, with room for half as many more."""
    rows = replay.features[np.arange(replay.horizon) < replay.lengths[:, None]]
    values = np.unique(rows, axis=0).astype(np.float64)
    if len(values) > LARGEST_TABLE:
        raise InputError(
            f"model = 'table': {len(values)} distinct observations were seen, at most {LARGEST_TABLE} are handled; "
            "use model mixture or neural"
        )
    room = np.zeros((len(values) // 2 + 8, replay.n_features))
    return TableDecoder(np.vstack([values, room]), len(values))
