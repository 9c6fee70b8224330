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

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from tailrank import checks
from tailrank._system.settings import setting
from tailrank.envs.protocols import Simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.protocol import PlayedInfo, SimulatorLearner
from tailrank.learning.rivals.ascent import Adam, Tracker, soft_level, tail_weights
from tailrank.learning.rivals.observations.playing import PlayedBatch, roll
from tailrank.policies.softmax import Network, SoftmaxPolicy
from tailrank.policies.tables import Policy

Track = Literal["batch", "lagrangian"]


def layer_sizes(value: object, name: str) -> tuple[int, ...]:
    """Sizes of layers: whole numbers, or one."""
    sizes = value if isinstance(value, list | tuple) else (value,)
    return tuple(checks.whole(size, name) for size in sizes)


@dataclass(frozen=True)
class PolicyGradient(SimulatorLearner):
    """CVaR policy gradient (GCVaR: Tamar, Glassner and Mannor 2015)."""

    foresees: ClassVar[bool] = True
    hidden: tuple[int, ...] = setting((), kind=tuple, check=layer_sizes, help="Sizes of layers (none: softmax-linear).")
    batch: int = setting(200, kind=int, least=2, help="Episodes an update.")
    rate: float = setting(0.02, kind=float, check=checks.positive, help="Adam's rate.")
    soft: bool = setting(False, kind=bool, help="Let tau fall from 1.")
    soft_fraction: float = setting(
        0.8, kind=float, check=checks.tail_level, help="Share of training over which tau falls."
    )
    track: Track = setting("batch", words=("batch", "lagrangian"), help="The quantile: of each batch, or tracked.")
    track_rate: float = setting(
        1.0,
        kind=float,
        check=checks.positive,
        help="First step of the tracked quantile, in ranges of returns.",
    )
    variance_reduction: bool = setting(True, kind=bool, help="Take a baseline off the weights.")
    entropy: float = setting(0.0, kind=float, help="Weight of an entropy bonus.")

    def episodes_each(self, horizon: int) -> int:
        """Episodes an update."""
        return self.batch

    def init(self, env: Simulator, streams: Streams) -> Climb:
        """Uniform actions."""
        if self.soft and self.total is None:
            raise checks.InputError("soft: needs to know how many episodes will be played (total)")
        network = Network.fresh(env.n_features, env.horizon, env.n_actions, self.hidden, streams.oracle(0))
        return Climb(network, Adam(self.rate), Tracker(self.track_rate))

    def step(self, state: Climb, env: Simulator, streams: Streams) -> tuple[Climb, PlayedInfo]:
        """A batch of episodes and a step along its gradient."""
        network, adam, tracked = state.network.copy(), state.adam.copy(), replace(state.tracked)
        n = self.batch if self.total is None else min(self.batch, self.total - state.episodes)
        batch = roll(env, SoftmaxPolicy(network, streams.planner(state.k)), streams.train_seeds(state.k, n))
        tau = self.level(state.episodes / self.total) if self.total else self.tau
        quantile = tracked.move(batch.returns, tau) if self.track == "lagrangian" else None
        weights = tail_weights(batch.returns, tau, quantile, self.variance_reduction)
        adam.climb(network.weights, gradient(network, batch, weights / n, self.entropy))
        steps = state.steps + int(batch.alive.sum())
        new = Climb(network, adam, tracked, state.k + 1, state.episodes + n, steps)
        return new, PlayedInfo.of(batch.returns, self.tau)

    def policy(self, state: Climb, env: Simulator, streams: Streams) -> Policy:
        """The likeliest actions."""
        return SoftmaxPolicy(state.network)

    def restored(self, arrays: dict[str, np.ndarray], env: Simulator, streams: Streams) -> Climb:
        """The state in a checkpoint."""
        fresh, k = self.init(env, streams), checks.whole(arrays["job.k"][0], "job.k", least=0)
        if k == 0:
            return fresh
        for i, w in enumerate(fresh.network.weights):
            w[...] = arrays[f"network.{i}"]
        played, steps = (checks.whole(x, "counters", least=0) for x in arrays["counters"])
        return Climb(fresh.network, fresh.adam.from_arrays(arrays), fresh.tracked.from_arrays(arrays), k, played, steps)

    def level(self, done: float) -> float:
        """The tau in use when the fraction `done` of the episodes has been played."""
        if not self.soft:
            return self.tau
        return soft_level(self.tau, done / self.soft_fraction)


@dataclass(frozen=True)
class Climb:
    """Where the ascent stands."""

    network: Network
    adam: Adam
    tracked: Tracker
    k: int = 0
    episodes: int = 0
    steps: int = 0

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        arrays = {f"network.{i}": w for i, w in enumerate(self.network.weights)}
        arrays |= {"job.k": np.array([self.k]), "counters": np.array([self.episodes, self.steps])}
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
