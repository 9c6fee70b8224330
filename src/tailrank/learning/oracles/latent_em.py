"""Free low-rank models by expectation maximisation: P = sum_j phi_j(g, a) psi_j(g').

A pass weighs each transition by its responsibilities r_j = phi_j(g, a) psi_j(g') / P and sets phi and psi to
the normalised sums; the likelihood never falls. No entry ever falls below a tiny floor (an exact zero could
never be left again and makes values infinite); the maximum under the floor is exact, so this holds with it.
The floor leaks at most floor * G' of probability a step, which must stay far below tau / H.

The class is as large as the state space: the data needed grows with G. Where states have structure, use it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from tailrank._system.parallel import run_together
from tailrank.checks import InputError, not_negative, number, whole
from tailrank.learning.oracles._em_kernels import em_pass, settle
from tailrank.learning.oracles.fit import Fit, check_warm, parameters_log, sparse
from tailrank.models.counts import SparseCounts
from tailrank.models.lowrank import StepModel

LONGEST = 4.0
"""How far the first extrapolation may go, and the factor by which the limit then grows or shrinks."""


@dataclass(frozen=True)
class LatentEM:
    """EM with `rank` latents. Of the restarts (the first is the warm start, if there is one) the likeliest wins.

    It has converged when a plain pass gains at most `tolerance` nats a transition. `accelerate` extrapolates
    over two passes (SQUAREM) and takes nothing that is less likely: fewer passes when data are many.
    """

    rank: int
    restarts: int = 1
    max_iterations: int = 200
    tolerance: float = 1e-6
    floor: float = 1e-12
    accelerate: bool = False

    def __post_init__(self) -> None:
        for name in ("rank", "restarts", "max_iterations"):
            whole(getattr(self, name), name)
        not_negative(self.tolerance, "tolerance")
        if not 0.0 < number(self.floor, "floor") * self.rank < 1.0:
            raise InputError(f"floor = {self.floor}: must lie between 0 and 1 / rank")

    def dimension(self, shape: tuple[int, int, int]) -> int:
        """d, the rank."""
        return self.rank

    def log_class_size(self, n: float, shape: tuple[int, int, int]) -> float:
        """(G A (d - 1) + d (G' - 1)) log n, an effective number."""
        return parameters_log(shape[0] * shape[1] * (self.rank - 1) + self.rank * (shape[2] - 1), n)

    def fit(self, counts: np.ndarray | SparseCounts, *, rng: np.random.Generator, warm: StepModel | None = None) -> Fit:
        """The likeliest step found.

        Pairs never seen get the latents' average weights; latents without mass keep their psi.
        """
        data = sparse(counts)
        groups, actions, after = data.shape
        if self.rank > after:
            raise InputError(f"rank = {self.rank}: must be at most the number of next states, {after}")
        if self.floor * after >= 1.0:
            raise InputError(f"floor = {self.floor}: must lie below 1 / {after}, the number of next states")
        seen, row = np.unique(data.pair, return_inverse=True)
        visits = np.bincount(row, weights=data.count, minlength=seen.size)
        best: _Search | None = None
        for start in range(self.restarts):
            if warm is not None and start == 0:
                check_warm(warm, data.shape, self.rank)
                phi, psi = warm.phi.reshape(-1, self.rank)[seen], warm.psi.T.copy()
            else:
                phi, psi = self._random(seen.size, data, rng)
            search = _Search(data, row, self.floor, _law(phi, self.floor), _law(psi.T, self.floor).T.copy())
            search.run(self)
            if best is None or search.trace[-1] > best.trace[-1]:
                best = search
        if best is None:
            raise InputError(f"restarts = {self.restarts}: must be at least 1")
        average = _law((visits @ best.phi)[None] if seen.size else np.ones((1, self.rank)), self.floor)
        table = np.repeat(average, groups * actions, axis=0)
        table[seen] = best.phi
        step = StepModel(table.reshape(groups, actions, self.rank), best.psi.T.copy())
        return Fit(step, best.trace[-1], np.array(best.trace), best.converged)

    def _random(self, rows: int, data: SparseCounts, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """phi [m, d] uniform on the simplex, psi [G', d] the marginal law times exponential noise."""
        marginal = np.bincount(data.after, weights=data.count, minlength=data.shape[2]) + 1.0 / data.shape[2]
        phi = rng.standard_exponential((rows, self.rank))
        return phi, (marginal * rng.standard_exponential((self.rank, data.shape[2]))).T


def _law(mass: np.ndarray, floor: float) -> np.ndarray:
    """Rows as laws with no entry below the floor."""
    result = np.array(mass, dtype=np.float64, order="C")
    settle(result, floor)
    return result


PART_PRODUCTS, MOST_PARTS = 1_000_000, 8
"""A pass is cut into parts of at least so many products, which threads share; the parts depend on the data alone."""


@dataclass
class _Search:
    """One climb: phi [m, d] of the m pairs seen and psi [G', d] are the iterate that trace[-1] belongs to."""

    data: SparseCounts
    row: np.ndarray
    floor: float
    phi: np.ndarray
    psi: np.ndarray
    trace: list[float] = field(default_factory=list)
    converged: bool = False

    def run(self, settings: LatentEM) -> None:
        """Climb; the trace gets one entry a pass, the likelihood of the best iterate so far."""
        enough = settings.tolerance * self.data.total
        ptr = np.searchsorted(self.row, np.arange(self.phi.shape[0] + 1))
        run = em_pass(settings.rank)
        phi, psi, leap, limit = self.phi, self.psi, False, LONGEST
        before: tuple[np.ndarray, np.ndarray] | None = None
        fallback = (phi, psi)
        for _ in range(settings.max_iterations + 1):
            next_phi, mass = np.empty_like(phi), np.empty_like(psi)
            value = self._pass(run, ptr, phi, psi, next_phi, mass)
            if leap and not value >= self.trace[-1]:
                self.trace.append(self.trace[-1])
                (phi, psi), leap, limit = fallback, False, max(limit / LONGEST, 1.0)
                continue
            gain = value - self.trace[-1] if self.trace else np.inf
            self.trace.append(value)
            self.phi, self.psi = phi, psi
            if not leap and gain <= enough:
                self.converged = True
                return
            following = self._next(next_phi, mass, psi)
            if settings.accelerate and before is not None and not leap:
                fallback = following
                (phi, psi), reached = _extrapolate(before, (phi, psi), following, limit, self.floor)
                limit = limit * LONGEST if reached else limit
                before, leap = None, True
            else:
                before, leap = (phi, psi), False
                phi, psi = following

    def _pass(self, run: Any, ptr: np.ndarray, phi: np.ndarray, psi: np.ndarray, *mass: np.ndarray) -> float:
        """The log-likelihood of (phi, psi), and what `em_pass` fills, in parts on all cores."""
        after, count = self.data.after, self.data.count
        if count.size * phi.shape[1] < 2 * PART_PRODUCTS:
            return float(run(ptr, after, count, phi, psi, *mass))
        n_parts = min(MOST_PARTS, count.size * phi.shape[1] // PART_PRODUCTS)
        cuts = np.searchsorted(ptr, count.size * np.arange(n_parts + 1) / n_parts)
        cuts[0], cuts[-1] = 0, phi.shape[0]
        masses = np.empty((n_parts, *psi.shape))
        tasks = [
            partial(run, ptr[a : b + 1], after, count, phi[a:b], psi, mass[0][a:b], masses[i])
            for i, (a, b) in enumerate(pairwise(cuts.tolist()))
        ]
        value = sum(run_together(tasks))
        np.sum(masses, axis=0, out=mass[1])
        return float(value)

    def _next(self, phi_mass: np.ndarray, psi_mass: np.ndarray, psi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """phi and psi from the expected counts of each latent."""
        settle(phi_mass, self.floor)
        laws = np.ascontiguousarray(psi_mass.T)
        empty = laws.sum(axis=1) <= 2.0 * self.floor * self.data.total
        settle(laws, self.floor)
        laws[empty] = psi.T[empty]
        return phi_mass, np.ascontiguousarray(laws.T)


def _extrapolate(
    x: tuple[np.ndarray, np.ndarray],
    y: tuple[np.ndarray, np.ndarray],
    z: tuple[np.ndarray, np.ndarray],
    limit: float,
    floor: float,
) -> tuple[tuple[np.ndarray, np.ndarray], bool]:
    """The squared extrapolation of three iterates, laws again; and whether the limit cut it short.

    phi and psi each have their own step length, and move as square roots: on the sphere, where laws with
    many small entries are followed better than on the simplex.
    """
    result, reached = [], False
    for a, b, c in zip(x, y, z, strict=True):
        start, middle = np.sqrt(a), np.sqrt(b)
        first = middle - start
        second = np.sqrt(c) - middle - first
        bend = float((second * second).sum())
        length = float(np.sqrt((first * first).sum() / bend)) if bend > 0.0 else 1.0
        reached |= length >= limit
        length = max(min(length, limit), 1.0)
        result.append(np.maximum(start + 2.0 * length * first + length**2 * second, 0.0) ** 2)
    return (_law(result[0], floor), np.ascontiguousarray(_law(result[1].T, floor).T)), reached
