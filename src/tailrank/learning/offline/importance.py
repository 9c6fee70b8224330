"""Off-policy evaluation without a model: the returns of a log, weighted as if the policy had made it.

An episode of the log has the weight w = prod_h 1{a_h = pi(h, s_h, b_h)} / mu_h, where b_h is the budget that the policy
would have left and mu_h the probability with which the action was taken. Then E w 1{R >= x} = P_pi(R >= x) for every x.
w 1{R >= x} is not negative, so betting gives a lower bound on its mean that needs no largest weight (`counts.fixed`
has the radius); so does w 1{R <= x}. At K thresholds that were chosen elsewhere these are bands: with probability
1 - delta / 2, P(R >= x_k) >= L_k for all k, and no law is worse than the one with mass L_k - L_{k+1} at x_k and the
rest at the least return. As in UnO (Chandak et al. 2021), CVaR, VaR and mean follow from the band, here at every n.
Weights that are clipped only lower both bounds on probabilities, so bounds with clipped weights hold too. Nothing is
assumed of the process, only of the probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.logs.log import EpisodeLog
from tailrank.planning.pessimistic.induction import best_bet, least_mean
from tailrank.policies.moved import Moved
from tailrank.policies.shapes import horizon_of
from tailrank.policies.softmax import SoftmaxPolicy
from tailrank.policies.tables import ClonedPolicy, Policy
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import Measure
from tailrank.risk.measures.cvar import CVaR

THRESHOLDS = 24
"""K."""
HEAVIEST = 1e100
"""What a weight is cut at, so that sums of squares are floats."""


@dataclass(frozen=True)
class Weighted:
    """An objective (CVaR unless another is asked for), VaR and mean of a policy from a log that others made.

    cvar, var, mean: self-normalised estimates (None where no episode of the log is one of the policy). lower, upper:
    bounds on the objective, each pair of bounds with probability `confidence`; likewise var_*, mean_*. effective:
    sample size (sum w)^2 / sum w^2; largest: weight; matched: episodes with weight above 0. clipped: CVaR with
    weights cut at `clip`. estimated: the probabilities are those of the log's own frequencies, so nothing is certain.
    """

    tau: float
    cvar: float | None
    lower: float
    upper: float
    var: float | None
    var_lower: float
    var_upper: float
    mean: float | None
    mean_lower: float
    mean_upper: float
    clipped: float | None
    clip: float
    confidence: float
    episodes: int
    matched: int
    effective: float
    largest: float
    estimated: bool


def weights_of(policy: Policy, log: EpisodeLog, probability: np.ndarray) -> np.ndarray:
    """w of each episode [n], at most `HEAVIEST`; probability [T]: with which the log's actions were taken."""
    if (horizon_of(policy) or log.horizon) < int(log.lengths.max()):
        raise InputError(
            f"{log.name}: has episodes of {log.lengths.max()} steps, the policy is for {horizon_of(policy)}"
        )
    weights, memory = np.ones(log.episodes), policy.start(log.episodes)
    seen = log.state if log.observation is None else log.observation
    for h in range(int(log.lengths.max())):
        playing = np.flatnonzero(log.lengths > h)
        at = log.begin[playing] + h
        states, actions, left = seen[at], log.action[at], memory[playing]
        with np.errstate(over="ignore"):
            factors = _chances(policy, h, states, actions, left) / probability[at]
            weights[playing] = np.minimum(weights[playing] * np.minimum(factors, HEAVIEST), HEAVIEST)
        after = seen[np.minimum(at + 1, log.transitions - 1)]
        memory[playing] = policy.update(h, Moved(states, actions, log.reward[at], after), left)
    return weights


def _chances(policy: Policy, h: int, states: np.ndarray, actions: np.ndarray, left: np.ndarray) -> np.ndarray:
    """With which chance the policy takes these actions [n]: 0 or 1 unless it draws them."""
    if isinstance(policy, ClonedPolicy):
        return policy.law[states, actions]
    if isinstance(policy, SoftmaxPolicy) and policy.rng is not None:
        return policy.network.probabilities(h, states)[np.arange(len(actions)), actions]
    return np.asarray(policy.act(h, states, left) == actions, dtype=np.float64)


def frequencies(log: EpisodeLog) -> np.ndarray:
    """How often the log took each of its actions in their state, [T]: an estimate of its probabilities.

    Observation vectors hardly ever repeat: there it is how often the action was taken at all.
    """
    S, A = len(log.states), len(log.actions)
    pair = log.state.astype(np.int64) * A + log.action
    return np.bincount(pair, minlength=S * A)[pair] / np.bincount(log.state, minlength=S)[log.state]


def judged(
    policy: Policy,
    log: EpisodeLog,
    measure: Measure | float,
    *,
    delta: float,
    ends: tuple[float, float],
    discount: float,
    rng: np.random.Generator,
) -> Weighted:
    """What `policy`, chosen without this log, earns: a tenth of the episodes chooses thresholds, the others judge."""
    order = rng.permutation(log.episodes)
    few = max(1, log.episodes // 10)
    choosing, judging = log.subset(np.sort(order[:few])), log.subset(np.sort(order[few:]))
    if judging.episodes == 0:
        raise InputError(f"{log.name}: at least two episodes are needed to judge a policy, found {log.episodes}")
    returns = choosing.returns(discount)
    return weigh(policy, judging, measure, delta=delta, ends=ends, thresholds=returns, discount=discount)


def weigh(
    policy: Policy,
    log: EpisodeLog,
    measure: Measure | float,
    *,
    delta: float,
    ends: tuple[float, float],
    thresholds: np.ndarray,
    discount: float = 1.0,
    clip: float | None = None,
) -> Weighted:
    """What `policy` earns by the log's episodes. measure: the objective, or the tau of its CVaR; VaR is at its tau, or
    the median. thresholds [m]: returns, from elsewhere, to choose thresholds from."""
    asked = measure if isinstance(measure, Measure) else CVaR(measure)
    tau = getattr(asked, "tau", 0.5)
    estimated = log.probability is None
    probability = frequencies(log) if log.probability is None else log.probability
    w = weights_of(policy, log, probability)
    known = np.where(log.whole, w, 0.0)  # an episode that was cut off supports neither bound
    returns = np.clip(log.returns(discount), *ends)
    x = chosen_thresholds(thresholds, ends)
    side = 0.5 * delta
    n = log.episodes
    band = _radius(n, side / x.size)
    at_least = np.array([_least(known * (returns >= t), band) for t in x])
    at_most = np.array([_least(known * (returns <= t), band) for t in x])
    worse, better = band_laws(x, at_least, at_most, ends)
    alone = _radius(n, side)
    cut = 0.5 * np.sqrt(n) if clip is None else clip
    found = _estimates(returns, known, asked, tau)
    clipped = _estimates(returns, np.minimum(known, cut), asked, tau)
    return Weighted(
        tau=tau,
        cvar=found[0],
        lower=asked.of_law(worse),
        upper=asked.of_law(better),
        var=found[1],
        var_lower=worse.var(tau),
        var_upper=better.var(tau),
        mean=found[2],
        mean_lower=ends[0] + _least(known * (returns - ends[0]), alone),
        mean_upper=ends[1] - _least(known * (ends[1] - returns), alone),
        clipped=clipped[0],
        clip=float(cut),
        confidence=1.0 - delta,
        episodes=n,
        matched=int((w > 0).sum()),
        effective=float(w.sum() ** 2 / max((w**2).sum(), 1e-300)),
        largest=float(w.max()),
        estimated=estimated,
    )


def sure_at_least(
    policy: Policy,
    judging: EpisodeLog,
    choosing: EpisodeLog,
    measure: Measure,
    *,
    delta: float,
    ends: tuple[float, float],
    discount: float = 1.0,
) -> float:
    """What `policy` earns at least by the episodes of `judging`, with probability 1 - delta.

    CVaR_tau >= b - (b - E w min(R, b)) / tau for every b: one mean of numbers that are not negative (counted from the
    least return), where a band pays for every threshold. b is the budget that is best in `choosing`. Other objectives
    have a band at thresholds that are returns of `choosing`.
    """
    x = chosen_thresholds(choosing.returns(discount)[choosing.whole], ends)
    (w, returns), (there, before) = (_known(policy, log, ends, discount) for log in (judging, choosing))
    if not isinstance(measure, CVaR):
        chance = delta / x.size
        pairs = [(w * (returns >= one), there * (before >= one)) for one in x]
        at_least = np.array([_mean_at_least(*pair, chance) for pair in pairs])
        return measure.of_law(band_laws(x, at_least, np.zeros(x.size), ends)[0])

    def cvar(b: float, saved: float) -> float:
        # No more than all of b is saved, whatever the weights say.
        return max(b - max(b - ends[0] - saved, 0.0) / measure.tau, ends[0])

    radius = np.log(2.0 / delta) / judging.episodes
    hoped = [cvar(b, _least(there * (np.minimum(before, b) - ends[0]), radius)) for b in x]
    b = float(x[int(np.argmax(hoped))])
    saved = w * (np.minimum(returns, b) - ends[0])
    return cvar(b, _mean_at_least(saved, there * (np.minimum(before, b) - ends[0]), delta))


def _mean_at_least(values: np.ndarray, elsewhere: np.ndarray, delta: float) -> float:
    """A lower bound on the mean of numbers [n] >= 0 with probability 1 - delta; elsewhere [m]: others like them.

    A fixed t, the best one elsewhere, needs no price for t. It has half of delta, and the bound that searches for t in
    `values` the other half.
    """
    n, chance = values.size, 0.5 * delta
    alone = float(np.log(1.0 / chance)) / n
    return max(_least(values, _radius(n, chance)), _with_bet(values, best_bet(*_distinct(elsewhere), alone), alone))


def _known(
    policy: Policy, log: EpisodeLog, ends: tuple[float, float], discount: float
) -> tuple[np.ndarray, np.ndarray]:
    """Weights and returns [n] of a log with probabilities; an episode that was cut off weighs nothing."""
    if log.probability is None:
        raise ValueError("the log has no probabilities")
    weights = np.where(log.whole, weights_of(policy, log, log.probability), 0.0)
    return weights, np.clip(log.returns(discount), *ends)


def _with_bet(values: np.ndarray, t: float, radius: float) -> float:
    """The bound on the mean of numbers [n] >= 0 that one t gives: prod (t + x) / (t + mean) has the mean one."""
    if t < 0.0 or (t == 0.0 and not values.all()):
        return 0.0
    return max(float(np.exp(np.log(t + values).mean() - radius)) - t, 0.0)


def chosen_thresholds(returns: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
    """At most K thresholds: distinct returns, or quantiles that are closer together in the lower tail."""
    distinct = np.unique(np.clip(returns, *ends))
    if distinct.size <= THRESHOLDS:
        return distinct if distinct.size else np.array([ends[0]])
    levels = np.linspace(0.0, 1.0, THRESHOLDS) ** 2
    return np.unique(np.quantile(returns, levels, method="inverted_cdf"))


def band_laws(
    x: np.ndarray, at_least: np.ndarray, at_most: np.ndarray, ends: tuple[float, float]
) -> tuple[ReturnLaw, ReturnLaw]:
    """The worst law with P(R >= x_k) >= at_least and the best with P(R <= x_k) >= at_most; x [K] increasing."""
    above = np.minimum(np.maximum.accumulate(at_least[::-1])[::-1], 1.0)
    below = np.minimum(np.maximum.accumulate(at_most), 1.0)
    worse = ReturnLaw.of(np.append(ends[0], x), np.append(1.0 - above[0], above - np.append(above[1:], 0.0)))
    better = ReturnLaw.of(np.append(x, ends[1]), np.append(np.diff(below, prepend=0.0), 1.0 - below[-1]))
    return worse, better


def _radius(n: int, delta: float) -> float:
    return float((np.log(1.0 / delta) + 0.5 * np.log(n + 1.0) + np.log(2.0)) / n)


def _least(values: np.ndarray, radius: float) -> float:
    """A lower bound on the mean of numbers [n] that are not negative; equal ones are taken together."""
    return least_mean(*_distinct(values), radius)


def _distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different values of [n] and how often each is there, as shares."""
    distinct, times = np.unique(values, return_counts=True)
    return distinct, times / values.size


def _estimates(
    returns: np.ndarray, weights: np.ndarray, measure: Measure, tau: float
) -> tuple[float | None, float | None, float | None]:
    """The objective, VaR and mean of the self-normalised law; None without weight."""
    total = float(weights.sum())
    if total <= 0.0:
        return None, None, None
    law = ReturnLaw.of(returns[weights > 0], weights[weights > 0] / total)
    return measure.of_law(law), law.var(tau), law.mean
