"""The latent planner on what was observed: E_{psi_j} is taken over observed next states, weighted.

    M_h[j, c] = sum_i w_ji Q_{h+1}(j, a(x'_i, c), c),     w_ji = q_j(x'_i) / sum_i q_j(x'_i)
    Q_h(z, a, c) = -b_h(z, a) + sum over outcomes (j, r) of P_h(j, r | z, a) M_h[j, max(c - r, 0)]
    a(x, c) = argmin_a sum_z q_z(x) Q_h(z, a, c),     Q_H = c

Observations whose latent is sure are all alike: they stand in the sum as one point, so that the cost depends on
the data only through the observations that are not (a subsample of them, whose error is reported). An ended
episode earns nothing more: its value is max(c - what nothing costs in units, 0). Budgets above the most that can
still be earned need no table: values are linear there. Other objectives have another Q_H (`models/goal.py`).

**Ties.** Once the budget is met all actions have the same shortfall. A slope of `TIE` below zero (V_H(c) = TIE c there)
gives those with the larger mean the smaller value: it is the objective shortfall - TIE mean, so that shortfalls which
differ by less than TIE units for each unit of the mean count as tied. In a model that was learned a pair may tie only
because what can go wrong there has not been seen yet, and such a pair looks best in the mean, too. So what a pair pays
beyond the budget counts from `enough` tries on; before, ties go to the first action.

Pairs that were never tried lead anywhere: to every latent of the next step alike, with the step's usual reward.
Pairs that were tried n times are mixed with all the outcomes of their latent, with weight prior / (n + prior).

Whoever takes the best of many estimates takes one that is too good. A plan for use, not for exploration, can be made
with `caution` L: the shortfall of a pair grows by the margin sqrt(2 V L / n), with V the variance of what follows it
at that budget, and it is mixed with the worst that can follow, with weight L / (n + L) (the two terms of Bernstein's
inequality; Maurer and Pontil 2009). What was never tried is as bad as anything can be.
"""

from __future__ import annotations

import numpy as np

from tailrank._system.telling import tell
from tailrank.episodes.replay import Replay
from tailrank.planning.observed.problem import CountedProblem, Support
from tailrank.policies.decoders.base import Decoder, posterior
from tailrank.policies.observed import ObservedPlan
from tailrank.risk.law import best_budget

SURE = 1e-3
"""An observation whose latent has probability above 1 - SURE counts as sure."""
LARGEST_SUPPORT = 200
TIE = 1e-10
"""What a unit of the mean is worth in units of shortfall where ties are broken by the mean."""


def supports(decoder: Decoder, replay: Replay, rng: np.random.Generator) -> list[Support | None]:
    """For each step the observations that are not sure, None where all are."""
    result: list[Support | None] = []
    if hasattr(decoder, "nearest"):  # one observation, one latent
        return [None] * replay.horizon
    for h in range(replay.horizon):
        alive = replay.alive(h)
        if alive.size > 5 * LARGEST_SUPPORT:
            alive = np.sort(rng.choice(alive, size=5 * LARGEST_SUPPORT, replace=False))
        mix = posterior(decoder, h, replay.features[alive, h]) if alive.size else np.zeros((0, decoder.n_latents))
        unsure = mix.max(axis=1, initial=0.0) < 1 - SURE
        if not unsure.any():
            result.append(None)
            continue
        sure = np.bincount(mix[~unsure].argmax(axis=1), minlength=decoder.n_latents).astype(np.float64)
        points, scale = mix[unsure], 1.0
        if len(points) > LARGEST_SUPPORT:
            scale = len(points) / LARGEST_SUPPORT
            points = points[rng.choice(len(points), size=LARGEST_SUPPORT, replace=False)]
        total = scale * points.sum(axis=0) + sure
        # A latent that none of these observations shows stands for itself.
        shown, total = total > 1e-12, np.maximum(total, 1e-12)
        weights = np.where(shown[:, None], scale * points.T / total[:, None], 0.0)
        # As a checkpoint gives it back: the layout of arrays can decide how sums are rounded.
        result.append(Support(points, np.ascontiguousarray(weights), np.where(shown, sure / total, 1.0)))
    return result


def plan_observed(problem: CountedProblem) -> ObservedPlan:
    """The exact plan of the counted model."""
    from tailrank.planning.observed import _kernels

    counts, bonus, zero, support, tau = problem.counts, problem.bonus, problem.zero, problem.support, problem.tau
    H, K, A = problem.horizon, counts.n_latents, counts.n_actions
    ptr, after, units, count = counts.outcomes()
    table_of = np.zeros(H, dtype=np.int64) if counts.steps == 1 else np.arange(H)
    ends = ptr[:: K * A]
    most = problem.most
    values: list[np.ndarray] = []
    nowhere = np.zeros(K, dtype=bool)
    error = 0.0
    aim = None if problem.goal is None else problem.goal(int(most[0]))
    met = TIE if problem.undominated and aim is None and not bonus.any() else 0.0
    tables = np.zeros((K + 1, 1)) if aim is None else np.tile(aim.terminal, (K + 1, 1))
    for h in reversed(range(H)):
        tell(H - h, H, "steps planned")
        t, C = table_of[h], int(most[h]) + 1 if aim is None else aim.terminal.size
        left = np.arange(C) - (H - h) * zero
        ended = np.where(left > 0, left, met * left) if aim is None else aim.terminal[np.maximum(left, 0)]
        least = int(units[ends[t] : ends[t + 1]].min(initial=zero))
        q, result = np.empty((K, A, C)), np.empty((K + 1, C))
        _kernels.backup(
            ptr[t * K * A : (t + 1) * K * A + 1],
            after,
            units,
            count,
            bonus[t],
            problem.prior,
            problem.caution,
            problem.enough,
            least,
            problem.present[h + 1] if h < H - 1 else nowhere,
            int(problem.usual[h]),
            ended,
            met,
            tables,
            q,
            result,
        )
        values.append(q)
        tables = result
        here = support[h] if support is not None and h > 0 else None
        if here is not None:
            points = _played(q, here.mix)
            tables[:K] = here.sure[:, None] * tables[:K] + np.einsum("zi,zic->zc", here.weights, points)
            error = max(error, _error(here.weights, points))
    first = _best(values[-1], problem.start).mean(axis=0)
    if aim is None:
        best = best_budget(np.arange(first.size), first, tau)
        objective = float(best - first[best] / tau)
    else:
        best, objective = aim.best(first)
    return ObservedPlan(tuple(reversed(values)), best, objective, first, error)


def _best(values: np.ndarray, mix: np.ndarray) -> np.ndarray:
    """min over actions of the mixture's values, [n, C]."""
    best = np.full((len(mix), values.shape[2]), np.inf)
    sure = mix.max(axis=1) == 1.0
    best[sure] = values[mix[sure].argmax(axis=1)].min(axis=1)
    for a in range(values.shape[1] if not sure.all() else 0):
        np.minimum(best, mix @ values[:, a], out=best)
    return best


def _played(values: np.ndarray, mix: np.ndarray) -> np.ndarray:
    """The value in each latent of the action that is played at each observation, [K, n, C]."""
    scores = np.stack([mix @ values[:, a] for a in range(values.shape[1])])  # [A, n, C]
    chosen = scores.argmin(axis=0)
    return values[:, chosen, np.arange(values.shape[2])]


def _error(weights: np.ndarray, points: np.ndarray) -> float:
    """The largest standard error of a weighted mean over the support, [K, C]."""
    total = np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)
    share = weights / total
    mean = np.einsum("zi,zic->zc", share, points)
    spread = np.einsum("zi,zic->zc", share, points**2) - mean**2
    return float(np.sqrt(np.maximum(spread, 0.0) * (share**2).sum(axis=1, keepdims=True)).max(initial=0.0))
