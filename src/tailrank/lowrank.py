"""Low-rank models: P_h(s' | s, a) = sum_j phi_hj(s, a) psi_hj(s'), phi on the simplex, each psi_j a law.

States may come in groups that the model does not tell apart (the blocks of a block MDP): phi and psi are
then tables over groups, and everything that plans with the model costs as many rows as there are groups,
however many states there are. Without groups every state is its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.checks import InputError

NOISE = 1e-9


@dataclass(frozen=True)
class StepModel:
    """The transition of one step: phi [G, A, d] (rows on the simplex), psi [d, G'] (rows are laws)."""

    phi: np.ndarray
    psi: np.ndarray

    @property
    def kernel(self) -> np.ndarray:
        """P(g' | g, a), [G, A, G']."""
        return self.phi @ self.psi

    def check(self, name: str) -> None:
        """Raise unless every row is a law."""
        for part, table in (("phi", self.phi), ("psi", self.psi)):
            sums = table.sum(axis=-1)
            bad = np.argwhere(~(np.abs(sums - 1.0) <= NOISE) | (table < -NOISE).any(axis=-1))
            if bad.size:
                place = ", ".join(str(i) for i in bad[0])
                raise InputError(
                    f"{name}.{part}[{place}] sums to {sums[tuple(bad[0])]:.9g} or is negative, expected a law"
                )
        if self.phi.shape[-1] != self.psi.shape[0]:
            raise InputError(f"{name}: phi has rank {self.phi.shape[-1]}, psi has {self.psi.shape[0]}")


@dataclass(frozen=True)
class LowRankModel:
    """Steps [H - 1] of a model, and for each of the H steps the group [S] of every state."""

    steps: tuple[StepModel, ...]
    group: tuple[np.ndarray, ...]

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.group)

    def groups(self, h: int) -> int:
        """Number of groups at step h."""
        if h < len(self.steps):
            return int(self.steps[h].phi.shape[0])
        return int(self.steps[h - 1].psi.shape[1]) if self.steps else int(self.group[0].max()) + 1


def draw(laws: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index from each of the laws [n, k], [n]."""
    total = np.cumsum(laws, axis=1)
    target = rng.random(laws.shape[0]) * total[:, -1]
    return np.minimum((target[:, None] >= total).sum(axis=1), laws.shape[1] - 1)
