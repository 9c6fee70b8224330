"""phi of a learned low-rank model: how likely each kind of outcome is at an observation, for every action.

    z = (x - centre) @ project,   f(x) = (1, z, units(z))
    P(k | x, a) = softmax_k(f(x) . heads_a),     P(l | k, x, a) = softmax_l(f(x) . reward_heads_a + tilt_k)

A kind j = (k, l) says which psi_k the next observation comes from and which of L laws the reward. The classifier of
(x, a) shares nothing with what tells next observations apart: phi and psi are untied. The hidden units are those of a
network, tanh(z @ hidden + bias), or others (`units.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from tailrank.checks import InputError
from tailrank.policies.units import fit_together, seen

ARRAYS = {
    "centre": "float64 [m]",
    "project": "float64 [m, k]",
    "hidden": "float64 [k, w]",
    "bias": "float64 [w]",
    "heads": "float64 [T=1|H, A, 1+k+w, K]",
    "reward_heads": "float64 [T, A, 1+k+w, L]",
    "tilt": "float64 [K, L]",
    "units": "float64 [2] >= 0",
}
"""What a network holds, as `check_arrays` reads it."""


@dataclass(frozen=True)
class OutcomeNetwork:
    """centre [m], project [m, k], hidden [k, w], bias [w], heads [T, A, F, K] and reward_heads [T, A, F, L] with
    F = 1 + k + w, tilt [K, L], units [2]. T is H, or 1 where all steps share the classifier.
    """

    centre: np.ndarray
    project: np.ndarray
    hidden: np.ndarray
    bias: np.ndarray
    heads: np.ndarray
    reward_heads: np.ndarray
    tilt: np.ndarray
    units: np.ndarray = field(default_factory=lambda: np.zeros(2))

    def __post_init__(self) -> None:
        if not fit_together(self.units, len(self.bias)):
            raise InputError(f"units = {self.units.tolist()}: do not fit {len(self.bias)} hidden units")

    @property
    def n_features(self) -> int:
        """m."""
        return len(self.centre)

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.heads.shape[1])

    @property
    def sizes(self) -> tuple[int, int]:
        """(K, L)."""
        return int(self.heads.shape[3]), int(self.tilt.shape[1])

    def places(self, x: np.ndarray) -> np.ndarray:
        """z of observations [n, m], [n, k]."""
        return np.asarray((np.asarray(x, dtype=np.float64) - self.centre) @ self.project)

    def inner(self, z: np.ndarray) -> np.ndarray:
        """f of places [n, k], [n, F]."""
        return np.hstack([np.ones((len(z), 1)), z, seen(self.units, z, self.hidden, self.bias)])

    def split(self, h: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """P(k | x, a) [n, A, K] and P(l | k, x, a) [n, A, K, L]."""
        f, t = self.inner(self.places(x)), 0 if len(self.heads) == 1 else h
        kinds = _softmax(_every(f, self.heads[t]))
        return kinds, _softmax(_every(f, self.reward_heads[t])[:, :, None, :] + self.tilt)

    def phi(self, h: int, x: np.ndarray) -> np.ndarray:
        """phi_h(x, .) of observations [n, m], [n, A, K L], rows on the simplex."""
        kinds, rewards = self.split(h, x)
        return (kinds[..., None] * rewards).reshape(len(kinds), self.n_actions, -1)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For files."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> OutcomeNetwork:
        """From a file."""
        return cls(**{one.name: arrays[one.name] for one in fields(cls)})


def _every(f: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """Logits [n, A, K] of all actions with heads [A, F, K]."""
    A, F, K = heads.shape
    return (f @ heads.transpose(1, 0, 2).reshape(F, A * K)).reshape(len(f), A, K)


def _softmax(logits: np.ndarray) -> np.ndarray:
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))
