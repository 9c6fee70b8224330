"""An update of proximal policy optimisation (Schulman et al. 2017) in the MDP whose state has a budget.

With b_h = b - (r_0 + ... + r_{h-1}) what is still missing to the target b, a step is worth

    u_h = kappa r_h + (1 - kappa) / tau (b_h^+ - b_{h+1}^+)

whose sum over an episode is kappa R - (1 - kappa) (b - R)^+ / tau and a constant: with b the tau-quantile of the
return R this is kappa E R + (1 - kappa) CVaR_tau(R). A network that sees b_h can learn it from single steps, as the
planner of the paper does from a model; no episode is thrown away for being above the quantile. kappa falls as training
goes on: in the tail alone all policies that know little look the same (Greenberg et al. 2022).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailrank.learning.dense import flat_weights, layer_views, orthogonal_layers, tanh_gradient, tanh_outputs
from tailrank.learning.rivals.ascent import Adam
from tailrank.policies.softmax import softmax

NEAR = 0.2
"""The gradient of a step vanishes where its probability has changed by more than this share."""
TRACE = 0.97
"""How far advantages trust the rewards that were paid, not the critic, at every step (generalised advantages)."""
EPOCHS, BATCH = 10, 64
"""How often a step is learned from, and steps of a gradient."""
LONGEST = 0.5
"""The longest gradient."""
ENTROPY = 0.002
"""Weight of the entropy of the actions."""


@dataclass(frozen=True)
class TanhTraining:
    """A tanh network of these sizes: weights [1, P] (float32), and Adam."""

    sizes: tuple[int, ...]
    weights: np.ndarray
    adam: Adam

    @classmethod
    def begun(cls, sizes: tuple[int, ...], last: float, rng: np.random.Generator) -> TanhTraining:
        """A random network; last: the gain of its last layer."""
        return cls(sizes, flat_weights(orthogonal_layers(sizes, last, rng)), Adam(0.0))

    def copy(self, rate: float) -> TanhTraining:
        """The same with arrays of its own, for steps of this rate."""
        adam = self.adam.copy()
        adam.rate = rate
        return replace(self, weights=self.weights.copy(), adam=adam)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """[n, k'] for x [n, k]."""
        return tanh_outputs(layer_views(self.weights, self.sizes), x)[-1]


@dataclass(frozen=True)
class PracticeSteps:
    """T steps of whole episodes: what the networks see, z [T, m + 2], actions [T], what the steps are worth, u [T], and
    the last step of each episode [n]."""

    z: np.ndarray
    actions: np.ndarray
    worth: np.ndarray
    last: np.ndarray

    def advantages(self, values: np.ndarray) -> np.ndarray:
        """How much better than the critic's values [T] what followed each step was, [T]."""
        after = np.append(values[1:], 0.0)
        after[self.last] = 0.0
        wrong = self.worth + after - values
        carry = np.full(wrong.size, TRACE)
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
    actor: TanhTraining, critic: TanhTraining, steps: PracticeSteps, rate: float, rng: np.random.Generator
) -> tuple[TanhTraining, TanhTraining]:
    """Actor and critic after `EPOCHS` passes through the steps."""
    actor, critic = actor.copy(rate), critic.copy(rate)
    values = critic.outputs(steps.z)[:, 0].astype(np.float64)
    advantage = steps.advantages(values)
    aim, T = (advantage + values).astype(np.float32), steps.actions.size
    before = _log_softmax(actor.outputs(steps.z))[np.arange(T), steps.actions]
    slopes = [np.zeros_like(one.weights) for one in (actor, critic)]
    for _ in range(EPOCHS):
        for rows in np.array_split(rng.permutation(T), max(T // BATCH, 1)):
            mine = advantage[rows]
            mine = ((mine - mine.mean()) / (mine.std() + 1e-8)).astype(np.float32)
            actor_gradient(actor, slopes[0], steps.z[rows], steps.actions[rows], mine, before[rows])
            critic_gradient(critic, slopes[1], steps.z[rows], aim[rows])
            for one, slope in zip((actor, critic), slopes, strict=True):
                size = float(np.sqrt((slope**2).sum()))
                one.adam.climb([one.weights], [slope * np.float32(min(1.0, LONGEST / (size + 1e-6)))])
    return actor, critic


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
