"""A decoder from geometry: observations of one latent lie together, whatever the map that made them.

    x ~ sum_j w_hj N(mu_hj, Sigma)      at step h, one within-latent covariance Sigma for all steps and latents

fitted in a learned subspace. Directions are kept in which some step varies more than noise can explain: the
eigenvalues of the step's covariance that stand above what noise gives (`noise_edge`), with sigma^2 the median
eigenvalue of the pooled within-step covariance. Rare latents count as much as common ones there (weights balanced
over the latents of the last fit), and steps share what they found, so that one observation
of a latent never seen at a step stands out at once. Components are added while the likelihood pays for them
and while they lie more than `separation` standard deviations apart: closer ones could not be told apart anyway.

Nothing is told to it: not the noise, nor the map, nor how many latents a step has (at most `rank`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tailrank._system.parallel import run_together
from tailrank.learning.standard import varies
from tailrank.policies.decoders.mixture import LARGEST_SAMPLE, SEPARATION, MixtureDecoder, price

SLACK = 1.3
"""Factor above the edge of the noise, whose eigenvalues scatter around it."""


def fit_mixture(
    samples: list[np.ndarray],
    rank: int,
    *,
    rng: np.random.Generator,
    warm: MixtureDecoder | None = None,
    seeds: list[np.ndarray] | None = None,
    separation: float = SEPARATION,
    largest_subspace: int = 16,
) -> MixtureDecoder:
    """The decoder for observations samples [H] of [n, m] (one list entry if the decoder is shared).

    seeds [H] of [s, m]: places where a latent is suspected, such as the mean of what followed a latent and action.
    """
    samples, weights = _thinned(samples, warm, rng)
    scale = _scale(samples)
    samples = [x / scale for x in samples]
    seeds = [np.zeros((0, len(scale)))] * len(samples) if seeds is None else [x / scale for x in seeds]
    decoder = None if warm is None else warm.rescaled(scale)
    for _ in range(2 if warm is None else 1):
        basis, noise = subspace(samples, weights, largest_subspace)
        inside = noise * np.eye(basis.shape[1]) if decoder is None else basis.T @ decoder.within @ basis
        for _ in range(3 if decoder is None else 2):
            decoder = _grow(samples, seeds, basis @ _whitener(inside), rank, separation, rng)
            within = _residuals(samples, decoder)
            inside = basis.T @ within @ basis
        decoder = replace(decoder, within=within)  # type: ignore[type-var]
        weights = [_balanced(decoder, h, x) for h, x in enumerate(samples)]  # type: ignore[arg-type]
    return decoder.rescaled(1.0 / scale)  # type: ignore[union-attr]


def fill_mixture(
    samples: list[np.ndarray], rank: int, *, rng: np.random.Generator, largest: int = 32
) -> MixtureDecoder:
    """A decoder that cuts the space into `rank` parts at each step (k-means), where there are no clusters to find.

    Features are standardised; of more than `largest` the principal components are kept.
    """
    samples, _ = _thinned(samples, None, rng)
    scale = _scale(samples)
    everything = np.concatenate(samples) / scale
    m = everything.shape[1]
    basis = np.eye(m)
    if m > largest:
        basis = np.linalg.eigh(np.cov(everything.T))[1][:, ::-1][:, :largest]
    places = [x / scale @ basis for x in samples]
    centres, weights = np.zeros((len(samples), rank, basis.shape[1])), np.full((len(samples), rank), -np.inf)
    within = 0.0
    for h, y in enumerate(places):
        found, counts, away = _k_means(y, rank, rng)
        centres[h, : len(found)], weights[h, : len(found)] = found, np.log(counts / counts.sum())
        within += away / len(places)
    sharp = math.sqrt(basis.shape[1] / max(within, 1e-12))
    return MixtureDecoder(basis / scale[:, None] * sharp, centres * sharp, weights, np.diag(scale**2))


def _k_means(points: np.ndarray, most: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Centres [J, k], points in each, and the mean squared distance; k-means++ start, twenty passes."""
    centres = points[rng.integers(len(points))][None]
    away = ((points - centres) ** 2).sum(axis=1)
    while len(centres) < most and away.max() > 1e-12:
        new = points[rng.choice(len(points), p=away / away.sum())]
        centres = np.vstack([centres, new])
        away = np.minimum(away, ((points - new) ** 2).sum(axis=1))
    for _ in range(20):
        square = (centres**2).sum(axis=1) - 2 * points @ centres.T
        nearest = square.argmin(axis=1)
        counts = np.bincount(nearest, minlength=len(centres))
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, points)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    keep = counts > 0
    return centres[keep], counts[keep], float(((points - centres[nearest]) ** 2).sum(axis=1).mean())


def _scale(samples: list[np.ndarray]) -> np.ndarray:
    """Standard deviation of each feature over everything seen, [m]; 1 for features that never change."""
    everything = np.concatenate(samples)
    spread = everything.std(axis=0)
    return np.where(varies(spread, np.abs(everything).max(axis=0)), spread, 1.0)


def subspace(samples: list[np.ndarray], weights: list[np.ndarray], largest: int) -> tuple[np.ndarray, float]:
    """An orthonormal basis [m, k] of the directions that are more than noise, and the noise variance."""
    m = samples[0].shape[1]
    covariances, effective, edges = [], [], []
    for x, w in zip(samples, weights, strict=True):
        share = w / w.sum()
        effective.append(1.0 / float((share**2).sum()))
        edges.append(noise_edge(share, m))
        centred = (x - share @ x) * np.sqrt(share)[:, None]
        covariances.append(centred.T @ centred)
    big = [h for h, n in enumerate(effective) if n >= min(8, max(effective))]
    noise = _noise(np.mean([covariances[h] for h in big], axis=0))
    if m <= 4:
        return np.eye(m), noise
    total = np.zeros((m, m))
    for h in big:
        values, vectors = np.linalg.eigh(covariances[h])
        edge = SLACK * noise * edges[h]
        above = values > edge
        total += (vectors[:, above] * np.minimum(values[above] / edge - 1, 1)) @ vectors[:, above].T
    values, vectors = np.linalg.eigh(total)
    k = int(np.clip((values > 0.3).sum(), 1, largest))
    return vectors[:, ::-1][:, :k], noise


def _noise(within: np.ndarray) -> float:
    """The noise variance: the median eigenvalue of a covariance [m, m].

    Where there are fewer observations than features, r eigenvalues are not 0, and are m / r times as large.
    """
    values = np.linalg.eigvalsh(within)
    some = values[values > 1e-9 * values[-1]]
    return max(float(np.median(some)) * some.size / len(values), 1e-12) if some.size else 1e-12


def noise_edge(share: np.ndarray, m: int) -> float:
    """The largest eigenvalue of sum_i w_i e_i e_i^T for standard normal e_i in R^m, with weights share [n] of sum 1.

    It is min over 0 < t < 1 / max w of m / t + sum_i w_i / (1 - w_i t) (Silverstein and Choi 1995), for n and m that
    are not small. With equal weights that is Marchenko and Pastur's (1 + sqrt(m / n))^2; a heavy one among light ones
    makes a direction of its own, and the edge is then nearer to w m.
    """
    values, counts = np.unique(share[share > 0], return_counts=True)
    top = float(values[-1])

    def slope(u: float) -> float:
        """Of the function in u = t max w, up to a factor."""
        part = values / top
        return float((counts * part**2 / (1.0 - part * u) ** 2).sum()) - m / u**2

    low, high = 0.0, 1.0
    for _ in range(50):
        u = 0.5 * (low + high)
        low, high = (u, high) if slope(u) < 0 else (low, u)
    return float(top * (m / low + (counts * values / top / (1.0 - values / top * low)).sum()))


def _thinned(
    samples: list[np.ndarray], warm: MixtureDecoder | None, rng: np.random.Generator
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """At most LARGEST_SAMPLE observations a step (times the steps that a shared decoder serves), and their weights."""
    limit = LARGEST_SAMPLE * (10 if len(samples) == 1 else 1)
    chosen, weights = [], []
    for h, x in enumerate(samples):
        w = np.ones(len(x)) if warm is None else _balanced(warm, h, x)
        if len(x) > limit:
            keep = np.sort(rng.choice(len(x), size=limit, replace=False, p=w / w.sum()))
            x, w = x[keep], w[keep]
            w = np.ones(len(x))  # balanced by the draw
        chosen.append(np.asarray(x, dtype=np.float64))
        weights.append(w)
    return chosen, weights


def _balanced(decoder: MixtureDecoder, h: int, x: np.ndarray) -> np.ndarray:
    z = decoder.log_odds(h, x).argmax(axis=1)
    return np.asarray(1.0 / np.bincount(z, minlength=decoder.n_latents)[z])


def _whitener(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-9 * values.max() + 1e-300)))


def _grow(
    samples: list[np.ndarray],
    seeds: list[np.ndarray],
    project: np.ndarray,
    rank: int,
    separation: float,
    rng: np.random.Generator,
) -> MixtureDecoder:
    from tailrank.learning.decoding import _mixture_kernels

    H, k = len(samples), project.shape[1]
    draws = rng.random((H, 2))
    places = [x @ project for x in samples]
    penalty = [price(k, len(y)) for y in places]

    def task(h: int) -> tuple[np.ndarray, np.ndarray]:
        return _mixture_kernels.grow(places[h], rank, penalty[h], separation, draws[h], seeds[h] @ project)

    found = run_together([lambda h=h: task(h) for h in range(H)])  # type: ignore[misc]
    centres, weights = np.zeros((H, rank, k)), np.full((H, rank), -np.inf)
    for h, (place, share) in enumerate(found):
        with np.errstate(divide="ignore"):
            centres[h, : len(place)], weights[h, : len(place)] = place, np.log(share)
    return MixtureDecoder(project, centres, weights, np.empty((0, 0)))


def _residuals(samples: list[np.ndarray], decoder: MixtureDecoder) -> np.ndarray:
    """Pooled covariance of the observations around the means of their latents, [m, m]."""
    m, total, freedom = samples[0].shape[1], 0.0, 0
    scatter = np.zeros((m, m))
    for h, x in enumerate(samples):
        z = decoder.log_odds(h, x).argmax(axis=1)
        counts = np.bincount(z, minlength=decoder.n_latents)
        sums = np.zeros((decoder.n_latents, m))
        np.add.at(sums, z, x)
        away = x - (sums / np.maximum(counts, 1)[:, None])[z]
        scatter += away.T @ away
        freedom += len(x) - int((counts > 0).sum())
    total = max(freedom, 1)
    return scatter / total + 1e-9 * np.eye(m) * max(float(np.trace(scatter)) / total / m, 1e-12)
