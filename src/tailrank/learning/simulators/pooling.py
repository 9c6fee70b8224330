"""Laws of counted states: the actions of a state share what they have in common.

Many pairs of state and action were tried a few times only, and a plan picks those that were lucky. Two things help.
Laws are drawn from a Dirichlet prior around what follows the state whatever is done, q(o | x), of weight kappa; and
actions that look alike are pooled: w(a, b) is the probability that a and b have the same law in x, both ways being as
likely beforehand (with D the Dirichlet-multinomial likelihood, w / (1 - w) = D(n_a + n_b) / (D(n_a) D(n_b))).

    p(o | x, a) = (sum_b w(a, b) n(x, b, o) + kappa q(o | x)) / (sum_b w(a, b) n(x, b) + kappa)

kappa is the one in `PRIORS` under which the transitions of held-out episodes are likeliest. The least of them means
that there is nothing to share (a simulator without chance, for instance): then the counts stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.learning.simulators._kernels import alike

PRIORS = (0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
FEWEST = 500
"""Transitions below which nothing is shared."""
MOST_ACTIONS, MOST_ENTRIES = 64, 5_000_000
"""Of a state, and of the laws in all: beyond, counts stay as they are."""


@dataclass(frozen=True)
class PooledLaws:
    """Entries of the laws: pair (state A + action), outcome and weight, all [E]; mass [M, A]: how many transitions each
    law rests on, without the prior, whose weight is kappa. A pair that was never tried has the prior alone; where kappa
    is 0, no entries."""

    pair: np.ndarray
    outcome: np.ndarray
    weight: np.ndarray
    mass: np.ndarray
    kappa: float


def pooled_laws(
    pair: np.ndarray,
    outcome: np.ndarray,
    held: np.ndarray,
    n_states: int,
    n_actions: int,
    allowed: np.ndarray | None = None,
) -> PooledLaws:
    """The laws of transitions of these pairs [T] with these outcomes [T]; held [T]: the ones that choose kappa;
    allowed [M, A]: pairs that need a law."""
    shape = (n_states, n_actions, int(outcome.max()) + 1)
    sums = counts = counted(pair, outcome, shape)
    most, kappa = of_states(counts, shape).nnz * n_actions, 0.0
    if pair.size >= FEWEST and 1 < n_actions <= MOST_ACTIONS and most <= MOST_ENTRIES:
        learned, asked = counted(pair[~held], outcome[~held], shape), counted(pair[held], outcome[held], shape)
        best = int(np.argmax([log_likelihood(learned, asked, kappa, shape) for kappa in PRIORS]))
        kappa = PRIORS[best] if best > 0 else 0.0
    mixed = counts
    if kappa > 0.0:
        sums, common = shared(counts, kappa, shape)
        mixed = sums + kappa * (common if allowed is None else common.multiply(allowed.reshape(-1, 1)))
    mixed = mixed.tocoo()
    mass = np.asarray(sums.sum(axis=1)).reshape(n_states, n_actions)
    return PooledLaws(mixed.row.astype(np.int64), mixed.col.astype(np.int64), mixed.data, mass, kappa)


def log_likelihood(learned: Any, asked: Any, kappa: float, shape: tuple[int, int, int]) -> float:
    """Of the transitions counted in `asked`, by the laws of those in `learned`.

    Laws lean on the uniform one over all outcomes with the weight of one transition of the state, whatever kappa is:
    it is not to be chosen by outcomes that the state never had.
    """
    sums, common = shared(learned, kappa, shape)
    asked = asked.tocoo()
    row, column = asked.row, asked.col
    total = np.asarray(of_states(learned, shape).sum(axis=1)).ravel()[row // shape[1]]
    mass = np.asarray(sums.sum(axis=1)).ravel()[row]
    law = (np.asarray(sums[row, column]).ravel() + kappa * np.asarray(common[row, column]).ravel()) / (mass + kappa)
    return float((asked.data * np.log((law * total + 1.0 / shape[2]) / (total + 1.0))).sum())


def shared(counts: Any, kappa: float, shape: tuple[int, int, int]) -> tuple[Any, Any]:
    """Sums over actions that look alike, and q for every action, both sparse [M A, N]."""
    from scipy.sparse import bsr_matrix, diags

    M, A, _ = shape
    together = of_states(counts, shape)
    total = np.maximum(np.asarray(together.sum(axis=1)).ravel(), 1.0)
    common = (diags(1.0 / total) @ together).tocsr()[np.repeat(np.arange(M), A)]
    share = np.empty((M, A, A))
    cells = counts.tocoo()
    mine = np.asarray(common[cells.row, cells.col]).ravel()
    alike(counts.indptr, counts.indices, counts.data, mine, kappa, share)
    sums = (bsr_matrix((share, np.arange(M), np.arange(M + 1))) @ counts).tocsr()
    sums.eliminate_zeros()
    return sums, common


def of_states(counts: Any, shape: tuple[int, int, int]) -> Any:
    """The counts of all actions of a state together, sparse [M, N]."""
    from scipy.sparse import csr_matrix

    pairs = np.arange(shape[0] * shape[1])
    return csr_matrix((np.ones(pairs.size), (pairs // shape[1], pairs))) @ counts


def counted(pair: np.ndarray, outcome: np.ndarray, shape: tuple[int, int, int]) -> Any:
    """How often each outcome followed each pair, sparse [M A, N], columns in order."""
    from scipy.sparse import csr_matrix

    found = csr_matrix((np.ones(pair.size), (pair, outcome)), shape=(shape[0] * shape[1], shape[2]))
    found.sum_duplicates()
    return found
