"""The part of QR-DQN and C51 that needs PyTorch: networks that act for the tail, and training. Imported on use only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sb3_contrib import QRDQN
from sb3_contrib.common.utils import quantile_huber_loss
from sb3_contrib.qrdqn.policies import QRDQNPolicy, QuantileNetwork
from stable_baselines3.common.callbacks import BaseCallback

from tailrank.learning.rivals.observations._simulator_env import FiniteHorizon
from tailrank.policies.distributional import DistributionalPolicy
from tailrank.risk.law import tail_weights

if TYPE_CHECKING:
    from tailrank.learning.rivals.observations.qr_dqn import QrDqn


class TailNetwork(QuantileNetwork):
    """A network of N numbers an action, quantiles or logits on a support, that acts by the tail of their law."""

    def __init__(self, *arguments: Any, tau: float, support: tuple[float, ...], **settings: Any):
        super().__init__(*arguments, **settings)
        self.tau = tau
        self.support = torch.tensor(support, dtype=torch.float32)
        self.weights = torch.tensor(tail_weights(self.n_quantiles, tau), dtype=torch.float32)

    def worth(self, found: torch.Tensor) -> torch.Tensor:
        """The mean of the lowest tau of the laws found [n, N, A], [n, A]; quantiles may cross, so they are sorted."""
        if not self.support.numel():
            return (found.sort(dim=1).values * self.weights[:, None]).sum(dim=1)
        p = found.softmax(dim=1)
        taken = torch.minimum((self.tau - (p.cumsum(dim=1) - p)).clamp(min=0.0), p)
        return (taken * self.support[:, None]).sum(dim=1) / taken.sum(dim=1)

    def _predict(self, observation: torch.Tensor, deterministic: bool = True) -> torch.Tensor:
        return self.worth(self(observation)).argmax(dim=1).reshape(-1)


class TailPolicy(QRDQNPolicy):
    """QR-DQN's policy with such networks."""

    def __init__(self, *arguments: Any, tau: float, support: tuple[float, ...], **settings: Any):
        self.tail: dict[str, Any] = {"tau": tau, "support": support}  # the networks are made while the rest is set up
        super().__init__(*arguments, **settings)

    def make_quantile_net(self) -> TailNetwork:
        """The network, with its tail."""
        net_args = self._update_features_extractor(self.net_args, features_extractor=None)
        return TailNetwork(**net_args, **self.tail).to(self.device)


class TailQRDQN(QRDQN):
    """QR-DQN whose target plays the action that is best for the tail (or for the mean: `by_mean`)."""

    by_mean = False

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Gradient steps on the loss of what the target says about the next state's best action."""
        self.policy.set_training_mode(True)
        for _ in range(gradient_steps):
            data = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            with torch.no_grad():
                after = self.quantile_net_target(data.next_observations)
                action = self._worth(after).argmax(dim=1)[:, None, None]
                after = after.gather(2, action.expand(-1, self.n_quantiles, 1)).squeeze(2)
            taken = data.actions[..., None].long().expand(-1, self.n_quantiles, 1)
            now = self.quantile_net(data.observations).gather(2, taken).squeeze(2)
            loss = self._loss(now, after, data.rewards, (1 - data.dones) * self.gamma)
            self.policy.optimizer.zero_grad()
            loss.backward()
            if self.max_grad_norm is not None:
                torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
        self._n_updates += gradient_steps

    def _worth(self, found: torch.Tensor) -> torch.Tensor:
        support = self.quantile_net_target.support
        if not self.by_mean:
            return self.quantile_net_target.worth(found)
        return (found.softmax(dim=1) * support[:, None]).sum(dim=1) if support.numel() else found.mean(dim=1)

    def _loss(self, now: torch.Tensor, after: torch.Tensor, reward: torch.Tensor, left: torch.Tensor) -> torch.Tensor:
        """Of now [n, N] where reward [n, 1] and `left` [n, 1] times after [n, N] is what follows."""
        support = self.quantile_net_target.support
        if not support.numel():
            return quantile_huber_loss(now, reward + left * after, sum_over_quantiles=True)
        aim = projected(after.softmax(dim=1), reward + left * support, support)
        return -(aim * now.log_softmax(dim=1)).sum(dim=1).mean()


def projected(p: torch.Tensor, values: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
    """The law p [n, N] of values [n, N] on the support [N]: each value's mass goes to its two neighbours."""
    width = support[1] - support[0]
    near = 1.0 - (values.clamp(support[0], support[-1])[:, None, :] - support[:, None]).abs() / width
    return (near.clamp(min=0.0) * p[:, None, :]).sum(dim=2)


class Counter(BaseCallback):
    """Keeps the returns of the episodes, and stops when there are enough of them."""

    def __init__(self, episodes: int, steps: int):
        super().__init__()
        self.episodes, self.total = episodes, steps
        self.returns: list[float] = []

    def _on_training_start(self) -> None:
        # Exploration falls over the whole training, not over the part that is asked for now.
        self.model._total_timesteps = self.total

    def _on_step(self) -> bool:
        self.returns += [float(info["episode"]["r"]) for info in self.locals["infos"] if "episode" in info]
        return len(self.returns) < self.episodes


class Deep:
    """Where the training stands."""

    def __init__(self, settings: QrDqn, env: FiniteHorizon, episodes: int, seed: int, support: np.ndarray):
        self.settings, self.env, self.support, self.rows, self.played = settings, env, support, 0, 0
        self.counter = Counter(episodes, episodes * env.horizon)
        tail = {"tau": settings.level, "support": tuple(support.tolist())}
        self.model = TailQRDQN(
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
            policy_kwargs={"n_quantiles": settings.quantiles, "net_arch": list(settings.hidden), **tail},
            seed=seed,
            device="cpu",
        )
        self.model.by_mean = settings.target == "mean"

    @property
    def k(self) -> int:
        """How often it was asked to advance."""
        return self.rows

    @property
    def episodes(self) -> int:
        """Episodes played."""
        return self.played

    @property
    def steps(self) -> int:
        """Steps played."""
        return int(self.model.num_timesteps)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """How often it was asked to advance."""
        return {"rows": np.array([self.rows]), "job.k": np.array([self.rows])}

    def advance(self, episodes: int) -> np.ndarray:
        """Train for this many more episodes, or a few more, or until all were played; their returns [n]."""
        returns, threads = self.counter.returns, torch.get_num_threads()
        wanted = min(self.played + episodes, self.counter.episodes)
        torch.set_num_threads(1)  # networks this small only wait for each other on several
        try:
            # A callback that stops between two calls would lose a transition, so it stops only in the end.
            while len(returns) < wanted:
                steps = max(self.settings.train_every, self.env.horizon)
                self.model.learn(steps, callback=self.counter, reset_num_timesteps=self.model.num_timesteps == 0)
        finally:
            torch.set_num_threads(threads)
        last = np.array(returns[self.played :])
        self.rows, self.played = self.rows + 1, len(returns)
        return last

    def policy(self) -> DistributionalPolicy:
        """The network's choice at each step, in NumPy."""
        network = self.model.policy.quantile_net.quantile_net
        linear = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
        layers = tuple((x.weight.detach().numpy().T.copy(), x.bias.detach().numpy().copy()) for x in linear)
        actions = int(self.model.action_space.n)
        return DistributionalPolicy(layers, self.support, self.settings.level, actions, self.env.horizon)
