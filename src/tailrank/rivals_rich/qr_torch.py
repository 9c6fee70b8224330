"""The part of QR-DQN that needs PyTorch: networks that act for the tail, and training. Imported on use only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sb3_contrib import QRDQN
from sb3_contrib.common.utils import quantile_huber_loss
from sb3_contrib.qrdqn.policies import QRDQNPolicy, QuantileNetwork
from stable_baselines3.common.callbacks import BaseCallback

from tailrank.risk import cvar
from tailrank.rivals_rich.rolling import Callback
from tailrank.rivals_rich.simulator_env import FiniteHorizon, with_step

if TYPE_CHECKING:
    from tailrank.rivals_rich.qr_dqn import QrDqn


class TailNetwork(QuantileNetwork):
    """A quantile network that acts by a weighted mean of its quantiles, lowest first."""

    def __init__(self, *arguments: Any, weights: tuple[float, ...], **settings: Any):
        super().__init__(*arguments, **settings)
        self.weights = torch.tensor(weights, dtype=torch.float32)

    def worth(self, quantiles: torch.Tensor) -> torch.Tensor:
        """The weighted mean of quantiles [n, N, A], [n, A]; they may cross, so they are sorted first."""
        return (quantiles.sort(dim=1).values * self.weights[:, None]).sum(dim=1)

    def _predict(self, observation: torch.Tensor, deterministic: bool = True) -> torch.Tensor:
        return self.worth(self(observation)).argmax(dim=1).reshape(-1)


class TailPolicy(QRDQNPolicy):
    """QR-DQN's policy with such networks."""

    def __init__(self, *arguments: Any, weights: tuple[float, ...], **settings: Any):
        self.weights = weights  # the networks are made while the rest is set up
        super().__init__(*arguments, **settings)

    def make_quantile_net(self) -> TailNetwork:
        """The network, with the weights."""
        net_args = self._update_features_extractor(self.net_args, features_extractor=None)
        return TailNetwork(**net_args, weights=self.weights).to(self.device)


class TailQRDQN(QRDQN):
    """QR-DQN whose target plays the action that is best for the tail."""

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Gradient steps on the quantile Huber loss."""
        self.policy.set_training_mode(True)
        for _ in range(gradient_steps):
            data = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            with torch.no_grad():
                after = self.quantile_net_target(data.next_observations)
                action = self.quantile_net_target.worth(after).argmax(dim=1)[:, None, None]
                after = after.gather(2, action.expand(-1, self.n_quantiles, 1)).squeeze(2)
                goal = data.rewards + (1 - data.dones) * self.gamma * after
            taken = data.actions[..., None].long().expand(-1, self.n_quantiles, 1)
            now = self.quantile_net(data.observations).gather(2, taken).squeeze(2)
            loss = quantile_huber_loss(now, goal, sum_over_quantiles=True)
            self.policy.optimizer.zero_grad()
            loss.backward()
            if self.max_grad_norm is not None:
                torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
        self._n_updates += gradient_steps


@dataclass(frozen=True)
class QuantilePolicy:
    """A `Policy` on features: the network's choice at each step, without exploration."""

    network: TailNetwork
    horizon: int

    def start(self, n: int) -> np.ndarray:
        """Nothing to remember: zeros [n]."""
        return np.zeros(n, dtype=np.int64)

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] for features [n, m]."""
        with torch.no_grad():
            chosen = self.network._predict(torch.as_tensor(with_step(states, h, self.horizon)))
        return np.asarray(chosen.numpy(), dtype=np.int64)

    def update(
        self, h: int, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray,
        next_states: np.ndarray, memory: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Still nothing."""
        return memory


class Counter(BaseCallback):
    """Stops after a number of episodes and tells of every `report` of them."""

    def __init__(self, settings: QrDqn, episodes: int, callback: Callback | None, horizon: int):
        super().__init__()
        self.settings, self.episodes, self.tell, self.horizon = settings, episodes, callback, horizon
        self.returns: list[float] = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.returns.append(float(info["episode"]["r"]))
                n = len(self.returns)
                if self.tell is not None and (n % self.settings.report == 0 or n == self.episodes):
                    since = (n - 1) // self.settings.report * self.settings.report
                    last = np.array(self.returns[since:])
                    row = {"episodes": n, "cvar": cvar(last, self.settings.tau), "mean": float(last.mean())}
                    self.tell(row, QuantilePolicy(self.model.policy.quantile_net, self.horizon))
        return len(self.returns) < self.episodes


def learn(settings: QrDqn, env: FiniteHorizon, episodes: int, seed: int, callback: Callback | None) -> QuantilePolicy:
    """Train for `episodes` episodes."""
    algorithm = TailQRDQN if settings.target == "same" else QRDQN
    model = algorithm(
        TailPolicy,
        env,
        learning_rate=settings.rate,
        buffer_size=settings.buffer,
        learning_starts=10 * settings.batch,
        batch_size=settings.batch,
        gamma=1.0,
        train_freq=settings.train_every,
        target_update_interval=settings.copy_every,
        exploration_fraction=settings.explore,
        exploration_final_eps=settings.epsilon,
        policy_kwargs={
            "n_quantiles": settings.quantiles,
            "net_arch": list(settings.hidden),
            "weights": tuple(settings.weights.tolist()),
        },
        seed=seed,
        device="cpu",
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # networks this small only wait for each other on several
    try:
        model.learn(episodes * env.horizon, callback=Counter(settings, episodes, callback, env.horizon))
    finally:
        torch.set_num_threads(threads)
    model.policy.set_training_mode(False)
    return QuantilePolicy(model.policy.quantile_net, env.horizon)
