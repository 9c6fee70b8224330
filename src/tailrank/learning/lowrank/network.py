"""Training of phi: the gradient of the log likelihood in the weights of an `OutcomeNetwork`, and Adam.

    log likelihood of (x, a, x', l) = log sum_k P(k | x, a) psi_k(x') P(l | k, x, a)

With g_k the responsibility of kind k, the gradient in the logits of k is g_k - P(k | x, a), in those of the reward
sum_k g_k (1[l] - P(. | k, x, a)), and in the tilt of k the same without the sum. All heads are computed in one product and
those of the step and action that was played are picked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.policies.outcomes import OutcomeNetwork

Weights = dict[str, np.ndarray]
NAMES = ("hidden", "bias", "heads", "reward_heads", "tilt")


@dataclass(frozen=True)
class Outcomes:
    """Transitions [n]: places z [n, k], column of the head (t A + a), law of the reward l, and log psi_k [n, K]."""

    z: np.ndarray
    head: np.ndarray
    law: np.ndarray
    log_psi: np.ndarray

    def some(self, rows: np.ndarray) -> Outcomes:
        """Those rows."""
        return Outcomes(self.z[rows], self.head[rows], self.law[rows], self.log_psi[rows])


def fresh(k: int, steps: int, A: int, K: int, L: int, width: int, rng: np.random.Generator) -> Weights:
    """Weights before training: random hidden units, flat heads."""
    F = 1 + k + width
    return {
        "hidden": rng.normal(size=(k, width)) / np.sqrt(k),
        "bias": rng.uniform(-1.5, 1.5, size=width),
        "heads": np.zeros((F, steps * A, K)),
        "reward_heads": np.zeros((F, steps * A, L)),
        "tilt": np.zeros((K, L)),
    }


def forward(w: Weights, z: np.ndarray, head: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f [n, F], log P(k) [n, K] and log P(l | k) [n, K, L] of the heads that were played."""
    f = np.concatenate([np.ones((len(z), 1), z.dtype), z, np.tanh(z @ w["hidden"] + w["bias"])], axis=1)
    kinds = _log_softmax(_picked(f, w["heads"], head))
    rewards = _log_softmax(_picked(f, w["reward_heads"], head)[:, None, :] + w["tilt"])
    return f, kinds, rewards


def log_likelihoods(w: Weights, data: Outcomes) -> tuple[np.ndarray, np.ndarray]:
    """Log likelihood [n] of each transition, and responsibilities [n, K]."""
    _, kinds, rewards = forward(w, data.z, data.head)
    return _summed(kinds + data.log_psi + _of_law(rewards, data.law))


def gradient(w: Weights, data: Outcomes) -> tuple[float, Weights]:
    """The mean log likelihood and its gradient."""
    f, kinds, rewards = forward(w, data.z, data.head)
    value, share = _summed(kinds + data.log_psi + _of_law(rewards, data.law))
    n, k = len(value), data.z.shape[1]
    to_kind = (share - np.exp(kinds)) / n
    inside = -np.exp(rewards)
    inside[np.arange(n), :, data.law] += 1.0
    inside *= share[:, :, None] / n
    to_law = inside.sum(axis=1)
    back = _spread(to_kind, w["heads"], data.head) @ _flat(w["heads"]).T
    back += _spread(to_law, w["reward_heads"], data.head) @ _flat(w["reward_heads"]).T
    tanh = f[:, 1 + k :]
    to_hidden = back[:, 1 + k :] * (1.0 - tanh**2)
    return float(value.mean()), {
        "hidden": data.z.T @ to_hidden,
        "bias": to_hidden.sum(axis=0),
        "heads": (f.T @ _spread(to_kind, w["heads"], data.head)).reshape(w["heads"].shape),
        "reward_heads": (f.T @ _spread(to_law, w["reward_heads"], data.head)).reshape(w["reward_heads"].shape),
        "tilt": inside.sum(axis=0),
    }


@dataclass
class Adam:
    """Adam (Kingma and Ba 2015), going up, with decoupled weight decay on all but the biases."""

    decay: float
    moments: dict[str, tuple[np.ndarray, np.ndarray]]
    t: int = 0

    @classmethod
    def of(cls, w: Weights, decay: float) -> Adam:
        """For these weights."""
        return cls(decay, {name: (np.zeros_like(x), np.zeros_like(x)) for name, x in w.items()})

    def step(self, w: Weights, slopes: Weights, rate: float) -> None:
        """One step, in place."""
        self.t += 1
        scale = rate * np.sqrt(1.0 - 0.999**self.t) / (1.0 - 0.9**self.t)
        for name, x in w.items():
            first, second = self.moments[name]
            first += 0.1 * (slopes[name] - first)
            second += 0.001 * (slopes[name] ** 2 - second)
            x += (scale * first / (np.sqrt(second) + 1e-8)).astype(x.dtype)
            if name != "bias":
                x[1 if name in ("heads", "reward_heads") else 0 :] *= 1.0 - rate * self.decay


def network_of(w: Weights, centre: np.ndarray, project: np.ndarray, A: int) -> OutcomeNetwork:
    """The weights as a network that acts."""
    def heads(x: np.ndarray) -> np.ndarray:
        F, columns, K = x.shape
        return np.ascontiguousarray(x.reshape(F, columns // A, A, K).transpose(1, 2, 0, 3), dtype=np.float64)

    hidden, bias, tilt = (np.asarray(w[name], dtype=np.float64) for name in ("hidden", "bias", "tilt"))
    return OutcomeNetwork(centre, project, hidden, bias, heads(w["heads"]), heads(w["reward_heads"]), tilt)


def mean_of(members: list[Weights]) -> Weights:
    """One network whose logits are the mean of those of the members: hidden units side by side."""
    E, k = len(members), len(members[0]["hidden"])

    def heads(name: str) -> np.ndarray:
        linear = sum(w[name][: 1 + k] for w in members)
        return np.concatenate([linear, *(w[name][1 + k :] for w in members)]) / E

    return {
        "hidden": np.concatenate([w["hidden"] for w in members], axis=1),
        "bias": np.concatenate([w["bias"] for w in members]),
        "heads": heads("heads"),
        "reward_heads": heads("reward_heads"),
        "tilt": np.asarray(sum(w["tilt"] for w in members) / E),
    }


def _flat(heads: np.ndarray) -> np.ndarray:
    return heads.reshape(len(heads), -1)


def _picked(f: np.ndarray, heads: np.ndarray, head: np.ndarray) -> np.ndarray:
    every = (f @ _flat(heads)).reshape(len(f), *heads.shape[1:])
    return every[np.arange(len(f)), head]


def _spread(slope: np.ndarray, heads: np.ndarray, head: np.ndarray) -> np.ndarray:
    """The slope [n, K] at the place of its head, [n, heads x K]."""
    result = np.zeros((len(slope), *heads.shape[1:]), dtype=slope.dtype)
    result[np.arange(len(slope)), head] = slope
    return result.reshape(len(slope), -1)


def _of_law(rewards: np.ndarray, law: np.ndarray) -> np.ndarray:
    return rewards[np.arange(len(law)), :, law]


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True)))


def _summed(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    top = joint.max(axis=1, keepdims=True)
    odds = np.exp(joint - top)
    total = odds.sum(axis=1, keepdims=True)
    return (np.log(total) + top)[:, 0], odds / total
