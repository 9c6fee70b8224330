"""Low-rank and kernel models of a log of observations, planned with the sign of ELA's bonus turned.

Rep-LCB for CVaR: the model that makes the log most likely (`lowrank/oracle.py`), and in place of the bonus of ELA a
penalty, alpha ||phi(x, a)||_{Sigma^-1} and what the classifier of an action has not seen. The kernel model
(`simulators/model.py`) has the penalty of its own bonus. A block decoder, a low-rank and a kernel model are compared by

    log P(x', r | x, a) / P(x')

on episodes that none of them was fitted to, normalised on the observed next states. The block decoder is the simplest,
and the only one for which there is a bound: it stays in charge unless another wins by more than three standard errors.

The value with the penalty of this size is what the plan is chosen by. It is no bound: for that the theory asks for an
alpha thousands of times larger (`classes`). Importance weights bound such a plan without any model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.envs.logs.log import EpisodeLog
from tailrank.episodes.replay import Replay
from tailrank.learning.decoding.choose import judged
from tailrank.learning.lowrank.gains import gains
from tailrank.learning.lowrank.oracle import LowRankFit, LowRankOracle
from tailrank.learning.lowrank.planning import ObservedSupport, exploration_of, policy_for, support_of
from tailrank.learning.lowrank.transitions import HELD, SeenTransitions
from tailrank.learning.offline.classes import kernel_bound, lowrank_bound
from tailrank.learning.schedule import Schedule
from tailrank.learning.simulators.candidates import FitData
from tailrank.learning.simulators.kernel import KernelCandidate
from tailrank.learning.simulators.model import KernelModel
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.planning.kernel.induction import plan_kernel
from tailrank.planning.observed.support import nearest_kind, reward_kinds
from tailrank.policies.decoders.base import Decoder
from tailrank.policies.kernel import KernelPolicy, interpolation
from tailrank.policies.lowrank import CautiousPolicy, LowRankPolicy, Penalty
from tailrank.policies.moved import Moved
from tailrank.risk.law import ReturnLaw

MODELS = ("auto", "block", "lowrank", "kernel")
CLEAR = 3.0
"""Standard errors by which another model must beat the block decoder."""
SIMULATED = 4000
"""Episodes in the model that say what a plan promises."""
LEAST = 1e-3
"""Smallest weight in a likelihood: outcomes never seen are not impossible."""


@dataclass(frozen=True)
class ModelPlan:
    """A plan of a low-rank or kernel model, its value with the penalty, and what it promises.

    promise: the law of its return in the low-rank model; of a kernel model the value with the penalty, which is less.
    classed: what the plan with the penalty of the theory earns at least if the class holds the truth.
    """

    policy: LowRankPolicy | KernelPolicy
    promise: ReturnLaw | float
    penalised: float
    model: str
    classed: float


@dataclass(frozen=True)
class HeldOut:
    """Mean log P(x', r | x, a) / P(x') of held-out transitions, by model."""

    scores: dict[str, float]
    winner: str


def replay_of(log: EpisodeLog) -> tuple[Replay, int]:
    """The episodes that were not cut off, as learners of simulators see them, and how many laws of rewards there are.

    Units are the laws of the rewards, so that all models predict the same.
    """
    kept = np.flatnonzero(log.whole)
    some = log.subset(kept)
    if some.observation is None:
        raise ValueError("replay_of: the log has no observations")
    n, H, m = some.episodes, some.horizon, some.observation.shape[1]
    episode = np.repeat(np.arange(n), some.lengths)
    features, actions = np.zeros((n, H, m), dtype=np.float32), np.zeros((n, H), dtype=np.int64)
    units, rewards = np.zeros((n, H), dtype=np.int64), np.zeros((n, H))
    kinds, law = reward_kinds(some.reward, H)
    features[episode, some.step], actions[episode, some.step] = some.observation, some.action
    units[episode, some.step], rewards[episode, some.step] = law, some.reward
    replay = Replay(H, m)
    replay.add(features, actions, units, some.lengths, rewards)
    return replay, len(kinds.values)


def compare(
    replay: Replay, laws: int, n_actions: int, decoder: Decoder, fit: LowRankFit, kernel: KernelModel
) -> HeldOut:
    """Which model explains the held-out episodes; kernel: fitted without them."""
    held = np.flatnonzero(np.arange(replay.n) % HELD == 0)
    block = judged(decoder, replay, n_actions, laws, True, held)
    t, lowrank = gains(fit, replay, n_actions, by_step=False)
    keep = t.held & ~t.cut if replay.horizon > 1 else t.held
    found = {"block": block, "lowrank": lowrank[keep], "kernel": kernel_gains(kernel, t, keep, replay)}
    winner = "block"
    for name in ("lowrank", "kernel"):
        gain = found[name] - found[winner]
        if gain.mean() > CLEAR * gain.std() / np.sqrt(gain.size):
            winner = name
    return HeldOut({name: float(score.mean()) for name, score in found.items()}, winner)


def fit_lowrank(replay: Replay, n_actions: int, rng: np.random.Generator) -> LowRankFit:
    """The low-rank model of maximum likelihood."""
    return LowRankOracle().fit(replay, n_actions, rng=rng)


def plan_lowrank(
    fit: LowRankFit, replay: Replay, tau: float, rng: np.random.Generator, schedule: Schedule, least: float
) -> ModelPlan:
    """The plan of a low-rank model with its penalty, or with that of the theory where its bound is above `least`."""
    support = support_of(fit, replay, rng)
    bonus = exploration_of(fit, replay, Schedule(), replay.n)
    made = policy_for(fit, support, replay.horizon, tau, Penalty.of(bonus))
    policy = CautiousPolicy(made.model, made.plan, made.exploration)
    sure = lowrank_bound(fit, support, replay, tau, schedule)
    if sure.plan.objective > least:
        policy = sure
    about = f"low rank {fit.setting.rank}"
    law = simulated(policy, fit, support, rng)
    return ModelPlan(policy, law, policy.plan.objective, about, sure.plan.objective)


def simulated(policy: LowRankPolicy, fit: LowRankFit, support: ObservedSupport, rng: np.random.Generator) -> ReturnLaw:
    """Returns of the policy in the fitted model, from SIMULATED episodes."""
    n, net = SIMULATED, fit.network
    x = support.first[rng.integers(0, len(support.first), n)]
    going, earned, memory = np.ones(n, dtype=bool), np.zeros(n), policy.start(n)
    for h in range(policy.horizon):
        kinds, rewards = net.split(h, x)
        rows, actions = np.arange(n), policy.act(h, x, memory)
        k = _drawn(kinds[rows, actions], rng)
        law = _drawn(rewards[rows, actions, k], rng)
        paid = np.array([rng.choice(fit.rewards.values[i]) for i in law]) * going
        earned += paid
        going &= k < fit.setting.rank
        memory = policy.update(h, Moved(x, actions, paid, x), memory)
        place = 0 if len(support.states) == 1 else min(h, len(support.states) - 1)
        if support.states:
            weights = support.weights[place][np.minimum(k, fit.setting.rank - 1)]
            x = support.states[place][_drawn(weights, rng)]
    return ReturnLaw.of(earned)


def played_episodes(log: EpisodeLog, held_out: bool = False) -> PlayedEpisodes:
    """The episodes that were not cut off, without the held-out ones if that is asked for."""
    whole = np.flatnonzero(log.whole)
    some = log.subset(whole[np.arange(whole.size) % HELD != 0] if held_out and whole.size > 1 else whole)
    if some.observation is None or some.next_observation is None:
        raise ValueError("played_episodes: the log has no observations")
    final = some.next_observation[some.begin[1:] - 1]
    final = np.where(np.isnan(final), some.observation[some.begin[1:] - 1], final)
    features = np.insert(some.observation, some.begin[1:], final, axis=0).astype(np.float32)
    return PlayedEpisodes.of(some.horizon, features, some.action.astype(np.int64), some.reward, some.lengths)


def fit_kernel_model(played: PlayedEpisodes, n_actions: int, tau: float, rng: np.random.Generator) -> KernelModel:
    """The kernel model with the settings of the learner on simulators."""
    return KernelCandidate().fit(FitData(played, n_actions, tau, drifts=False), rng).model


def plan_penalised_kernel(
    model: KernelModel, horizon: int, tau: float, episodes: int, schedule: Schedule, least: float
) -> ModelPlan:
    """The plan of a kernel model that keeps off what was seldom tried, or, where its bound is above `least`, the one
    with the penalty of the theory."""
    scale = model.scale
    rare = KernelCandidate().bonus * tau * scale.count / (horizon * np.sqrt(1.0 + model.nearby))
    allowed = np.diff(model.rows.ptr).reshape(rare.shape) > 0
    allowed[~allowed.any(axis=1)] = True
    plan = plan_kernel(model.rows, scale, horizon, model.start, tau, -rare, allowed)
    sure, penalty = kernel_bound(model, horizon, tau, episodes, schedule)
    if sure.promise > least:
        plan, rare, allowed = sure, penalty, np.ones_like(allowed)
    tables = (model.rows, scale, -rare, allowed, plan.steps, plan.tables, plan.budget, horizon)
    policy = KernelPolicy(model.metric, model.representatives, model.neighbours, *tables)
    return ModelPlan(policy, plan.promise, plan.promise, f"kernel of {len(model.representatives)}", sure.promise)


def kernel_gains(model: KernelModel, t: SeenTransitions, keep: np.ndarray, replay: Replay) -> np.ndarray:
    """log sum_{z, j} q_z(x) P(j, r | z, a) q_j(x') / p_j of the kept transitions, q: interpolation, p_j: mean q_j.

    Where the step is part of the metric, p_j is that of the step: knowing the step is no merit.
    """
    M, A, H = len(model.representatives), model.visits.shape[1], replay.horizon
    rewards, _ = reward_kinds(replay.rewards[np.arange(H) < replay.lengths[:, None]], H)
    of_row = nearest_kind(rewards, model.scale.origin + model.scale.unit * model.rows.shift)
    kinds = nearest_kind(rewards, t.reward)
    here, q = interpolation(model.metric.place(t.x, t.h / H), model.representatives, model.neighbours)
    there, r = interpolation(model.metric.place(t.after, (t.h + 1) / H), model.representatives, model.neighbours)
    there[t.ended], r[t.ended] = M, 1.0 / r.shape[1]
    group, train = t.h if model.metric.timed else np.zeros_like(t.h), ~t.held & ~t.cut
    base = np.zeros((H, M + 1))
    np.add.at(base, (group[train, None], there[train]), r[train])
    base = np.maximum(base / np.maximum(base.sum(axis=1, keepdims=True), 1.0), 1e-12)
    blind = np.bincount(kinds[train], minlength=len(rewards.values)) / max(int(train.sum()), 1)
    result, lift = [], np.zeros(M + 1)
    for i in np.flatnonzero(keep):
        np.add.at(lift, there[i], r[i] / base[group[i], there[i]])
        chance = 0.0
        for z, weight in zip(here[i], q[i], strict=True):
            rows = slice(model.rows.ptr[z * A + t.action[i]], model.rows.ptr[z * A + t.action[i] + 1])
            fits = of_row[rows] == kinds[i]
            chance += weight * float((model.rows.weight[rows] * lift[model.rows.after[rows]] * fits).sum())
        result.append(np.log((1.0 - LEAST) * chance + LEAST * max(blind[kinds[i]], 1e-6)))
        lift[there[i]] = 0.0
    return np.array(result)


def _drawn(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A place [n] for each row of weights [n, K], drawn in proportion to them."""
    total = np.cumsum(weights, axis=1)
    return np.minimum((rng.random(len(total))[:, None] * total[:, -1:] >= total).sum(axis=1), total.shape[1] - 1)
