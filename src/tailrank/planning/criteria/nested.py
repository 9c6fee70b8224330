"""The iterated (nested) CVaR plan, for comparison: the risk measure is applied anew at every step.

    J_h(s) = max_a CVaR_tau[ r + discount J_{h+1}(s') ],   J_H = 0

over the joint law of reward and next state. The policy is Markov. J_0 is neither the CVaR of the return nor
a bound on it; over many steps it is far below, because a worst tau-fraction in each of H steps has the
probability tau^H, and the plan is overcautious.
"""

from __future__ import annotations

import numpy as np

from tailrank import checks
from tailrank._system.jit import compiled
from tailrank.models.mdp import FiniteMDP
from tailrank.policies.tables import MarkovPolicy
from tailrank.risk.law import cvar

TIE = 1e-12
"""Actions whose values differ by less than this (relative to the best) tie; the lowest wins."""


def iterated_cvar(mdp: FiniteMDP, tau: float) -> tuple[MarkovPolicy, np.ndarray]:
    """The policy with the best nested CVaR, and its values J [H + 1, S] in reward units.

    J_h counts rewards from step h on, discounted to step h.
    """
    tau = checks.tail_level(tau)
    S, A, H = mdp.n_states, mdp.n_actions, mdp.horizon
    values = np.zeros((H + 1, S))
    actions = np.zeros((H, S), dtype=np.int64)
    for h in reversed(range(H)):
        ptr, next_state, prob, reward = mdp.rows(h)
        q = np.full((S, A), -np.inf)
        pair_cvars(tau, ptr, prob, reward + mdp.discount * values[h + 1][next_state], q.reshape(-1))
        actions[h], values[h] = best_actions(q)
    return MarkovPolicy(actions), values


def best_actions(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lowest action of those that tie for the largest Q [S, A], [S], and that Q, [S]."""
    best = q.max(axis=1)
    return np.argmax(q >= (best - TIE * np.abs(best))[:, None], axis=1), best


def nested_value(mdp: FiniteMDP, tau: float, values: np.ndarray) -> float:
    """The nested CVaR at the start: CVaR_tau of J_0 under the start law, for `values` J [H + 1, S]."""
    states = np.flatnonzero(mdp.start)
    return cvar(values[0][states], tau, mdp.start[states])


@compiled
def pair_cvars(tau, ptr, prob, value, q):  # type: ignore[no-untyped-def]
    """q[k] = CVaR_tau of the outcomes ptr[k]:ptr[k + 1] of pair k; a pair without outcomes is left alone."""
    for k in range(ptr.size - 1):
        begin, end = ptr[k], ptr[k + 1]
        if begin == end:
            continue
        if end == begin + 1:
            q[k] = value[begin]
            continue
        order = np.argsort(value[begin:end])
        left, total = tau, 0.0
        for i in order:
            weight = min(prob[begin + i], left)
            total += weight * value[begin + i]
            left -= weight
            if left <= 0.0:
                break
        q[k] = total / (tau - left)
