"""How many latents do transitions need? A lower bound on their rank from what was seen.

If P(x' | x, a) = sum_{j <= d} phi_j(x, a) psi_j(x') then for all functions f and g the matrix

    C = E[f(x, a) g(x')^T] - E f(x, a) E g(x')^T

has rank at most d - 1 (phi sums to 1), whatever the policy was. So the number of singular values of the empirical C
that lie above what chance gives, plus one, is a lower bound on d. What chance gives is measured: the largest singular
value when next observations are dealt out anew (the edge, the largest of a few deals).

f(x, a) are the features of x, one block for each action; g(x') the features of x'. Where the decoder is a table they
are indicators instead, scaled as in correspondence analysis (rare ones are scaled less, or noise would drown the rest).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrank.episodes.replay import Replay

DEALS = 8
MOST_MOVES, MOST_STEPS, MOST_FEATURES = 20_000, 8, 300
"""Larger problems are thinned out: fewer transitions and steps, random sums of features. The bound still holds."""
RARE = 10.0
"""Indicators are divided by the root of their count plus this."""


def numerical_rank(
    replay: Replay, n_actions: int, *, shared: bool, rng: np.random.Generator, labels: np.ndarray | None = None
) -> int:
    """The rank that the transitions need at least, the largest over steps (over some of them if there are many).

    shared: all steps as one. labels [n, H]: latents of a table, to be taken instead of features.
    """
    H = replay.horizon
    if H == 1:
        return 1
    parts = [np.arange(H - 1)] if shared else np.array_split(np.arange(H - 1), H - 1)
    if len(parts) > MOST_STEPS:
        parts = [parts[i] for i in np.linspace(0, H - 2, MOST_STEPS).astype(int)]
    ranks = [1]
    for steps in parts:
        episode, place = np.nonzero(steps + 1 < replay.lengths[:, None])
        h, action = steps[place], replay.actions[episode, steps[place]].astype(np.int64)
        if episode.size < 2:
            continue
        if labels is not None:
            found = _of_table(labels[episode, h], action, labels[episode, h + 1], n_actions, rng)
        else:
            most = min(MOST_MOVES, max(1000, 20_000_000 // replay.n_features))
            if episode.size > most:
                some = rng.choice(episode.size, size=most, replace=False)
                episode, h, action = episode[some], h[some], action[some]
            x, after = (_fewer(replay.features[episode, step], rng) for step in (h, h + 1))
            found = _of_features(x, action, after, rng)
        ranks.append(1 + found)
    return max(ranks)


def _of_features(x: np.ndarray, action: np.ndarray, after: np.ndarray, rng: np.random.Generator) -> int:
    left = np.column_stack([np.ones(len(x)), _standard(x)])
    right = _standard(after)
    blocks = [np.flatnonzero(action == a) for a in np.unique(action)]

    def gram_of(dealt: np.ndarray) -> np.ndarray:
        """n^2 C^T C, one block of f after the other."""
        gram = np.zeros((right.shape[1], right.shape[1]))
        for rows in blocks:
            block = left[rows].T @ dealt[rows] - np.outer(left[rows].sum(axis=0), dealt.mean(axis=0))
            gram += block.T @ block
        return gram

    edge = max(_largest(gram_of(right[rng.permutation(len(right))]), rng) for _ in range(DEALS))
    return _above(gram_of(right), edge)


def _of_table(z: np.ndarray, action: np.ndarray, after: np.ndarray, n_actions: int, rng: np.random.Generator) -> int:
    from scipy.sparse import csr_array

    pair, to = (np.unique(key, return_inverse=True)[1] for key in (z * n_actions + action, after))
    rows, columns = np.bincount(pair).astype(np.float64), np.bincount(to).astype(np.float64)
    n, scale, across = pair.size, 1.0 / np.sqrt(rows + RARE), 1.0 / np.sqrt(columns + RARE)

    def gram_of(dealt: np.ndarray) -> np.ndarray:
        table: Any = csr_array((scale[pair] * across[dealt], (pair, dealt)), shape=(rows.size, columns.size))
        left, right = scale * rows / n, across * columns
        mixed = np.outer(table.T @ left, right)
        return np.asarray((table.T @ table).toarray() - mixed - mixed.T + (left @ left) * np.outer(right, right))

    edge = max(_largest(gram_of(rng.permutation(to)), rng) for _ in range(DEALS))
    return _above(gram_of(to), edge)


def _largest(gram: np.ndarray, rng: np.random.Generator) -> float:
    """The largest eigenvalue: a large matrix need not be taken apart for it."""
    if len(gram) < 100:
        return float(np.linalg.eigvalsh(gram)[-1])
    from scipy.sparse.linalg import eigsh

    found = eigsh(gram, k=1, return_eigenvectors=False, v0=rng.normal(size=len(gram)), tol=1e-4)
    return float(found[0])


def _above(gram: np.ndarray, edge: float) -> int:
    """How many eigenvalues lie above the edge."""
    return int((np.linalg.eigvalsh(gram) > edge * (1 + 1e-3)).sum())


def _fewer(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random sums of the features where there are very many."""
    if x.shape[1] <= MOST_FEATURES:
        return x
    return np.asarray(x @ rng.standard_normal((x.shape[1], MOST_FEATURES), dtype=np.float32))


def _standard(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    spread = x.std(axis=0)
    return np.asarray((x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0))
