"""Exploration bonuses, as tables [G, A] of every step h = 0..H-1, on the scale where one step pays at most 1.

Elliptical (Algorithm 1, lines 12-13):

    Sigma_h = sum over D_h of phi phi^T + lambda I
    b_h(s, a) = min(alpha ||phi_h(s, a)||_{Sigma_h^{-1}}, cap)     for h < H - 2 (0-based), zero afterwards

The last two steps carry no bonus: nothing after the last transition is learned, and the one-step-back
lemma pays for a step with the bonus of the step before it.

By visits (tabular rivals), x = c^2 L / N with N visits and L = log(S A H k / delta): the Hoeffding bonus R sqrt(x),
where R is the most that can be earned after the step; planners with a Bernstein bonus make theirs from x. A pair that
was never tried has x = 1 at least, which promises the most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tailrank.learning.schedule import Schedule
from tailrank.models.lowrank import EmpiricalStep, Model
from tailrank.models.problem import PlanningProblem

BonusRule = Callable[[PlanningProblem, Schedule], list[np.ndarray]]


def elliptical(problem: PlanningProblem, schedule: Schedule) -> list[np.ndarray]:
    """The bonus of Algorithm 1."""
    H, A, d = problem.horizon, problem.n_actions, problem.dimension
    k, log_class = problem.rounds, problem.log_class
    return elliptical_bonus(
        problem.model,
        problem.visits,
        A,
        schedule.alpha(k, H, A, d, log_class),
        schedule.lam(k, H, d, log_class),
        schedule.cap_for(H),
    )


def none(problem: PlanningProblem, schedule: Schedule) -> list[np.ndarray]:
    """No bonus."""
    return problem.no_bonus


def hoeffding(problem: PlanningProblem, schedule: Schedule) -> list[np.ndarray]:
    """R sqrt(x), R in largest rewards."""
    top = max(problem.rewards.top, 1)
    return [problem.spread(h + 1) / top * np.sqrt(x) for h, x in enumerate(per_visit(problem, schedule))]


def per_visit(problem: PlanningProblem, schedule: Schedule) -> list[np.ndarray]:
    """x of every pair; zero at the last step, whose transition does not matter. c is `alpha_scale`."""
    G, H = problem.model.groups(0), problem.horizon
    most = schedule.alpha_scale**2 * schedule.confidence(problem.rounds, H, math.log(G * problem.n_actions))
    widths = [np.where(n > 0.0, most / np.maximum(n, 1.0), max(most, 1.0)) for n in problem.visits]
    return [*widths, np.zeros(problem.law_of[-1].shape)]


def elliptical_bonus(
    model: Model[Any], visits: tuple[np.ndarray, ...], n_actions: int, alpha: float, lam: float, cap: float
) -> list[np.ndarray]:
    """min(alpha ||phi||, cap)."""
    norms = elliptical_norms(model, visits, lam)
    paid = [np.minimum(alpha * norm, cap) for norm in norms[: max(model.horizon - 2, 0)]]
    return paid + [np.zeros((model.groups(h), n_actions)) for h in range(len(paid), model.horizon)]


def elliptical_norms(model: Model[Any], visits: tuple[np.ndarray, ...], lam: float) -> list[np.ndarray]:
    """||phi_h||_{Sigma_h^{-1}} of every pair, [H - 1] of [G, A]."""
    result = []
    for step, seen in zip(model.steps, visits, strict=True):
        if isinstance(step, EmpiricalStep) or _one_hot(step.phi.reshape(-1, step.phi.shape[-1])):
            result.append(1.0 / np.sqrt(seen + lam))  # every pair its own feature: the covariance is diagonal
            continue
        result.append(norms(step.phi.reshape(-1, step.phi.shape[-1]), seen.ravel(), lam).reshape(step.phi.shape[:2]))
    return result


def norms(rows: np.ndarray, seen: np.ndarray, lam: float) -> np.ndarray:
    """||phi|| of every row of phi [n, d] in the inverse of sum seen phi phi^T + lam I, [n]."""
    met = seen > 0.0
    return norms_in(covariance_root(np.sqrt(seen[met])[:, None] * rows[met], lam), rows)


def covariance_root(rows: np.ndarray, lam: float) -> np.ndarray:
    """R [d, d], upper triangular, with R^T R = sum phi phi^T + lam I over rows [n, d].

    From a QR decomposition of the rows, so that features which are nearly the same cost half the digits that they
    would cost in the covariance itself.
    """
    return np.asarray(np.linalg.qr(np.vstack([rows, np.sqrt(lam) * np.eye(rows.shape[1])]), mode="r"))


def norms_in(root: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """||phi|| of rows [n, d] in the inverse of the covariance with this root, [n]."""
    from scipy.linalg import solve_triangular

    half = solve_triangular(root, rows.T, trans="T", check_finite=False)
    return np.asarray(np.sqrt((half**2).sum(axis=0)))


def _one_hot(rows: np.ndarray) -> bool:
    return (
        rows.shape[0] == rows.shape[1] and bool((rows.diagonal() == 1.0).all()) and np.count_nonzero(rows) == len(rows)
    )


def pair_norms(transitions: np.ndarray, visits: np.ndarray, lam: float) -> np.ndarray:
    """||phi||_{Sigma^{-1}} of every pair, [steps, K, A]; phi flat for pairs never tried."""
    steps, K, A, d = transitions.shape
    phi = np.where(visits[..., None] > 0, transitions / np.maximum(visits, 1.0)[..., None], 1.0 / d)
    found = [norms(one.reshape(-1, d), seen.ravel(), lam) for one, seen in zip(phi, visits, strict=True)]
    return np.stack(found).reshape(steps, K, A)
