"""psi as Gaussians: log densities, the M-step of EM, and a mixture of them to begin with.

    psi_k = N(mu_k, S_k),   S_k shrunk towards the pooled covariance: (n_k S_k + nu S) / (n_k + nu)

The M-step maximises the expected log likelihood plus the log of the prior that the shrinkage stands for, so that
`objective` (log likelihood plus that prior) never falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

CHUNK = 4096
"""Places whose distances are held at once."""


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
        K, k = self.means.shape
        scale = np.log(np.abs(np.diagonal(self.whiteners, axis1=1, axis2=2))).sum(axis=1) - 0.5 * k * np.log(2 * np.pi)
        white = self.whiteners.transpose(1, 0, 2).reshape(k, K * k)
        centres = (self.means[:, None, :] @ self.whiteners).reshape(K * k)
        result = np.empty((len(z), K))
        for i in range(0, len(z), CHUNK):
            away = (z[i : i + CHUNK] @ white - centres).reshape(-1, K, k)
            result[i : i + CHUNK] = scale - 0.5 * np.einsum("nik,nik->ni", away, away)
        return result


def refit(z: np.ndarray, share: np.ndarray, pooled: np.ndarray, nu: float) -> Gaussians:
    """The M-step: Gaussians for places [n, k] with responsibilities share [n, K], shrunk towards pooled [k, k]."""
    total = share.sum(axis=0)
    means = share.T @ z / np.maximum(total, 1e-300)[:, None]
    scatters = []
    for mean, mine in zip(means, share.T, strict=True):
        away = z - mean
        scatters.append((away * mine[:, None]).T @ away)
    return Gaussians(means, whitener((np.stack(scatters) + nu * pooled) / (total + nu)[:, None, None]))


def whitener(covariance: np.ndarray) -> np.ndarray:
    """W [..., k, k], triangular, with W W^T the inverse of each covariance."""
    k = covariance.shape[-1]
    least = 1e-9 * np.maximum(np.trace(covariance, axis1=-2, axis2=-1) / k, 1e-12)
    root = np.linalg.cholesky(covariance + least[..., None, None] * np.eye(k))
    # In order, as a checkpoint gives it back: products of a transposed array have other last digits.
    return np.ascontiguousarray(np.linalg.inv(root).swapaxes(-2, -1))


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
