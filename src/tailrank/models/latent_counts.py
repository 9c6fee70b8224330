"""Counts of latent transitions (h, z, a) -> (z', reward): the tables of a model of observations.

An outcome is a pair of next latent and reward in units, so rewards and transitions may depend on each other.
z' = K says that the episode ended. Only outcomes that were seen are stored, sorted by (h, z, a).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class LatentCounts:
    """Counts for H steps (1 if all steps share a table), K latents, A actions and rewards of 0..top units."""

    steps: int
    n_latents: int
    n_actions: int
    top: int

    def __post_init__(self) -> None:
        self.codes = np.zeros(0, dtype=np.int64)
        self.counts = np.zeros(0)

    @property
    def _pairs(self) -> int:
        return self.n_latents * self.n_actions

    @property
    def _outcomes(self) -> int:
        return (self.n_latents + 1) * (self.top + 1)

    def add(self, h: np.ndarray, z: np.ndarray, a: np.ndarray, after: np.ndarray, units: np.ndarray) -> None:
        """Count transitions [n]; h is the table's step (0 if shared)."""
        pair = (h.astype(np.int64) * self.n_latents + z) * self.n_actions + a
        codes = pair * self._outcomes + after * (self.top + 1) + units
        codes, counts = np.unique(codes, return_counts=True)
        place = np.searchsorted(self.codes, codes)
        known = place < self.codes.size
        known[known] = self.codes[place[known]] == codes[known]
        np.add.at(self.counts, place[known], counts[known])
        if not known.all():
            merged = np.concatenate([self.codes, codes[~known]])
            order = np.argsort(merged, kind="stable")
            self.codes = merged[order]
            self.counts = np.concatenate([self.counts, counts[~known]])[order]

    def visits(self) -> np.ndarray:
        """How often each pair was tried, [steps, K, A]."""
        total = np.bincount(self.codes // self._outcomes, self.counts, minlength=self.steps * self._pairs)
        return total.reshape(self.steps, self.n_latents, self.n_actions)

    def transitions(self) -> np.ndarray:
        """Counts of next latents, rewards summed out, [steps, K, A, K + 1]; the last column: ended."""
        pair, outcome = np.divmod(self.codes, self._outcomes)
        place = pair * (self.n_latents + 1) + outcome // (self.top + 1)
        size = self.steps * self._pairs * (self.n_latents + 1)
        return np.bincount(place, self.counts, minlength=size).reshape(
            self.steps, self.n_latents, self.n_actions, self.n_latents + 1
        )

    def going_on(self) -> np.ndarray:
        """How often something followed each pair, [steps, K, A]."""
        pair, outcome = np.divmod(self.codes, self._outcomes)
        follows = self.counts * (outcome < self.n_latents * (self.top + 1))
        total = np.bincount(pair, follows, minlength=self.steps * self._pairs)
        return total.reshape(self.steps, self.n_latents, self.n_actions)

    def outcomes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(ptr [steps K A + 1], next latent, units, count): the outcomes of each pair (h, z, a)."""
        pair, outcome = np.divmod(self.codes, self._outcomes)
        ptr = np.searchsorted(pair, np.arange(self.steps * self._pairs + 1))
        after, units = np.divmod(outcome, self.top + 1)
        return ptr, after, units, self.counts

    def copy(self) -> LatentCounts:
        """The same counts in arrays of their own."""
        new = LatentCounts(self.steps, self.n_latents, self.n_actions, self.top)
        new.codes, new.counts = self.codes.copy(), self.counts.copy()
        return new
