"""Low-rank models: P_h(s' | s, a) = sum_j phi_hj(s, a) psi_hj(s'), phi on the simplex, each psi_j a law.

States may come in groups that the model does not tell apart (the blocks of a block MDP): phi and psi are
then tables over groups, and everything that plans with the model costs as many rows as there are groups,
however many states there are. Without groups every state is its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from tailrank.checks import InputError
from tailrank.models.counts import SparseCounts
from tailrank.models.ragged import owners

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

    @property
    def shape(self) -> tuple[int, int, int]:
        """(G, A, G')."""
        return self.phi.shape[0], self.phi.shape[1], self.psi.shape[1]

    def expect(self, table: np.ndarray) -> np.ndarray:
        """E of table [G', C] after every pair g A + a, [G A, C]."""
        return np.asarray(self.phi.reshape(-1, self.phi.shape[-1]) @ (self.psi @ table))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        return {"phi": self.phi, "psi": self.psi}

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
class EmpiricalStep:
    """The transition of one step by counts alone, without a table: the pairs' laws as rows that were met.

    Pair k = g A + a owns rows first[k]:first[k + 1] of after [n] and prob [n]; a pair without rows is followed by
    every group with equal probability. The laws of the other pairs may sum to less than 1.
    """

    first: np.ndarray
    after: np.ndarray
    prob: np.ndarray
    shape: tuple[int, int, int]

    @classmethod
    def of(cls, counts: SparseCounts) -> EmpiricalStep:
        """The relative frequencies."""
        first = np.searchsorted(counts.pair, np.arange(counts.shape[0] * counts.shape[1] + 1))
        total = np.bincount(counts.pair, weights=counts.count, minlength=first.size - 1)
        return cls(first, counts.after, counts.count / total[counts.pair], counts.shape)

    @property
    def pair(self) -> np.ndarray:
        """The pair that owns each row, [n]."""
        return owners(self.first)

    @cached_property
    def _laws(self) -> Any:
        from scipy.sparse import csr_array

        return csr_array((self.prob, self.after, self.first), shape=(self.first.size - 1, self.shape[2]))

    def expect(self, table: np.ndarray) -> np.ndarray:
        """E of table [G', C] after every pair g A + a, [G A, C]."""
        result = np.asarray(self._laws @ table)
        result[self.first[1:] == self.first[:-1]] = table.mean(axis=0)
        return result

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        return {"first": self.first, "after": self.after, "prob": self.prob, "shape": np.array(self.shape)}


def step_from_arrays(arrays: dict[str, np.ndarray], name: str) -> StepModel | EmpiricalStep:
    """The step whose arrays stand under `name.` in a checkpoint."""
    own = {
        key.removeprefix(f"{name}."): np.ascontiguousarray(x) for key, x in arrays.items() if key.startswith(f"{name}.")
    }
    if "phi" in own:
        return StepModel(own["phi"], own["psi"])
    groups, actions, after = (int(x) for x in own["shape"])
    return EmpiricalStep(own["first"], own["after"], own["prob"], (groups, actions, after))


StepT = TypeVar("StepT", StepModel, EmpiricalStep)


@dataclass(frozen=True)
class Model(Generic[StepT]):
    """Steps [H - 1] of a model, and for each of the H steps the group [S] of every state."""

    steps: tuple[StepT, ...]
    group: tuple[np.ndarray, ...]

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.group)

    def groups(self, h: int) -> int:
        """Number of groups at step h."""
        if h < len(self.steps):
            return self.steps[h].shape[0]
        return self.steps[h - 1].shape[2] if self.steps else int(self.group[0].max()) + 1


LowRankModel = Model[StepModel]


def draw(laws: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index from each of the laws [n, k], [n]."""
    total = np.cumsum(laws, axis=1)
    target = rng.random(laws.shape[0]) * total[:, -1]
    return np.minimum((target[:, None] >= total).sum(axis=1), laws.shape[1] - 1)
