"""Which coordinates matter: a metric learned from transitions.

Features are standardised; more than `MOST` of them are projected at random on `MOST` directions (different one-hots
stay different). Ridge regression on the coordinates, their squares and products says how the mean of what follows,
(x', r, ended), changes with every coordinate; a coordinate matters by what it does to the reward and to the end, and by
what it does to coordinates that matter:

    v_j = rho_j + gamma sum_k J_kj v_k,      J_kj = E |d E[x'_k | x, a] / d x_j|^2,    rho_j the same for r and ended

(J is divided by its spectral radius where that is above 1). Distances weigh coordinate j by v_j^(1/2), never below
`FLOOR` of the largest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.learning.simulators.played import PlayedTransitions
from tailrank.learning.standard import varies
from tailrank.policies.kernel import Metric

MOST = 24
GAMMA = 0.9
FLOOR = 0.1
RIDGE = 1e-3


@dataclass(frozen=True)
class Standard:
    """Coordinates s = (x - centre) project of deviation about 1; time [k] is added times h/H (zeros: no time)."""

    centre: np.ndarray
    project: np.ndarray
    time: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, timed: bool, rng: np.random.Generator) -> Standard:
        """From features [n, m]; constant ones count for nothing."""
        centre, spread = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
        scale = np.where(varies(spread, centre), 1.0 / np.maximum(spread, 1e-300), 0.0)
        project = np.diag(scale)[:, scale > 0] if (scale > 0).any() else np.zeros((scale.size, 1))
        if project.shape[1] > MOST:
            # One-hots of rare values would count most after scaling: all of them share one scale.
            binary = bool(((features == 0) | (features == 1)).all())
            rows = np.ones_like(scale) if binary else scale
            project = rows[:, None] * rng.normal(size=(scale.size, MOST)) / np.sqrt(MOST)
        project = np.hstack([project, np.zeros((len(project), 1))]) if timed else project
        time = np.zeros(project.shape[1])
        time[-1] = np.sqrt(12.0) if timed else 0.0  # the deviation of a uniform time is then 1
        return cls(centre, project, time)

    def place(self, features: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Coordinates [n, k] at times h/H [n]."""
        return (np.asarray(features, dtype=np.float64) - self.centre) @ self.project + np.outer(time, self.time)

    def metric(self, weights: np.ndarray) -> Metric:
        """The metric that weighs the coordinates by weights [k]."""
        return Metric(self.centre, np.vstack([self.project, self.time]) * weights)


def quadratic(s: np.ndarray) -> np.ndarray:
    """1, coordinates, squares and products (of at most 12 coordinates), [n, p]."""
    k = s.shape[1]
    i, j = np.triu_indices(k) if k <= 12 else (np.arange(k), np.arange(k))
    return np.hstack([np.ones((len(s), 1)), s, s[:, i] * s[:, j]])


@dataclass(frozen=True)
class Trend:
    """coefficients [A, p, q]: the mean of q numbers as a quadratic function of the coordinates, for every action."""

    coefficients: np.ndarray

    @classmethod
    def of(cls, s: np.ndarray, actions: np.ndarray, targets: np.ndarray, n_actions: int) -> Trend:
        """Ridge regression of targets [n, q]; an action with little data is drawn to what all actions share."""
        basis = quadratic(s)
        shared = _ridge(basis, targets, np.zeros((basis.shape[1], targets.shape[1])), RIDGE * len(s))
        found = np.tile(shared, (n_actions, 1, 1))
        for a in range(n_actions):
            mine = actions == a
            if mine.any():
                found[a] = _ridge(basis[mine], targets[mine], shared, 1.0 + RIDGE * mine.sum())
        return cls(found)

    def at(self, s: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """The means [n, q] at coordinates [n, k]."""
        basis = quadratic(s)
        result = np.empty((len(s), self.coefficients.shape[2]))
        for a in np.unique(actions):
            mine = actions == a
            result[mine] = basis[mine] @ self.coefficients[a]
        return result

    def slopes(self, s: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Mean squared derivatives [q, k] by each coordinate."""
        k, width = s.shape[1], 1e-3
        found = np.empty((self.coefficients.shape[2], k))
        for j in range(k):
            step = np.zeros(k)
            step[j] = width
            found[:, j] = (((self.at(s + step, actions) - self.at(s - step, actions)) / (2 * width)) ** 2).mean(axis=0)
        return found


def _ridge(basis: np.ndarray, targets: np.ndarray, towards: np.ndarray, ridge: float) -> np.ndarray:
    gram = basis.T @ basis + ridge * np.eye(basis.shape[1])
    return np.linalg.solve(gram, basis.T @ targets + ridge * towards)


def relevance(s: np.ndarray, after: np.ndarray, data: PlayedTransitions, n_actions: int) -> np.ndarray:
    """v [k], the largest 1: how much each coordinate s [n, k] matters; after [n, k]: the coordinates that follow."""
    paid = np.column_stack([data.rewards, data.ended.astype(np.float64)])
    spread = paid.std(axis=0)
    paid = np.where(spread > 0, (paid - paid.mean(axis=0)) / np.where(spread > 0, spread, 1.0), 0.0)
    slopes = Trend.of(s, data.actions, np.hstack([after, paid]), n_actions).slopes(s[:2000], data.actions[:2000])
    k = s.shape[1]
    moves, rho = slopes[:k], slopes[k:].sum(axis=0)
    rho = rho if rho.sum() > 0 else np.ones(k)
    moves = moves / max(1.0, float(np.abs(np.linalg.eigvals(moves)).max()))
    v = np.linalg.solve(np.eye(k) - GAMMA * moves.T, rho)
    return np.maximum(v / v.max(), FLOOR**2)
