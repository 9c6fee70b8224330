"""Inductions that a careful user would write with NumPy and SciPy; each returns the curve [C].

`matvec` works on the augmented kernel. `numpy` and `sparse` know that budgets only shift, and never build
it: `numpy` gathers the shifted rows V(s', . - r), `sparse` multiplies one matrix by all shifted rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from problem import TOP_REWARD, Problem, augmented, terminal_cost


def matvec_build(problem: Problem) -> Any:
    from scipy.sparse import csr_array

    columns, probs = augmented(problem)
    states, A, K = columns.shape
    ptr = np.arange(0, states * A * K + 1, K, dtype=np.int32)
    return csr_array((probs.ravel(), columns.ravel(), ptr), shape=(states * A, states)), problem


def matvec_solve(model: Any) -> np.ndarray:
    kernel, problem = model
    values = terminal_cost(problem)
    policy = np.empty((problem.horizon, values.size), dtype=np.int8)
    for h in reversed(range(problem.horizon)):
        q = (kernel @ values).reshape(values.size, -1)
        policy[h] = q.argmin(axis=1)
        values = q.min(axis=1)
    return values[: problem.n_budgets]


def shifted(values: np.ndarray) -> np.ndarray:
    """View [S, TOP_REWARD + 1, C] whose entry (s, j, c) is values[s, max(c - (TOP_REWARD - j), 0)]."""
    padded = np.concatenate([np.repeat(values[:, :1], TOP_REWARD, axis=1), values], axis=1)
    return np.lib.stride_tricks.sliding_window_view(padded, values.shape[1], axis=1)


def numpy_solve(problem: Problem) -> np.ndarray:
    (S, A, K), C = problem.shape, problem.n_budgets
    window, prob = TOP_REWARD - problem.reward, problem.prob[..., None]
    values = np.tile(np.arange(C, dtype=np.float64), (S, 1))
    policy = np.empty((problem.horizon, S, C), dtype=np.int8)
    for h in reversed(range(problem.horizon)):
        after, values = shifted(values), np.empty_like(values)
        for at in range(0, S, 50):
            part = slice(at, at + 50)
            q = np.zeros((problem.prob[part].shape[0], A, C))
            for k in range(K):
                q += prob[part, :, k] * after[problem.next_state[part, :, k], window[part, :, k]]
            policy[h, part], values[part] = q.argmin(axis=1), q.min(axis=1)
    return values[0]


def sparse_build(problem: Problem) -> Any:
    from scipy.sparse import csr_array

    S, A, K = problem.shape
    columns = problem.next_state * (TOP_REWARD + 1) + TOP_REWARD - problem.reward
    ptr = np.arange(0, S * A * K + 1, K, dtype=np.int32)
    shape = (S * A, S * (TOP_REWARD + 1))
    return csr_array((problem.prob.ravel(), columns.ravel(), ptr), shape=shape), problem


def sparse_solve(model: Any) -> np.ndarray:
    kernel, problem = model
    (S, A, _), C = problem.shape, problem.n_budgets
    values = np.tile(np.arange(C, dtype=np.float64), (S, 1))
    policy = np.empty((problem.horizon, S, C), dtype=np.int8)
    for h in reversed(range(problem.horizon)):
        q = (kernel @ shifted(values).reshape(-1, C)).reshape(S, A, C)
        policy[h], values = q.argmin(axis=1), q.min(axis=1)
    return values[0]
