"""Policies that need no budgets: exponential moments and the worst case, for rewards of any kind.

    U_h(s) = min_a E exp(-beta r) U_{h+1}(s'),   U_H = 1,   ERM*_beta = -log(E U_0) / beta

Rewards are discounted to the start, so beta is the same at every step. Where beta times the spread of the returns is
so large or so small that U would leave the range of floats, or lose its digits, the same is done on
V = -log(U) / beta, a pair at a time.
"""

from __future__ import annotations

import numpy as np

from tailrank._system.parallel import over_states
from tailrank.models.mdp import FiniteMDP
from tailrank.policies.tables import MarkovPolicy
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.entropic import entropic_value

TIE = 1e-13
"""Values that differ by less, relative to their size, are tied; the lowest action wins."""
MODERATE = (0.05, 200.0)
"""beta times the spread of the returns, where moments are computed as they are."""


def worst_case(mdp: FiniteMDP) -> tuple[MarkovPolicy, float]:
    """The policy whose least return is largest, and that return."""
    from tailrank.planning.objectives import _kernels

    values, actions = np.zeros(mdp.n_states), np.zeros((mdp.horizon, mdp.n_states), dtype=np.int64)
    for h in reversed(range(mdp.horizon)):
        ptr, after, prob, _ = mdp.rows(h)
        now = np.empty_like(values)
        arguments = (mdp.n_actions, ptr, after, prob, mdp.scaled_rewards(h), values, now, actions[h])
        over_states(_kernels.worst_backup, arguments, mdp.rows_of_states(h))
        values = now
    return MarkovPolicy(actions), float(values[mdp.start > 0].min())


def entropic(mdp: FiniteMDP, beta: float) -> tuple[MarkovPolicy, float]:
    """The policy with the best entropic value, and that value."""
    starts, (low, high) = mdp.start > 0, reward_sums(mdp)
    if MODERATE[0] <= beta * (high[0] - low[0]) <= MODERATE[1]:
        return _by_moments(mdp, beta, 0.5 * (low + high))
    from tailrank.planning.objectives import _kernels

    values, actions = np.zeros(mdp.n_states), np.zeros((mdp.horizon, mdp.n_states), dtype=np.int64)
    for h in reversed(range(mdp.horizon)):
        ptr, after, prob, _ = mdp.rows(h)
        now = np.empty_like(values)
        arguments = (mdp.n_actions, ptr, after, prob, mdp.scaled_rewards(h), beta, TIE, values, now, actions[h])
        over_states(_kernels.entropic_backup, arguments, 8 * mdp.rows_of_states(h))
        values = now
    return MarkovPolicy(actions), entropic_value(ReturnLaw.of(values[starts], mdp.start[starts]), beta)


def reward_sums(mdp: FiniteMDP) -> tuple[np.ndarray, np.ndarray]:
    """The sums of the least and of the largest reward of every step from each on, [H + 1]: no return lies beyond."""
    low, high = np.zeros(mdp.horizon + 1), np.zeros(mdp.horizon + 1)
    ends = {b: (float(r.min()), float(r.max())) for b in range(mdp.n_blocks) for r in [mdp.rows(b)[3]]}
    for h in reversed(range(mdp.horizon)):
        least, most = ends[h if mdp.n_blocks > 1 else 0]
        low[h], high[h] = low[h + 1] + least * mdp.discount**h, high[h + 1] + most * mdp.discount**h
    return low, high


def _by_moments(mdp: FiniteMDP, beta: float, middle: np.ndarray) -> tuple[MarkovPolicy, float]:
    """`entropic` on moments: one exponential a reward, then sums of products.

    Moments are counted from `middle` [H + 1], the middle of what can still be earned: U exp(beta middle).
    """
    from tailrank.planning.objectives import _kernels

    moments, actions = np.ones(mdp.n_states), np.zeros((mdp.horizon, mdp.n_states), dtype=np.int64)
    weight: np.ndarray | None = None
    for h in reversed(range(mdp.horizon)):
        ptr, after, prob, _ = mdp.rows(h)
        now = np.empty_like(moments)
        if weight is None or not mdp.same_every_step:
            weight = prob * np.exp(-beta * (mdp.scaled_rewards(h) - (middle[h] - middle[h + 1])))
        arguments = (mdp.n_actions, ptr, after, weight, TIE, moments, now, actions[h])
        over_states(_kernels.weighted_backup, arguments, mdp.rows_of_states(h))
        moments = now
    starts = mdp.start > 0
    values = middle[0] - np.log(moments[starts]) / beta
    return MarkovPolicy(actions), entropic_value(ReturnLaw.of(values, mdp.start[starts]), beta)
