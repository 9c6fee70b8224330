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

from tailrank._system.settings import changed, fixed, setting
from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.protocol import PlayedInfo, SimulatorLearner
from tailrank.learning.rivals.observations.policy_gradient import layer_sizes
from tailrank.policies.distributional import DistributionalPolicy

if TYPE_CHECKING:
    from tailrank.learning.rivals.observations._qr_torch import Deep


@dataclass(frozen=True)
class QrDqn(SimulatorLearner):
    """QR-DQN (Dabney et al. 2018) that acts for the tail, through sb3-contrib.

    low, high: the range of the return, for categories (default: the simulator's own).
    """

    stored: ClassVar[bool] = False
    act: Literal["cvar", "mean"] = setting("cvar", words=("cvar", "mean"), help="What actions maximise.")
    target: Literal["same", "mean"] = setting("same", words=("same", "mean"), help="The action in the target.")
    head: Literal["quantiles", "categories"] = setting(
        "quantiles", words=("quantiles", "categories"), kw_only=True, help="What the network predicts."
    )
    quantiles: int = setting(50, kind=int, kw_only=True, help="N, the numbers that it predicts.")
    low: float | None = setting(None, kind=float, kw_only=True, help="Least return, for categories.")
    high: float | None = setting(None, kind=float, kw_only=True, help="Largest return, for categories.")
    hidden: tuple[int, ...] = setting((64, 64), kind=tuple, check=layer_sizes, kw_only=True, help="Sizes of layers.")
    rate: float = setting(1e-3, kind=float, kw_only=True, help="Rate of the optimiser.")
    explore: float = setting(0.5, kind=float, kw_only=True, help="Share of training over which epsilon falls.")
    epsilon: float = setting(0.05, kind=float, kw_only=True, help="Share of random actions after that.")
    batch: int = setting(64, kind=int, kw_only=True, help="Transitions of a gradient step.")
    train_every: int = setting(4, kind=int, kw_only=True, help="Steps between two gradient steps.")
    copy_every: int = setting(500, kind=int, kw_only=True, help="Steps between two copies to the target network.")
    buffer: int = setting(200_000, kind=int, kw_only=True, help="Transitions that are kept.")
    report: int = setting(200, kind=int, kw_only=True, help="Episodes of a row, at least.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.low is None) != (self.high is None):
            raise InputError(f"low = {self.low}, high = {self.high}: give both or none")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise InputError(f"low = {self.low}: must lie below high = {self.high}")

    def episodes_each(self, horizon: int) -> int:
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

    def init(self, env: Simulator, streams: Streams) -> Deep:
        """A network that was not trained yet."""
        name = "qr-dqn" if self.head == "quantiles" else "c51"
        if find_spec("stable_baselines3") is None or find_spec("sb3_contrib") is None:
            raise InputError(f"{name}: needs stable-baselines3 and sb3-contrib; install tailrank[deep]")
        if self.total is None:
            raise InputError(f"{name}: needs to know how many episodes will be played (total)")
        from tailrank.learning.rivals.observations._qr_torch import Deep
        from tailrank.learning.rivals.observations._simulator_env import FiniteHorizon, SimulatorEnv

        support = self.support(env)
        return Deep(self, FiniteHorizon(SimulatorEnv(env), env.horizon), self.total, streams.seed, support)

    def step(self, state: Deep, env: Simulator, streams: Streams) -> tuple[Deep, PlayedInfo]:
        """At least `report` episodes; the state is changed in place, as its networks are."""
        return state, PlayedInfo.of(state.advance(self.report), self.tau)

    def policy(self, state: Deep, env: Simulator, streams: Streams) -> DistributionalPolicy:
        """The network's choice, without exploration."""
        return state.policy()

    def restored(self, arrays: dict[str, np.ndarray], env: Simulator, streams: Streams) -> Deep:
        """The same state, by playing everything again."""
        state = self.init(env, streams)
        for _ in range(int(arrays["rows"][0])):
            state.advance(self.report)
        return state


@dataclass(frozen=True)
class C51(QrDqn):
    """C51 (Bellemare et al. 2017) that acts for the tail: QR-DQN with probabilities of N numbers."""

    head: Literal["quantiles", "categories"] = fixed("categories")
    quantiles: int = changed(QrDqn, "quantiles", 51)
