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
TRIES, TRY = 3, 6
"""Random starts of a mixture, and passes of EM after which the best goes on."""
MOST_CUT = 500
"""Places by which a view is chosen, about."""


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
    """A mixture of K Gaussians on places [n, k] by EM.

    Begun from places far apart, and from a cut of the view that shows groups best: of few places in many dimensions the
    first often misses groups that the second shows. The try with the highest objective goes on.
    """
    pooled = np.cov(z.T).reshape(z.shape[1], -1) / 2 + 1e-9 * np.eye(z.shape[1])
    spread = np.repeat(whitener(pooled)[None], K, axis=0)
    starts = [Gaussians(_far_apart(z, K, rng), spread) for _ in range(TRIES)]
    starts.append(refit(z, _cut(z, K), pooled, nu))
    tried = [_mixture(z, start, np.full(K, -np.log(K)), pooled, nu, TRY) for start in starts]
    best = max(tried, key=lambda found: found[2])
    return _mixture(z, *best[:2], pooled, nu, passes)[0]


def _cut(z: np.ndarray, K: int) -> np.ndarray:
    """Groups [n, K] of places [n, k]: K-means in that one of all features and principal components in which groups
    explain the largest share of the variance. The view is chosen by some of the places."""
    centred = z - z.mean(axis=0)
    views = np.hstack([centred, centred @ np.linalg.eigh(np.cov(z.T).reshape(z.shape[1], -1))[1]])
    some = views[:: max(1, len(z) // MOST_CUT)]
    centres = np.quantile(some, (np.arange(K) + 0.5) / K, axis=0)
    for _ in range(10):
        mine = np.eye(K)[np.abs(some[:, :, None] - centres.T).argmin(axis=2)]
        many = mine.sum(axis=0).T
        centres = np.where(many > 0, np.einsum("nv,nvk->kv", some, mine) / np.maximum(many, 1.0), centres)
    within = (np.abs(some[:, :, None] - centres.T).min(axis=2) ** 2).mean(axis=0)
    best = (within / np.maximum(some.var(axis=0), 1e-12)).argmin()
    return np.eye(K)[np.abs(views[:, best, None] - centres[:, best]).argmin(axis=1)]


def _far_apart(z: np.ndarray, K: int, rng: np.random.Generator) -> np.ndarray:
    """K of the places [n, k], far apart (k-means++)."""
    centres = z[rng.integers(len(z))][None]
    away = ((z - centres) ** 2).sum(axis=1)
    while len(centres) < K:
        total = away.sum()
        new = z[rng.choice(len(z), p=away / total)] if total > 0 else z[rng.integers(len(z))]
        centres = np.vstack([centres, new])
        away = np.minimum(away, ((z - new) ** 2).sum(axis=1))
    return centres


def _mixture(
    z: np.ndarray, psi: Gaussians, log_weights: np.ndarray, pooled: np.ndarray, nu: float, passes: int
) -> tuple[Gaussians, np.ndarray, float]:
    """psi and the log weights [K] of a mixture after so many passes of EM, and the objective before the last one."""
    value = -np.inf
    for _ in range(passes):
        joint = psi.log_densities(z) + log_weights
        top = joint.max(axis=1)
        value = float((top + np.log(np.exp(joint - top[:, None]).sum(axis=1))).sum()) + log_prior(psi, pooled, nu)
        share = responsibilities(joint)
        log_weights = np.log(share.mean(axis=0) + 1e-12)
        psi = refit(z, share, pooled, nu)
    return psi, log_weights, value


def responsibilities(joint: np.ndarray) -> np.ndarray:
    """Rows of exp(joint) [n, K], each divided by its sum."""
    odds = np.exp(joint - joint.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
