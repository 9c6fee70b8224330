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


def entropic(mdp: FiniteMDP, beta: float, low: np.ndarray, high: np.ndarray) -> tuple[MarkovPolicy, float]:
    """The policy with the best entropic value, and that value.

    low, high [H + 1, S]: the range of what can be earned from each step and state on.
    """
    starts = mdp.start > 0
    spread = float(high[0][starts].max() - low[0][starts].min())
    widest = float((high.max(axis=1) - low.min(axis=1)).max()) + float(np.ptp(mdp.reward))
    if MODERATE[0] <= beta * spread and beta * widest <= MODERATE[1]:
        return _by_moments(mdp, beta, low, high)
    from tailrank.planning.objectives import _kernels

    values, actions = np.zeros(mdp.n_states), np.zeros((mdp.horizon, mdp.n_states), dtype=np.int64)
    for h in reversed(range(mdp.horizon)):
        ptr, after, prob, _ = mdp.rows(h)
        now = np.empty_like(values)
        arguments = (mdp.n_actions, ptr, after, prob, mdp.scaled_rewards(h), beta, TIE, values, now, actions[h])
        over_states(_kernels.entropic_backup, arguments, 8 * mdp.rows_of_states(h))
        values = now
    return MarkovPolicy(actions), entropic_value(ReturnLaw.of(values[starts], mdp.start[starts]), beta)


def _by_moments(mdp: FiniteMDP, beta: float, low: np.ndarray, high: np.ndarray) -> tuple[MarkovPolicy, float]:
    """`entropic` on moments: one exponential a reward, then sums of products.

    Moments are counted from the middle of what state s can still earn: U exp(beta middle), so that none overflows.
    """
    from tailrank.planning.objectives import _kernels

    middle = 0.5 * (low + high)
    once = mdp.same_every_step
    moments, actions = np.ones(mdp.n_states), np.zeros((mdp.horizon, mdp.n_states), dtype=np.int64)
    usual = float(mdp.reward.min()) if once else 0.0
    fixed = mdp.prob * np.exp(-beta * (mdp.reward - usual)) if once else None
    for h in reversed(range(mdp.horizon)):
        ptr, after, prob, _ = mdp.rows(h)
        now = np.empty_like(moments)
        if fixed is not None:
            # weight exp(-beta (middle' - centre)) is absorbed by the moments of the next step
            shift = float(middle[h + 1].mean())
            scaled = moments * np.exp(-beta * (middle[h + 1] - shift))
            arguments = (mdp.n_actions, ptr, after, fixed, TIE, scaled, now, actions[h])
            over_states(_kernels.weighted_backup, arguments, mdp.rows_of_states(h))
            now *= np.exp(beta * (middle[h] - shift - usual))
        else:
            weight = prob * np.exp(-beta * (mdp.scaled_rewards(h) + middle[h + 1][after] - _owners(mdp, h, middle[h])))
            arguments = (mdp.n_actions, ptr, after, weight, TIE, moments, now, actions[h])
            over_states(_kernels.weighted_backup, arguments, mdp.rows_of_states(h))
        moments = now
    starts = mdp.start > 0
    values = middle[0][starts] - np.log(moments[starts]) / beta
    return MarkovPolicy(actions), entropic_value(ReturnLaw.of(values, mdp.start[starts]), beta)


def _owners(mdp: FiniteMDP, h: int, of_states: np.ndarray) -> np.ndarray:
    """What the state of each row of step h has in `of_states` [S], [n]."""
    return np.repeat(of_states, mdp.rows_of_states(h))
