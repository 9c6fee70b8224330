"""Approximate value iteration for risk-aware MDPs (Yu, Haskell and Xu 2018), at the CVaR: nested CVaR from samples.

    Q^_h(s, a) = CVaR_tau of the empirical law of n outcomes r + discount J^_{h+1}(s') drawn at (s, a)
    J^_h = the regression of max_a Q^_h(s, a) on features of s,   J^_H = 0

backward in time, with fresh outcomes at every step. Where an outcome can be drawn at any pair (a generative model,
here the MDP itself) nothing else of the MDP is needed. Without features every state has its own entry, nothing is
regressed, and J^ tends to the values of `nested.iterated_cvar` at the rate 1 / sqrt(n).

How far it can be off: by the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart every empirical law is within eps
= sqrt(log(2 H S A / delta) / (2 n)) of the true one, with probability 1 - delta for all pairs at once; a CVaR moves
by at most min(eps / tau, 1) times the range of its outcomes; and the errors of later steps pass through maxima and
CVaRs without growing. So |J^_0 - J_0| <= sum_h discount^h min(eps / tau, 1) range_h. That is a worst case: the spread
of the value over repetitions is far smaller, but does not see the bias (the CVaR of few outcomes is too high).

Departures: a finite horizon instead of a discounted infinite one, so that iteration h is step h; the risk map is the
CVaR (theirs is any of a class); the features are fixed and fitted by least squares on all states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.criteria.nested import best_actions, nested_value
from tailrank.policies.tables import MarkovPolicy

DRAWS = 4_000_000
"""Outcomes that are held at once."""


@dataclass(frozen=True)
class Sampling:
    """Outcomes drawn of each pair at each step, the seed, and how often all is repeated to see the spread."""

    samples: int = 1000
    seed: int = 0
    repetitions: int = 5
    confidence: float = 0.95

    def __post_init__(self) -> None:
        checks.whole(self.samples, "samples")
        checks.whole(self.seed, "seed", least=0)
        checks.whole(self.repetitions, "repetitions")
        checks.inside(self.confidence, "confidence", "(0, 1)")


@dataclass(frozen=True)
class Sampled:
    """The plan of the first repetition: its policy, values J^ [H + 1, S] and value at the start.

    error: |value - nested CVaR*| is at most this with the confidence asked for (inf where values were regressed).
    spread: standard deviation of the value over the repetitions.
    """

    policy: MarkovPolicy
    values: np.ndarray
    value: float
    error: float
    spread: float


def sampled_iterated(
    mdp: FiniteMDP, tau: float, sampling: Sampling | None = None, features: np.ndarray | None = None
) -> Sampled:
    """The nested CVaR plan from samples; features [S, d] of the states, or every state for itself."""
    tau, sampling = checks.tail_level(tau), sampling or Sampling()
    if features is not None and (features.ndim != 2 or len(features) != mdp.n_states):
        raise InputError(f"features: must have shape ({mdp.n_states}, d), found {features.shape}")
    found = [
        iteration(mdp, tau, sampling.samples, np.random.default_rng([sampling.seed, i]), features)
        for i in range(sampling.repetitions)
    ]
    policy, values, ranges = found[0]
    pairs = sum(int((np.diff(mdp.rows(h)[0]) > 0).sum()) for h in range(mdp.horizon))
    eps = math.sqrt(math.log(2.0 * pairs / (1.0 - sampling.confidence)) / (2.0 * sampling.samples))
    error = min(eps / tau, 1.0) * float(mdp.discount ** np.arange(mdp.horizon) @ ranges)
    starts = [nested_value(mdp, tau, values) for _, values, _ in found]
    spread = float(np.std(starts, ddof=1)) if len(starts) > 1 else math.nan
    return Sampled(policy, values, starts[0], error if features is None else math.inf, spread)


def iteration(
    mdp: FiniteMDP, tau: float, samples: int, rng: np.random.Generator, features: np.ndarray | None = None
) -> tuple[MarkovPolicy, np.ndarray, np.ndarray]:
    """One pass backward: the policy, its values [H + 1, S], and the largest range of a pair's outcomes, [H]."""
    S, A, H = mdp.n_states, mdp.n_actions, mdp.horizon
    values, ranges = np.zeros((H + 1, S)), np.zeros(H)
    actions = np.zeros((H, S), dtype=np.int64)
    for h in reversed(range(H)):
        ptr, next_state, prob, reward = mdp.rows(h)
        outcome = reward + mdp.discount * values[h + 1][next_state]
        q = np.full(S * A, -np.inf)
        pairs = np.flatnonzero(np.diff(ptr))
        for some in np.array_split(pairs, math.ceil(pairs.size * samples / DRAWS)):
            drawn = mdp.draw_rows(h, np.repeat(some, samples), rng).reshape(some.size, samples)
            q[some] = empirical_cvar(outcome[drawn], tau)
        real = prob > 0.0
        owner = np.repeat(np.arange(S * A), np.diff(ptr))[real]
        low, high = np.full(S * A, np.inf), np.full(S * A, -np.inf)
        np.minimum.at(low, owner, outcome[real])
        np.maximum.at(high, owner, outcome[real])
        ranges[h] = float((high - low)[pairs].max())
        actions[h], best = best_actions(q.reshape(S, A))
        values[h] = best if features is None else features @ np.linalg.lstsq(features, best, rcond=None)[0]
    return MarkovPolicy(actions), values, ranges


def empirical_cvar(outcomes: np.ndarray, tau: float) -> np.ndarray:
    """CVaR_tau of each row of outcomes [m, n], all n equally likely, [m]."""
    n = outcomes.shape[1]
    weight = np.clip(tau * n - np.arange(n), 0.0, 1.0)
    ordered = np.sort(outcomes, axis=1)
    low = ordered[:, :1]  # taken off, so that the CVaR of equal outcomes is theirs to the last bit
    return np.asarray(low[:, 0] + (ordered - low) @ weight / (tau * n))
