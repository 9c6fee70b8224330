"""Rep-LCB for CVaR: what a plan earns at least *if the model class holds the truth*.

Uehara, Zhang and Sun (arXiv 2110.04652) penalise a fitted low-rank model by alpha ||phi(x, a)||_{Sigma^-1}, with the
alpha of the theory: then the value with the penalty is no more than the true one, with probability 1 - delta. Here it
is that of `learning/schedule.py` (H sqrt((A + d^2) log(|F| H n / delta)), constants set to one), where a class of
networks with p weights counts as n^p members: as many as differ at the scale 1 / n. A kernel model is a low-rank model
whose phi interpolates among M representatives, so d = M, and Sigma is diagonal: a pair that was visited N times has the
norm 1 / sqrt(1 + N).

The plan is the one that is best with this penalty. The penalty is large: the bound says nothing for fewer than about
(alpha / tau)^2 d episodes, 10^8 for 200 weights, d = 5, A = 2, H = 4 and tau = 0.25. It is printed all the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrank.episodes.replay import Replay
from tailrank.learning.lowrank.oracle import LowRankFit
from tailrank.learning.lowrank.planning import ObservedSupport, exploration_of, policy_for
from tailrank.learning.schedule import THEORY, Schedule
from tailrank.learning.simulators.model import KernelModel
from tailrank.planning.kernel.induction import KernelPlan, plan_kernel
from tailrank.policies.lowrank import CautiousPolicy, Penalty


def theory(delta: float) -> Schedule:
    """The schedule of the theory for a bound that fails with probability delta."""
    return replace(THEORY, delta=delta)


def lowrank_bound(
    fit: LowRankFit, support: ObservedSupport, replay: Replay, tau: float, schedule: Schedule
) -> CautiousPolicy:
    """The plan with the penalty of the theory; its `plan.objective` is the bound."""
    net, n, H = fit.network, replay.n, replay.horizon
    weights = sum(part.size for part in (net.project, net.hidden, net.bias, net.heads, net.reward_heads, net.tilt))
    span = fit.rewards.high - fit.rewards.low
    alpha = schedule.alpha(n, H, net.n_actions, net.sizes[0], weights * float(np.log(max(n, 2)))) * span
    # What the classifier of an action has not seen is part of ELA's bonus here, not of the theory.
    bonus = replace(exploration_of(fit, replay, schedule, n), alpha=alpha, watchful=0.0)
    made = policy_for(fit, support, H, tau, Penalty.of(bonus))
    return CautiousPolicy(made.model, made.plan, made.exploration)


def kernel_bound(
    model: KernelModel, horizon: int, tau: float, episodes: int, schedule: Schedule
) -> tuple[KernelPlan, np.ndarray]:
    """The plan with the penalty of the theory, whose `promise` is the bound, and the penalty [M, A] in budget units."""
    M, A = model.visits.shape
    # The class: where the representatives lie, and a law over M next ones for every pair.
    members = float(model.representatives.size + M * A * M) * float(np.log(max(episodes, 2)))
    alpha = schedule.alpha(episodes, horizon, A, M, members)
    span = float(np.ptp(model.rows.shift)) if model.rows.shift.size else 0.0
    penalty = span * np.minimum(alpha / np.sqrt(1.0 + model.visits), schedule.cap_for(horizon))
    allowed = np.ones_like(penalty, dtype=bool)
    return plan_kernel(model.rows, model.scale, horizon, model.start, tau, -penalty, allowed), penalty
