"""Exploration bonuses, as tables [G, A] of every step h = 0..H-1, on the scale where one step pays at most 1.

Elliptical (Algorithm 1, lines 12-13):

    Sigma_h = sum over D_h of phi phi^T + lambda I
    b_h(s, a) = min(alpha ||phi_h(s, a)||_{Sigma_h^{-1}}, cap)     for h < H - 2 (0-based), zero afterwards

The last two steps carry no bonus: nothing after the last transition is learned, and the one-step-back
lemma pays for a step with the bonus of the step before it.

By visits (tabular rivals), N = visits or 1, L = log(S A H k / delta): the Hoeffding bonus c R sqrt(L / N), where R is
the most that can be earned after the step; and L / N, from which planners with a Bernstein bonus make theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tailrank.lowrank import LowRankModel
from tailrank.problem import Problem
from tailrank.schedules import Schedule

BonusRule = Callable[[Problem, Schedule], list[np.ndarray]]


def elliptical(problem: Problem, schedule: Schedule) -> list[np.ndarray]:
    """The bonus of Algorithm 1."""
    H, A, d = problem.horizon, problem.n_actions, problem.dimension
    k, log_class = problem.rounds, problem.log_class
    return elliptical_bonus(
        problem.model, problem.visits, A, schedule.alpha(k, H, A, d, log_class), schedule.lam(k, H, d, log_class),
        schedule.cap_for(H),
    )  # fmt: skip


def none(problem: Problem, schedule: Schedule) -> list[np.ndarray]:
    """No bonus."""
    return problem.no_bonus


def hoeffding(problem: Problem, schedule: Schedule) -> list[np.ndarray]:
    """c R sqrt(L / N), and R where N = 0; R in largest rewards."""
    left = problem.left / problem.rewards.top
    widths = per_visit(problem, schedule)
    paid = [schedule.alpha_scale * left[h + 1] * np.sqrt(width) for h, width in enumerate(widths)]
    for h, visits in enumerate(problem.visits):
        paid[h][visits == 0] = left[h + 1]
    return paid


def per_visit(problem: Problem, schedule: Schedule) -> list[np.ndarray]:
    """L / N, for N = 0 at least 1 / c; zero at the last step, whose transition does not matter."""
    G, H = problem.model.groups(0), problem.horizon
    confidence = schedule.confidence(problem.rounds, H, math.log(G * problem.n_actions))
    never = max(confidence, 1.0 / schedule.alpha_scale)
    widths = [np.where(n > 0.0, confidence / np.maximum(n, 1.0), never) for n in problem.visits]
    return [*widths, np.zeros(problem.law_of[-1].shape)]


def elliptical_bonus(
    model: LowRankModel, visits: tuple[np.ndarray, ...], n_actions: int, alpha: float, lam: float, cap: float
) -> list[np.ndarray]:
    """min(alpha ||phi||, cap)."""
    norms = elliptical_norms(model, visits, lam)
    paid = [np.minimum(alpha * norm, cap) for norm in norms[: max(model.horizon - 2, 0)]]
    return paid + [np.zeros((model.groups(h), n_actions)) for h in range(len(paid), model.horizon)]


def elliptical_norms(model: LowRankModel, visits: tuple[np.ndarray, ...], lam: float) -> list[np.ndarray]:
    """||phi_h||_{Sigma_h^{-1}} of every pair, [H - 1] of [G, A]."""
    result = []
    for step, seen in zip(model.steps, visits, strict=True):
        rows = step.phi.reshape(-1, step.phi.shape[-1])
        if _one_hot(rows):  # every pair its own feature: the covariance is diagonal
            result.append(1.0 / np.sqrt(seen + lam))
            continue
        sigma = (rows * seen.reshape(-1, 1)).T @ rows + lam * np.eye(rows.shape[1])
        half = np.linalg.solve(np.linalg.cholesky(sigma), rows.T)
        result.append(np.sqrt((half**2).sum(axis=0)).reshape(step.phi.shape[:2]))
    return result


def _one_hot(rows: np.ndarray) -> bool:
    return (
        rows.shape[0] == rows.shape[1] and bool((rows.diagonal() == 1.0).all()) and np.count_nonzero(rows) == len(rows)
    )
