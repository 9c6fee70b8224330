"""QR-DQN (Dabney et al. 2018) and C51 (Bellemare et al. 2017) that act for the tail, through sb3-contrib.

The network predicts the law of the return from (features, step) on: N quantiles, or the probabilities of N numbers at
equal distances (`head="categories"`, trained on the projected law). Actions maximise the mean of the lowest tau of it
instead of the mean (Achab et al. 2022 for categories; for quantiles the usual practice, as in IQN, Dabney et al.
2018b). It is not the CVaR of the whole return: every step looks at the tail of what is left, whatever was earned
before, so its optimum may differ from CVaR*.

Departures from sb3-contrib: exploration is epsilon-greedy for the tail, and so is the action in the target
(`target="same"`; "mean" keeps QR-DQN's own); the step is part of the observation, and nothing is discounted; C51 is
QR-DQN with another head and loss, so it has no prioritised replay either. Stable-Baselines3 seeds the global
generators of Python, NumPy and PyTorch. What it learned is not stored: a run that goes on plays everything again.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.learning.rivals.observations.playing import Callback, Row, trained
from tailrank.policies.distributional import DistributionalPolicy
from tailrank.policies.tables import Policy

if TYPE_CHECKING:
    import gymnasium

    from tailrank.learning.rivals.observations._qr_torch import Deep


@dataclass(frozen=True)
class QrDqn:
    """The settings.

    act: "cvar" or "mean" of the law. head: "quantiles", or "categories" between `low` and `high`, the range of the
    return (default: the simulator's own). quantiles: N. hidden: layers of the network. explore: epsilon falls to
    `epsilon` over this fraction of training. train_every: steps between two gradient steps. copy_every: steps between
    two copies to the target network. report: a row is of at least so many episodes.
    """

    tau: float
    act: Literal["cvar", "mean"] = "cvar"
    target: Literal["same", "mean"] = "same"
    head: Literal["quantiles", "categories"] = "quantiles"
    quantiles: int = 50
    low: float | None = None
    high: float | None = None
    hidden: tuple[int, ...] = (64, 64)
    rate: float = 1e-3
    explore: float = 0.5
    epsilon: float = 0.05
    batch: int = 64
    train_every: int = 4
    copy_every: int = 500
    buffer: int = 200_000
    report: int = 200

    def __post_init__(self) -> None:
        checks.tail_level(self.tau)
        checks.one_of(self.act, "act", ("cvar", "mean"))
        checks.one_of(self.target, "target", ("same", "mean"))
        checks.one_of(self.head, "head", ("quantiles", "categories"))
        for name in ("quantiles", "batch", "train_every", "copy_every", "buffer", "report"):
            checks.whole(getattr(self, name), name)
        if (self.low is None) != (self.high is None):
            raise InputError(f"low = {self.low}, high = {self.high}: give both or none")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise InputError(f"low = {self.low}: must lie below high = {self.high}")

    stored: ClassVar[bool] = False

    @property
    def each(self) -> int:
        """Episodes a row, at least."""
        return self.report

    @property
    def level(self) -> float:
        """The tail that actions are chosen by."""
        return self.tau if self.act == "cvar" else 1.0

    def support(self, env: Any) -> np.ndarray:
        """The numbers that categories stand for, [N] (quantiles: none)."""
        if self.head == "quantiles":
            return np.zeros(0)
        known: Any = getattr(env, "return_range", None) if self.low is None else (self.low, self.high)
        if known is None:
            raise InputError("low, high: the range of the return must be given for c51; the environment states none")
        return np.linspace(known[0], known[1], self.quantiles)

    def init(
        self, simulator: Simulator | gymnasium.Env[Any, Any], seed: int, total: int, horizon: int | None = None
    ) -> Deep:
        """A network that was not trained yet."""
        if find_spec("stable_baselines3") is None or find_spec("sb3_contrib") is None:
            name = "qr-dqn" if self.head == "quantiles" else "c51"
            raise InputError(f"{name}: needs stable-baselines3 and sb3-contrib; install tailrank[deep]")
        import gymnasium

        from tailrank.learning.rivals.observations._qr_torch import Deep
        from tailrank.learning.rivals.observations._simulator_env import FiniteHorizon, SimulatorEnv

        support = self.support(simulator)
        if isinstance(simulator, gymnasium.Env):
            steps = horizon if horizon is not None else getattr(simulator.spec, "max_episode_steps", None)
            if steps is None:
                raise InputError("horizon: the environment states no step limit; give one")
            return Deep(self, FiniteHorizon(simulator, checks.whole(steps, "horizon")), total, seed, support)
        if horizon is not None and horizon != simulator.horizon:
            raise InputError(f"horizon = {horizon}: the simulator has {simulator.horizon}; leave it out")
        return Deep(self, FiniteHorizon(SimulatorEnv(simulator), simulator.horizon), total, seed, support)

    def step(self, progress: Deep, simulator: Simulator) -> Row:
        """At least `report` episodes."""
        return progress.advance(self.report, self.tau)

    def policy(self, progress: Deep) -> DistributionalPolicy:
        """The network's choice, without exploration."""
        return progress.policy()

    def restored(self, progress: Deep, arrays: dict[str, np.ndarray]) -> Deep:
        """The same progress, by playing everything again."""
        for _ in range(int(arrays["rows"][0])):
            progress.advance(self.report, self.tau)
        return progress

    def train(
        self,
        simulator: Simulator | gymnasium.Env[Any, Any],
        episodes: int,
        seed: int,
        callback: Callback | None = None,
        horizon: int | None = None,
    ) -> Policy:
        """The policy after `episodes` episodes, a row every `report` of them or a few more.

        simulator: a `Simulator`, or a Gymnasium environment with flat observations (horizon: default its step limit).
        """
        return trained(self, simulator, episodes, seed, callback, horizon=horizon)
