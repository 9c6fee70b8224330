"""CVaR policy gradient (GCVaR: Tamar, Glassner and Mannor 2015).

With v the tau-quantile of the return R of a policy with parameters theta,

    grad CVaR_tau = -(1 / tau) E[ (v - R)^+  sum_h grad log pi(a_h | x_h, h) ]

which is exact also for laws with atoms as long as the tau-quantile is unique (the envelope theorem on
CVaR = max_v { v - E(v - R)^+ / tau }). Episodes above v have weight zero: what they did is not learned from. So the
estimate is blind to success: where more than tau of the episodes earn the least, all weights are zero.

Options and departures:
- `track="lagrangian"`: v is moved by stochastic approximation, up by 1 - 1{R <= v} / tau, instead of being the
  quantile of each batch (Chow and Ghavamzadeh 2014; their multiplier belongs to a constraint that is not here, and
  with Adam's constant rate theta is not on a slower time scale than v for good).
- `variance_reduction`: the mean weight of the other episodes of the batch is taken off each weight. It leaves the
  expectation as it is; then episodes above v are pushed up, all by the same amount.
- `soft`: the tau in use falls linearly from 1 to the target over the first `soft_fraction` of training (CeSoR,
  Greenberg et al. 2022). The other half of CeSoR, cross-entropy sampling of the environment's context, needs a
  context that can be chosen, and is left out.
- Adam instead of plain ascent; an entropy bonus is possible. The policy that is returned plays the likeliest action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tailrank import checks
from tailrank.policy import Policy
from tailrank.protocols import Simulator
from tailrank.risk import var
from tailrank.rivals_rich.networks import Adam, Network, SoftmaxPolicy
from tailrank.rivals_rich.rolling import Batch, Callback, roll
from tailrank.streams import Streams

Track = Literal["batch", "lagrangian"]


@dataclass(frozen=True)
class PolicyGradient:
    """The settings. hidden: sizes of the trunk's layers (none: softmax-linear). batch: episodes an update.

    rate: Adam's. track_rate: first step of the tracked quantile, in ranges of the returns seen.
    """

    tau: float
    hidden: tuple[int, ...] = ()
    batch: int = 200
    rate: float = 0.02
    soft: bool = False
    soft_fraction: float = 0.8
    track: Track = "batch"
    track_rate: float = 1.0
    variance_reduction: bool = True
    entropy: float = 0.0

    def __post_init__(self) -> None:
        checks.tail_level(self.tau)
        checks.whole(self.batch, "batch", 2)
        checks.one_of(self.track, "track", ("batch", "lagrangian"))
        checks.tail_level(self.soft_fraction, "soft_fraction")
        for name in ("rate", "track_rate"):
            if checks.number(getattr(self, name), name) <= 0:
                raise checks.InputError(f"{name} = {getattr(self, name)}: must be positive")
        for size in self.hidden:
            checks.whole(size, "hidden")

    def train(self, simulator: Simulator, episodes: int, seed: int, callback: Callback | None = None) -> Policy:
        """The policy after `episodes` episodes, a row after every update."""
        total, streams = checks.whole(episodes, "episodes"), Streams(seed)
        network = Network.fresh(
            simulator.n_features, simulator.horizon, simulator.n_actions, self.hidden, streams.oracle(0)
        )
        adam, tracked, played = Adam(self.rate), Tracker(self.track_rate), 0
        while played < total:
            n, k = min(self.batch, total - played), adam.steps
            batch = roll(simulator, SoftmaxPolicy(network, streams.planner(k)), streams.train_seeds(k, n))
            tau = self.level(played / total)
            quantile = tracked.move(batch.returns, tau) if self.track == "lagrangian" else None
            weights = tail_weights(batch.returns, tau, quantile, self.variance_reduction)
            adam.climb(network.weights, gradient(network, batch, weights / n, self.entropy))
            played += n
            if callback is not None:
                callback(batch.row(played, self.tau), SoftmaxPolicy(network.copy()))
        return SoftmaxPolicy(network)

    def level(self, done: float) -> float:
        """The tau in use when the fraction `done` of the episodes has been played."""
        if not self.soft:
            return self.tau
        return max(self.tau, 1.0 - (1.0 - self.tau) * done / self.soft_fraction)


@dataclass
class Tracker:
    """The quantile v by stochastic approximation: v += step_k (tau - share of returns at most v)."""

    rate: float
    value: float | None = None
    low: float = np.inf
    high: float = -np.inf
    steps: int = 0

    def move(self, returns: np.ndarray, tau: float) -> float:
        """v before it is told of these returns [n] (of the first ones: their quantile), then moved.

        Steps fall as k^-0.55 and are in ranges of the returns seen.
        """
        self.low, self.high = min(self.low, float(returns.min())), max(self.high, float(returns.max()))
        before = var(returns, tau) if self.value is None else self.value
        self.steps += 1
        step = self.rate * (self.high - self.low) * self.steps**-0.55
        moved = before + step * (tau - float((returns <= before).mean()))
        self.value = float(np.clip(moved, self.low, self.high))
        return before


def tail_weights(
    returns: np.ndarray, tau: float, quantile: float | None = None, variance_reduction: bool = False
) -> np.ndarray:
    """-(v - R)^+ / tau of returns [n], [n]; v is `quantile`, by default the returns' own."""
    v = var(returns, tau) if quantile is None else quantile
    weights = -np.maximum(v - returns, 0.0) / tau
    n = weights.size
    return (weights - weights.mean()) * (n / (n - 1)) if variance_reduction and n > 1 else weights


def gradient(network: Network, batch: Batch, weights: np.ndarray, entropy: float = 0.0) -> list[np.ndarray]:
    """Sum over episodes of weights [n] times the gradient of the log-probability of what was played.

    entropy: how much of the gradient of the mean entropy of the visited steps is added.
    """
    total = [np.zeros_like(w) for w in network.weights]
    for h in range(len(batch.actions)):
        live = batch.alive[h] & (weights != 0.0)
        parts = [network.score(h, batch.features[h, live], batch.actions[h, live], weights[live])]
        if entropy > 0.0:
            share = np.full(int(batch.alive[h].sum()), entropy / batch.alive.sum())
            parts.append(network.entropy(h, batch.features[h, batch.alive[h]], share))
        for part in parts:
            for t, p in zip(total, part, strict=True):
                t += p
    return total
