"""QR-DQN (Dabney et al. 2018) that acts for the tail, through sb3-contrib.

The network predicts N quantiles of the return from (features, step) on; actions maximise the mean of the lowest
tau N of them (with a fraction of the next one) instead of the mean of all. This is the usual practice, as in IQN
(Dabney et al. 2018b). It is not the CVaR of the whole return: every step looks at the tail of what is left, whatever
was earned before, so its optimum may differ from CVaR*.

Departures from sb3-contrib: exploration is epsilon-greedy for the tail, and so is the action in the target
(`target="same"`; "mean" keeps QR-DQN's own); the step is part of the observation, and nothing is discounted.
Stable-Baselines3 seeds the global generators of Python, NumPy and PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.policy import Policy
from tailrank.protocols import Simulator
from tailrank.rivals_rich.rolling import Callback

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True)
class QrDqn:
    """The settings.

    act: "cvar" or "mean" of the quantiles. hidden: layers of the network. explore: epsilon falls to `epsilon` over
    this fraction of training. train_every: steps between two gradient steps. copy_every: steps between two copies to
    the target network. report: episodes a row.
    """

    tau: float
    act: Literal["cvar", "mean"] = "cvar"
    target: Literal["same", "mean"] = "same"
    quantiles: int = 50
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
        for name in ("quantiles", "batch", "train_every", "copy_every", "buffer", "report"):
            checks.whole(getattr(self, name), name)

    @property
    def weights(self) -> np.ndarray:
        """How much each quantile counts when actions are chosen, lowest first, [quantiles]."""
        return lowest(self.quantiles, self.tau if self.act == "cvar" else 1.0)

    def train(
        self,
        simulator: Simulator | gymnasium.Env[Any, Any],
        episodes: int,
        seed: int,
        callback: Callback | None = None,
        horizon: int | None = None,
    ) -> Policy:
        """The policy after `episodes` episodes, a row every `report` of them.

        simulator: a `Simulator`, or a Gymnasium environment with flat observations (horizon: default its step limit).
        """
        if find_spec("stable_baselines3") is None or find_spec("sb3_contrib") is None:
            raise InputError("qr-dqn: needs stable-baselines3 and sb3-contrib; install tailrank[deep]")
        import gymnasium

        from tailrank.rivals_rich.qr_torch import learn
        from tailrank.rivals_rich.simulator_env import FiniteHorizon, SimulatorEnv

        total = checks.whole(episodes, "episodes")
        if isinstance(simulator, gymnasium.Env):
            steps = horizon if horizon is not None else getattr(simulator.spec, "max_episode_steps", None)
            if steps is None:
                raise InputError("horizon: the environment states no step limit; give one")
            return learn(self, FiniteHorizon(simulator, checks.whole(steps, "horizon")), total, seed, callback)
        if horizon is not None and horizon != simulator.horizon:
            raise InputError(f"horizon = {horizon}: the simulator has {simulator.horizon}; leave it out")
        return learn(self, FiniteHorizon(SimulatorEnv(simulator), simulator.horizon), total, seed, callback)


def lowest(n: int, tau: float) -> np.ndarray:
    """Weights [n] that make the mean of the lowest tau-fraction of n sorted numbers of equal mass.

    >>> lowest(4, 0.375).tolist()
    [0.6666666666666666, 0.3333333333333333, 0.0, 0.0]
    """
    return np.clip(tau * n - np.arange(n), 0.0, 1.0) / (tau * n)
