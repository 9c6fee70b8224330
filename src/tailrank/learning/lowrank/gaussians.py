"""psi as Gaussians: log densities, the M-step of EM, and a mixture of them to begin with.

    psi_k = N(mu_k, S_k),   S_k shrunk towards the pooled covariance: (n_k S_k + nu S) / (n_k + nu)

The M-step maximises the expected log likelihood plus the log of the prior that the shrinkage stands for, so that
`objective` (log likelihood plus that prior) never falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np


@dataclass(frozen=True)
class Gaussians:
    """means [K, k] and whiteners [K, k, k]: S_k^{-1} = W_k W_k^T."""

    name: ClassVar[str] = "gaussian"
    means: np.ndarray
    whiteners: np.ndarray

    @property
    def n_kinds(self) -> int:
        """K."""
        return len(self.means)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For checkpoints."""
        return {"means": self.means, "whiteners": self.whiteners}

    def log_densities(self, z: np.ndarray) -> np.ndarray:
        """log psi_k of places [n, k], [n, K]."""
        k = self.means.shape[1]
        result = np.empty((len(z), len(self.means)))
        for i, (mean, white) in enumerate(zip(self.means, self.whiteners, strict=True)):
            scale = np.log(np.abs(np.diagonal(white))).sum() - 0.5 * k * np.log(2 * np.pi)
            result[:, i] = scale - 0.5 * (((z - mean) @ white) ** 2).sum(axis=1)
        return result


def refit(z: np.ndarray, share: np.ndarray, pooled: np.ndarray, nu: float) -> Gaussians:
    """The M-step: Gaussians for places [n, k] with responsibilities share [n, K], shrunk towards pooled [k, k]."""
    K, k = share.shape[1], z.shape[1]
    means, whiteners = np.empty((K, k)), np.empty((K, k, k))
    total = share.sum(axis=0)
    for i in range(K):
        means[i] = share[:, i] @ z / max(total[i], 1e-300)
        away = z - means[i]
        scatter = (away * share[:, i, None]).T @ away + nu * pooled
        whiteners[i] = whitener(scatter / (total[i] + nu))
    return Gaussians(means, whiteners)


def whitener(covariance: np.ndarray) -> np.ndarray:
    """W [k, k], lower triangular, with W W^T the inverse of the covariance."""
    k = len(covariance)
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(k) * max(float(np.trace(covariance)) / k, 1e-12))
    return np.asarray(np.linalg.inv(root).T)


def log_prior(psi: Gaussians, pooled: np.ndarray, nu: float) -> float:
    """Log of the prior that shrinkage stands for, up to a constant: nu pseudo-observations with covariance `pooled`."""
    total = 0.0
    for white in psi.whiteners:
        total += nu * float(np.log(np.abs(np.diagonal(white))).sum())
        total -= 0.5 * nu * float(((white.T @ pooled) * white.T).sum())
    return total


def begin(z: np.ndarray, K: int, nu: float, rng: np.random.Generator, passes: int = 30) -> Gaussians:
    """A mixture of K Gaussians on places [n, k] by EM, from centres far apart (k-means++)."""
    centres = z[rng.integers(len(z))][None]
    away = ((z - centres) ** 2).sum(axis=1)
    while len(centres) < K:
        total = away.sum()
        new = z[rng.choice(len(z), p=away / total)] if total > 0 else z[rng.integers(len(z))]
        centres = np.vstack([centres, new])
        away = np.minimum(away, ((z - new) ** 2).sum(axis=1))
    pooled = np.cov(z.T).reshape(z.shape[1], -1) + 1e-9 * np.eye(z.shape[1])
    psi = Gaussians(centres, np.repeat(whitener(pooled / 2)[None], K, axis=0))
    log_weights = np.full(K, -np.log(K))
    for _ in range(passes):
        share = responsibilities(psi.log_densities(z) + log_weights)
        log_weights = np.log(share.mean(axis=0) + 1e-12)
        psi = refit(z, share, pooled / 2, nu)
    return psi


def responsibilities(joint: np.ndarray) -> np.ndarray:
    """Rows of exp(joint) [n, K], each divided by its sum."""
    odds = np.exp(joint - joint.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
