"""How well a low-rank model explains transitions, in units in which models of any kind can be compared."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from tailrank.episodes.replay import Replay
from tailrank.learning.lowrank import network
from tailrank.learning.lowrank.data import OutcomeData
from tailrank.learning.lowrank.oracle import LowRankFit
from tailrank.learning.lowrank.transitions import SeenTransitions
from tailrank.policies.outcomes import OutcomeNetwork


def gains(fit: LowRankFit, replay: Replay, n_actions: int, by_step: bool) -> tuple[SeenTransitions, np.ndarray]:
    """Transitions, and for each log P(x', r | x, a) / P(x') [n], with both normalised on the observed next states.

    P(x') is that of the step, or of all steps. In this form models of any kind can be compared (`decoding/choose.py`).
    """
    t = SeenTransitions.of(replay)
    data = OutcomeData.of(replay, n_actions, fit, fit.known)
    net = network.network_of(fit.weights, data.centre, data.project, n_actions)
    kinds = np.log(played_kinds(net, t) + 1e-300)
    log_psi = data.log_psi(fit.psi)
    group = data.h if by_step else np.zeros_like(data.h)
    for g in np.unique(group):
        rows = np.flatnonzero((group == g) & ~t.cut)
        train = ~data.held[rows]
        if rows.size == 0 or not train.any():
            continue
        base = np.log(np.exp(kinds[rows][train]).mean(axis=0) + 1e-12)
        ratio = log_psi[rows] - _log_sum(log_psi[rows] + base)[:, None]
        log_psi[rows] = ratio - np.log(np.exp(ratio[train]).mean(axis=0) + 1e-12)
    outcomes = replace(data.outcomes(fit.setting, fit.psi), log_psi=log_psi.astype(np.float32))
    return t, network.log_likelihoods(fit.weights, outcomes)[0]


def played_kinds(net: OutcomeNetwork, t: SeenTransitions) -> np.ndarray:
    """P(k | x, a) of the actions that were played, [n, K]."""
    f = net.inner(net.places(t.x))
    result = np.empty((t.h.size, net.sizes[0]))
    step = np.zeros_like(t.h) if len(net.heads) == 1 else t.h
    order = np.argsort(step * net.n_actions + t.action, kind="stable")
    ends = np.searchsorted((step * net.n_actions + t.action)[order], np.arange(len(net.heads) * net.n_actions + 1))
    for i, (begin, end) in enumerate(pairwise(ends)):
        rows = order[begin:end]
        logits = f[rows] @ net.heads[i // net.n_actions, i % net.n_actions]
        odds = np.exp(logits - logits.max(axis=1, keepdims=True)) if rows.size else logits
        result[rows] = odds / odds.sum(axis=1, keepdims=True)
    return result


def _log_sum(joint: np.ndarray) -> np.ndarray:
    top = joint.max(axis=1)
    return np.asarray(top + np.log(np.exp(joint - top[:, None]).sum(axis=1)))
