"""Block-structured steps: every next group belongs to one latent, so that the psi_j have disjoint supports.

Given the blocks, the likeliest phi and psi are ratios of counts, phi_j(g, a) = N(g, a, j) / N(g, a) and
psi_j(g') = N(g') / N_j, and the likelihood is, up to a constant,

    sum N(g, a, j) log N(g, a, j) - sum N_j log N_j.

It is climbed by moving one next group at a time to the block where this gains most, phi and psi following
at once: every move gains, and the end is a partition that no single move improves. There are real local
optima, which a warm start locks in, so fresh starts are always made beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailrank.checks import InputError, number, whole
from tailrank.learning.oracles._em_kernels import settle, sweep
from tailrank.learning.oracles.fit import Fit, check_warm, log_likelihood, parameters_log, sparse
from tailrank.models.counts import SparseCounts
from tailrank.models.lowrank import StepModel

LEAST_GAIN = 1e-12
"""Nats a transition that a move must gain, so that rounding cannot move a group to and fro."""


@dataclass(frozen=True)
class BlockEM:
    """`blocks` latents, the blocks of the next groups. Of all starts the likeliest end wins.

    blocks_before [G], if given, says which groups before the step share their phi (the blocks that were
    found at the step before). It has converged when a sweep over all next groups moves none.
    """

    blocks: int
    blocks_before: Sequence[int] | np.ndarray | None = None
    restarts: int = 8
    max_iterations: int = 100
    floor: float = 1e-12

    def __post_init__(self) -> None:
        for name in ("blocks", "restarts", "max_iterations"):
            whole(getattr(self, name), name)
        if not 0.0 < number(self.floor, "floor") * self.blocks < 1.0:
            raise InputError(f"floor = {self.floor}: must lie between 0 and 1 / blocks")

    @property
    def rank(self) -> int:
        """d, the number of latents."""
        return self.blocks

    def dimension(self, shape: tuple[int, int, int]) -> int:
        """d, the number of latents."""
        return self.blocks

    def log_class_size(self, n: float, shape: tuple[int, int, int]) -> float:
        """(B A (d - 1) + G' - d) log n + G' log d, an effective number; B blocks before (G without)."""
        before = shape[0] if self.blocks_before is None else len(np.unique(np.asarray(self.blocks_before)))
        free = before * shape[1] * (self.blocks - 1) + shape[2] - self.blocks
        return parameters_log(free, n) + shape[2] * float(np.log(self.blocks))

    def fit(self, counts: np.ndarray | SparseCounts, *, rng: np.random.Generator, warm: StepModel | None = None) -> Fit:
        """The likeliest step found. Pairs never seen get the latents' average weights.

        Next groups never seen join the largest block with the weight of the floor.
        """
        data = sparse(counts)
        groups, actions, after = data.shape
        if self.blocks > after:
            raise InputError(f"blocks = {self.blocks}: must be at most the number of next states, {after}")
        row = self._rows(groups, actions)
        columns = _Columns(row[data.pair], data.after, data.count, int(row.max()) + 1, after)
        starts = [columns.seed(self.blocks, rng) for _ in range(self.restarts)]
        if warm is not None:
            check_warm(warm, data.shape, self.blocks)
            starts.insert(0, columns.filled(np.argmax(warm.psi, axis=0), self.blocks))
        ends = [columns.climb(block, self.blocks, self.max_iterations) for block in starts]
        block, trace, converged = ends[int(np.argmax([end[1][-1] for end in ends]))]
        mass = columns.table(block, self.blocks)
        average = mass.sum(axis=0)
        mass[mass.sum(axis=1) == 0.0] = average if average.sum() > 0.0 else 1.0
        settle(mass, self.floor)
        step = StepModel(mass[row].reshape(groups, actions, self.blocks), self._emission(block, columns.size))
        return Fit(step, log_likelihood(step, data), np.array(trace), converged)

    def _rows(self, groups: int, actions: int) -> np.ndarray:
        """Row of phi that each pair shares, [G A]."""
        if self.blocks_before is None:
            return np.arange(groups * actions)
        labels = np.asarray(self.blocks_before)
        if labels.shape != (groups,):
            raise InputError(f"blocks_before: must be {groups} labels, found shape {labels.shape}")
        _, before = np.unique(labels, return_inverse=True)
        return (before[:, None] * actions + np.arange(actions)).ravel()

    def _emission(self, block: np.ndarray, size: np.ndarray) -> np.ndarray:
        """psi [d, G']: N(g') / N_j within the block, the floor's share for groups never seen."""
        total = np.bincount(block, weights=size, minlength=self.blocks)
        weight = np.where(size > 0.0, size, np.where(total > 0.0, self.floor * total, 1.0)[block])
        psi = np.zeros((self.blocks, size.size))
        psi[block, np.arange(size.size)] = weight
        return np.asarray(psi / psi.sum(axis=1, keepdims=True))


class _Columns:
    """Counts by next group: column g' owns entries ptr[g'] : ptr[g' + 1] of row and count; size [G'] = N(g')."""

    def __init__(self, row: np.ndarray, after: np.ndarray, count: np.ndarray, n_rows: int, n_after: int) -> None:
        # rows that are shared by several pairs are added up, so that a move sees each cell once
        cell, where = np.unique(after * n_rows + row, return_inverse=True)
        self.count = _sums(where, count, cell.size)
        self.after, self.row = cell // n_rows, cell % n_rows
        self.ptr = np.searchsorted(self.after, np.arange(n_after + 1))
        self.size = _sums(self.after, self.count, n_after)
        self.n_rows = n_rows

    def table(self, block: np.ndarray, d: int) -> np.ndarray:
        """N(row, j), [m, d]."""
        cell = self.row * d + block[self.after]
        return _sums(cell, self.count, self.n_rows * d).reshape(self.n_rows, d)

    def seed(self, d: int, rng: np.random.Generator) -> np.ndarray:
        """A first partition [G']: the nearest of d columns, each drawn far from those before (k-means++).

        Distances are Hellinger's, between the columns' profiles over rows, weighted by N(g').
        """
        root = np.sqrt(self.count / self.size[self.after])
        near, block = np.full(self.size.size, np.inf), np.zeros(self.size.size, dtype=np.int64)
        for j in range(min(d, int((self.size > 0.0).sum()))):
            chance = self.size * (near if j else 1.0)
            # columns equal to a centre are at distance zero up to rounding, and must not be drawn
            chance[near <= 1e-12] = 0.0
            if chance.sum() == 0.0:
                break
            centre = int(rng.choice(chance.size, p=chance / chance.sum()))
            profile = np.zeros(self.n_rows)
            mine = slice(self.ptr[centre], self.ptr[centre + 1])
            profile[self.row[mine]] = root[mine]
            alike = np.bincount(self.after, weights=root * profile[self.row], minlength=near.size)
            far = np.maximum(1.0 - alike, 0.0)
            block[far < near] = j
            near = np.minimum(far, near)
        return self.filled(block, d)

    def filled(self, block: np.ndarray, d: int) -> np.ndarray:
        """The partition with a member in every block, seen ones first; groups never seen join the largest block."""
        block = block.astype(np.int64)
        seen = self.size > 0.0
        block[~seen] = np.argmax(np.bincount(block, weights=self.size, minlength=d))
        for j in range(d):
            members = np.bincount(block[seen], minlength=d)
            if members[j] == 0:
                spare = seen & (members[block] > 1)
                if not spare.any():
                    spare = ~seen & (np.bincount(block, minlength=d)[block] > 1)
                block[int(np.argmax(np.where(spare, self.size, -1.0)))] = j
        return block

    def climb(self, block: np.ndarray, d: int, max_sweeps: int) -> tuple[np.ndarray, list[float], bool]:
        """The last partition, the log-likelihood before the first and after each sweep, whether it stands still."""
        block = block.copy()
        table, size = self.table(block, d), _sums(block, self.size, d)
        members = np.bincount(block[self.size > 0.0], minlength=d)
        visits = _sums(self.row, self.count, self.n_rows)
        constant = _x_log_x(self.size) - _x_log_x(visits)
        trace = [constant + _x_log_x(table) - _x_log_x(size)]
        least = LEAST_GAIN * float(self.size.sum())
        for _ in range(max_sweeps):
            moves = sweep(self.ptr, self.row, self.count, block, table, size, members, least)
            trace.append(constant + _x_log_x(table) - _x_log_x(size))
            if moves == 0:
                return block, trace, True
        return block, trace, False


def _sums(where: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Sums of weights by place, [size]; floats also when there is nothing to add."""
    return np.bincount(where, weights=weights, minlength=size).astype(np.float64)


def _x_log_x(x: np.ndarray) -> float:
    """sum x log x, 0 log 0 = 0."""
    positive = x[x > 0.0]
    return float(positive @ np.log(positive))
