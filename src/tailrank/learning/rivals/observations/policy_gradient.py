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
from typing import ClassVar, Literal

import numpy as np

from tailrank import checks
from tailrank.envs.protocols import Simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.rivals.ascent import Adam, Tracker, soft_level, tail_weights
from tailrank.learning.rivals.observations.playing import Callback, PlayedBatch, Row, roll, trained
from tailrank.policies.softmax import Network, SoftmaxPolicy
from tailrank.policies.tables import Policy

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
            checks.positive(getattr(self, name), name)
        for size in self.hidden:
            checks.whole(size, "hidden")

    stored: ClassVar[bool] = True

    @property
    def each(self) -> int:
        """Episodes an update."""
        return self.batch

    def init(self, simulator: Simulator, seed: int, total: int) -> Climb:
        """Uniform actions."""
        streams = Streams(seed)
        network = Network.fresh(
            simulator.n_features, simulator.horizon, simulator.n_actions, self.hidden, streams.oracle(0)
        )
        return Climb(network, Adam(self.rate), Tracker(self.track_rate), streams, total)

    def step(self, progress: Climb, simulator: Simulator) -> Row:
        """A batch of episodes and a step along its gradient."""
        network, adam, streams = progress.network, progress.adam, progress.streams
        n, k = min(self.batch, progress.total - progress.played), adam.steps
        batch = roll(simulator, SoftmaxPolicy(network, streams.planner(k)), streams.train_seeds(k, n))
        tau = self.level(progress.played / progress.total)
        quantile = progress.tracked.move(batch.returns, tau) if self.track == "lagrangian" else None
        weights = tail_weights(batch.returns, tau, quantile, self.variance_reduction)
        adam.climb(network.weights, gradient(network, batch, weights / n, self.entropy))
        progress.played, progress.steps = progress.played + n, progress.steps + int(batch.alive.sum())
        return batch.row(progress.played, self.tau)

    def policy(self, progress: Climb) -> Policy:
        """The likeliest actions."""
        return SoftmaxPolicy(progress.network.copy())

    def restored(self, progress: Climb, arrays: dict[str, np.ndarray]) -> Climb:
        """The progress in a checkpoint."""
        for i, w in enumerate(progress.network.weights):
            w[...] = arrays[f"network.{i}"]
        adam, tracked = progress.adam.from_arrays(arrays), progress.tracked.from_arrays(arrays)
        played, steps = (checks.whole(x, "counters", least=0) for x in arrays["counters"])
        return Climb(progress.network, adam, tracked, progress.streams, progress.total, played, steps)

    def train(self, simulator: Simulator, episodes: int, seed: int, callback: Callback | None = None) -> Policy:
        """The policy after `episodes` episodes, a row after every update."""
        return trained(self, simulator, episodes, seed, callback)

    def level(self, done: float) -> float:
        """The tau in use when the fraction `done` of the episodes has been played."""
        if not self.soft:
            return self.tau
        return soft_level(self.tau, done / self.soft_fraction)


@dataclass
class Climb:
    """Where the ascent stands; total: the episodes that will be played."""

    network: Network
    adam: Adam
    tracked: Tracker
    streams: Streams
    total: int
    played: int = 0
    steps: int = 0

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        arrays = {f"network.{i}": w for i, w in enumerate(self.network.weights)}
        arrays["counters"] = np.array([self.played, self.steps])
        return arrays | self.adam.to_arrays() | self.tracked.to_arrays()


def gradient(network: Network, batch: PlayedBatch, weights: np.ndarray, entropy: float = 0.0) -> list[np.ndarray]:
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
