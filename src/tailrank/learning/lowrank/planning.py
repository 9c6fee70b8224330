"""From a fitted low-rank model to a policy: the support, the bonus and the plan on them.

psi_k on the support: with n next observations x_i drawn from the mixture of all psi, w_ki is proportional to
psi_k(x_i) / sum_k' p_k' psi_k'(x_i), where p is how often each kind occurs. At most `MOST_STATES` of them are taken,
those that matter for a rare kind with higher probability and less weight.

**A plan that gives up.** Where a learned model puts tau or more on the least return whatever is played, all plans have
the same CVaR in it. What a classifier leaves to every outcome adds up over the steps, so this happens long before the
model is wrong about what is best. The tail that is planned for is then doubled until plans differ: the tables hold the
plan of every tau, and only the first budget changes. At tau = 1 that is the mean, which breaks all other ties.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tailrank.episodes.replay import Replay
from tailrank.learning.lowrank.gains import played_kinds
from tailrank.learning.lowrank.oracle import LowRankFit
from tailrank.learning.lowrank.transitions import SeenTransitions
from tailrank.learning.schedule import Schedule
from tailrank.planning.observed.support import SupportStep, plan_support
from tailrank.policies.lowrank import Exploration, LowRankPolicy, SupportPlan, outcomes_of
from tailrank.risk.law import best_budget
from tailrank.risk.measures.base import Measure

MOST_STATES = 1000
WATCHFUL = 0.1
"""Weight of the second part of the bonus, on the scale where a step pays at most 1."""


@dataclass(frozen=True)
class ObservedSupport:
    """States [1 or H - 1] of [N, m] that may follow a step, weights [K, N] of each psi_k; first states [n, m]."""

    states: tuple[np.ndarray, ...]
    weights: tuple[np.ndarray, ...]
    first: np.ndarray


def support_of(fit: LowRankFit, replay: Replay, rng: np.random.Generator) -> ObservedSupport:
    """The support of a fitted model in the episodes."""
    t = SeenTransitions.of(replay)
    rows = np.flatnonzero(t.followed)
    kinds = played_kinds(fit.network, t)
    states, weights = [], []
    for part in [rows] if fit.setting.shared_psi else [rows[t.h[rows] == h] for h in range(replay.horizon - 1)]:
        kept, weight = psi_weights(
            fit.log_psi(t.h[part], t.after[part]), kinds[part][:, : fit.setting.rank].mean(axis=0), rng
        )
        states.append(t.after[part[kept]])
        weights.append(weight)
    first = replay.features[-300:, 0].astype(np.float64)
    return ObservedSupport(tuple(states), tuple(weights), first)


def psi_weights(log_psi: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The places [N] of next states that are kept, and w [K, N] there, of log psi_k [n, K] and p = base [K]."""
    blind = np.exp(log_psi - log_psi.max(axis=1, keepdims=True))
    share = blind / np.maximum(blind @ base, 1e-300)[:, None]
    weight = share / np.maximum(share.sum(axis=0), 1e-300)
    kept = np.arange(len(weight))
    if kept.size > MOST_STATES:
        chance = weight.mean(axis=1)
        kept = rng.choice(kept.size, size=MOST_STATES, p=chance / chance.sum())
        weight = weight[kept] / chance[kept, None]
        weight /= np.maximum(weight.sum(axis=0), 1e-300)
    return kept, np.ascontiguousarray(weight.T)


def exploration_of(fit: LowRankFit, replay: Replay, schedule: Schedule, k: int) -> Exploration:
    """The bonus after k iterations, in the units of rewards."""
    t, net, H = SeenTransitions.of(replay), fit.network, replay.horizon
    steps, A, K = len(net.heads), net.n_actions, net.sizes[0]
    kinds, places = played_kinds(net, t), net.places(t.x)
    z = np.hstack([np.ones((len(places), 1)), places])
    step = np.zeros_like(t.h) if steps == 1 else t.h
    lam = schedule.lam(max(k, 1), H, K, 0.0)
    sigma, tried = np.empty((steps, K, K)), np.empty((steps, A, z.shape[1], z.shape[1]))
    for s in range(steps):
        rows = step == s
        in_d = kinds[rows & t.in_d]
        sigma[s] = np.linalg.inv(in_d.T @ in_d + max(lam, 1e-6) * np.eye(K))
        for a in range(A):
            these = z[rows & (t.action == a)]
            tried[s, a] = np.linalg.inv(these.T @ these + np.eye(z.shape[1]))
    span = fit.rewards.high - fit.rewards.low
    alpha = schedule.alpha(max(k, 1), H, A, K, 0.0)
    return Exploration(sigma, tried, alpha * span, WATCHFUL * span, schedule.cap_for(H) * span)


@dataclass(frozen=True)
class SupportedModel:
    """What a planner is given: the states that follow a step, phi of the first states [n, A, J] and their bonus."""

    steps: Callable[[int], SupportStep]
    start: np.ndarray
    start_bonus: np.ndarray | None


def supported(fit: LowRankFit, support: ObservedSupport, exploration: Exploration | None = None) -> SupportedModel:
    """The fitted model on its support, with the bonus of `exploration`."""
    net, laws = fit.network, fit.laws
    shared = len(net.heads) == 1 and len(support.states) == 1 and laws is None  # laws may change with the step
    kept: dict[int, SupportStep] = {}

    def step(h: int) -> SupportStep:
        place = 0 if len(support.states) == 1 else h
        if not shared or 0 not in kept:
            phi, bonus = outcomes_of(net, h + 1, support.states[place], exploration, laws)
            kept[0] = SupportStep(phi, support.weights[place], bonus)
        return kept[0]

    return SupportedModel(step, *outcomes_of(net, 0, support.first, exploration, laws))


def policy_for(
    fit: LowRankFit,
    support: ObservedSupport,
    horizon: int,
    tau: float,
    exploration: Exploration | None = None,
    measure: Measure | None = None,
    undominated: bool = True,
) -> LowRankPolicy:
    """The policy that is best in the model, with the bonus of `exploration`; measure: for another objective."""
    model = supported(fit, support, exploration)
    plan = plan_support(
        model.steps,
        model.start,
        fit.rewards,
        horizon,
        tau,
        start_bonus=model.start_bonus,
        measure=measure,
        undominated=undominated,
    )
    if undominated and measure is None and exploration is None:
        plan = not_given_up(plan, tau)
    return LowRankPolicy(fit.network, plan, exploration, fit.laws)


def not_given_up(plan: SupportPlan, tau: float) -> SupportPlan:
    """The plan for tau, or where it promises the least return alone for the first of 2 tau, 4 tau, .. that does not.

    What it promises at tau stays the same.
    """
    budgets = plan.spacing * (plan.first[0] + np.arange(plan.curve.size))
    best, level = best_budget(budgets, plan.curve, tau), tau
    while best == 0 and level < 1.0:
        level = min(2.0 * level, 1.0)
        best = best_budget(budgets, plan.curve, level)
    return plan if level == tau else replace(plan, budget=float(budgets[best]))
