"""An update of proximal policy optimisation (Schulman et al. 2017) in the MDP whose state has a budget.

With b_h = b - (r_0 + ... + r_{h-1}) what is still missing to the target b, a step is worth

    u_h = kappa r_h + (1 - kappa) / tau (b_h^+ - b_{h+1}^+)

whose sum over an episode is kappa R - (1 - kappa) (b - R)^+ / tau and a constant: with b the tau-quantile of the
return R this is kappa E R + (1 - kappa) CVaR_tau(R). A network that sees b_h can learn it from single steps, as the
planner of the paper does from a model; no episode is thrown away for being above the quantile. kappa falls as training
goes on: in the tail alone all policies that know little look the same (Greenberg et al. 2022).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.learning.dense import layer_views, tanh_gradient, tanh_outputs
from tailrank.learning.gradient.networks import Critic, TanhTraining
from tailrank.policies.softmax import softmax

NEAR = 0.2
"""The gradient of a step vanishes where its probability has changed by more than this share."""
TRACE = 0.97
"""How far advantages trust the rewards that were paid, not the critic, at every step (generalised advantages)."""
EPOCHS, BATCH = 10, 256
"""How often an update goes through its steps, and steps of a gradient."""
MOST = 2.0
"""An older step counts at most so many times as much as a new one."""
LONGEST = 0.5
"""The longest gradient."""
ENTROPY = 0.002
"""Weight of the entropy of the actions."""


@dataclass(frozen=True)
class PracticeSteps:
    """T steps of whole episodes: what the networks see, z [T, m + 2], actions [T], what the steps are worth, u [T], the
    last step of each episode [n], and the log-probabilities of the actions when they were played, chances [T]."""

    z: np.ndarray
    actions: np.ndarray
    worth: np.ndarray
    last: np.ndarray
    chances: np.ndarray

    def advantages(self, values: np.ndarray, likelier: np.ndarray) -> np.ndarray:
        """How much better than the critic's values [T] what followed each step was, [T].

        likelier [T]: how many times likelier an action is now than when it was played. What followed an action that
        would hardly be played now counts less.
        """
        after = np.append(values[1:], 0.0)
        after[self.last] = 0.0
        wrong = self.worth + after - values
        carry = TRACE * np.append(np.minimum(likelier[1:], 1.0), 0.0)
        carry[self.last] = 0.0
        found, now = np.empty(wrong.size), 0.0
        for t in range(wrong.size - 1, -1, -1):
            now = wrong[t] + carry[t] * now
            found[t] = now
        return found


def step_worths(
    rewards: np.ndarray, lengths: np.ndarray, budget: float, tau: float, kappa: float
) -> tuple[np.ndarray, np.ndarray]:
    """Budgets [T] before each step of episodes with these lengths [n], and what the steps are worth [T].

    >>> budgets, worths = step_worths(np.array([1.0, 3.0, -1.0]), np.array([2, 1]), 2.0, 0.5, 0.0)
    >>> budgets.tolist(), worths.tolist()
    ([2.0, 1.0, 2.0], [2.0, 2.0, -2.0])
    """
    total, begin = np.cumsum(rewards), np.cumsum(lengths) - lengths
    before = total - rewards - np.repeat(total[begin] - rewards[begin], lengths)
    budgets = budget - before
    missing = np.maximum(budgets, 0.0) - np.maximum(budgets - rewards, 0.0)
    return budgets, kappa * rewards + (1.0 - kappa) / tau * missing


def practise(
    actor: TanhTraining, critic: Critic, steps: PracticeSteps, rate: float, rng: np.random.Generator
) -> tuple[TanhTraining, Critic]:
    """Actor and critic after `EPOCHS` passes through the steps.

    An older step counts as much as its action has become likelier since it was played, and its probability may move as
    far from what it is now as that of a new one (Queeney et al. 2021).
    """
    actor, values = actor.copy(rate), critic.values(steps.z)
    before = chances_of(actor, steps.z, steps.actions)
    likelier = np.exp(np.minimum(before - steps.chances, np.log(MOST)))
    advantage, T = steps.advantages(values, likelier), steps.actions.size
    critic = critic.about(advantage + values, rate)
    aim = ((advantage + values - critic.centre) / critic.scale).astype(np.float32)
    both = (actor, critic.training)
    slopes = [np.zeros_like(one.weights) for one in both]
    for _ in range(EPOCHS):
        for rows in np.array_split(rng.permutation(T), max(T // BATCH, 1)):
            mine = advantage[rows]
            mine = (likelier[rows] * (mine - mine.mean()) / (mine.std() + 1e-8 * critic.scale)).astype(np.float32)
            actor_gradient(actor, slopes[0], steps.z[rows], steps.actions[rows], mine, before[rows])
            critic_gradient(critic.training, slopes[1], steps.z[rows], aim[rows])
            for one, slope in zip(both, slopes, strict=True):
                size = float(np.sqrt((slope**2).sum()))
                one.adam.climb([one.weights], [slope * np.float32(min(1.0, LONGEST / (size + 1e-6)))])
    return actor, critic


def chances_of(actor: TanhTraining, z: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Log-probabilities [T] of actions [T] at z [T, m + 2]."""
    return _log_softmax(actor.outputs(z))[np.arange(actions.size), actions]


def actor_gradient(
    actor: TanhTraining, slope: np.ndarray, z: np.ndarray, actions: np.ndarray, worth: np.ndarray, before: np.ndarray
) -> None:
    """Fill slope [1, P]: the gradient, upwards, of the mean over n steps of min(q w, clip(q) w) + ENTROPY times the
    entropy, with q = pi(a | z) / exp(before) and w = worth [n]."""
    layers, rows = layer_views(actor.weights, actor.sizes), np.arange(actions.size)
    seen = tanh_outputs(layers, z)
    p, log = softmax(seen[-1]), _log_softmax(seen[-1])
    ratio = np.exp(log[rows, actions] - before)
    free = np.where(worth > 0, ratio <= 1.0 + NEAR, ratio >= 1.0 - NEAR)
    weight = np.where(free, ratio * worth, 0.0) / actions.size
    wrong = -weight[:, None] * p
    wrong[rows, actions] += weight
    wrong -= (ENTROPY / actions.size) * p * (log - (p * log).sum(axis=1, keepdims=True))
    tanh_gradient(layers, layer_views(slope, actor.sizes), seen, wrong.astype(np.float32))


def critic_gradient(critic: TanhTraining, slope: np.ndarray, z: np.ndarray, aim: np.ndarray) -> None:
    """Fill slope [1, P]: the gradient, upwards, of minus half the mean squared error of values for aim [n]."""
    layers = layer_views(critic.weights, critic.sizes)
    seen = tanh_outputs(layers, z)
    wrong = (aim - seen[-1][:, 0])[:, None] / np.float32(aim.size)
    tanh_gradient(layers, layer_views(slope, critic.sizes), seen, wrong)


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    less = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(less - np.log(np.exp(less).sum(axis=1, keepdims=True)))
