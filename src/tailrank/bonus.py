"""Exploration bonuses (Algorithm 1, lines 12-13).

    Sigma_h = sum over D_h of phi phi^T + lambda I
    b_h(s, a) = min(alpha ||phi_h(s, a)||_{Sigma_h^{-1}}, cap)     for h < H - 2 (0-based), zero afterwards

The last two steps carry no bonus: nothing after the last transition is learned, and the one-step-back
lemma pays for a step with the bonus of the step before it.
"""

from __future__ import annotations

import numpy as np

from tailrank.lowrank import LowRankModel


def elliptical_bonus(
    model: LowRankModel, visits: tuple[np.ndarray, ...], n_actions: int, alpha: float, lam: float, cap: float
) -> list[np.ndarray]:
    """Bonuses [G, A] of every step h = 0..H-1, on the scale where one step pays at most 1."""
    H = model.horizon
    result = []
    for h in range(H):
        if h >= H - 2:
            result.append(np.zeros((model.groups(h), n_actions)))
            continue
        phi = model.steps[h].phi
        rows = phi.reshape(-1, phi.shape[-1])
        if _one_hot(rows):  # every pair its own feature: the covariance is diagonal
            norm = 1.0 / np.sqrt(visits[h] + lam)
            result.append(np.minimum(alpha * norm, cap))
            continue
        sigma = (rows * visits[h].reshape(-1, 1)).T @ rows + lam * np.eye(rows.shape[1])
        half = np.linalg.solve(np.linalg.cholesky(sigma), rows.T)
        result.append(np.minimum(alpha * np.sqrt((half**2).sum(axis=0)), cap).reshape(phi.shape[:2]))
    return result


def _one_hot(rows: np.ndarray) -> bool:
    return (
        rows.shape[0] == rows.shape[1] and bool((rows.diagonal() == 1.0).all()) and np.count_nonzero(rows) == len(rows)
    )
