"""Training of phi: the gradient of the log likelihood in the weights of an `OutcomeNetwork`, and Adam.

    log likelihood of (x, a, x', l) = log sum_k P(k | x, a) psi_k(x') P(l | k, x, a)

With g_k the responsibility of kind k, the gradient in the logits of k is g_k - P(k | x, a), in those of the reward
sum_k g_k (1[l] - P(. | k, x, a)), and in the tilt of k the same without the sum. Only the head of the step and action
that was played is computed: there may be hundreds. Units that are not those of a network stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.policies.outcomes import OutcomeNetwork
from tailrank.policies.units import KERNEL, NETWORK, seen

Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Outcomes:
    """Transitions [n]: places z [n, k], column of the head (t A + a), law of the reward l, and log psi_k [n, K]."""

    z: np.ndarray
    head: np.ndarray
    law: np.ndarray
    log_psi: np.ndarray

    def some(self, rows: np.ndarray | slice) -> Outcomes:
        """Those rows."""
        return Outcomes(self.z[rows], self.head[rows], self.law[rows], self.log_psi[rows])


def fresh(steps: int, A: int, K: int, L: int, units: Weights) -> Weights:
    """Weights before training: hidden units as they were made (`units.py`), flat heads."""
    k, width = units["hidden"].shape
    F = 1 + k + width
    return units | {
        "heads": np.zeros((F, steps * A, K)),
        "reward_heads": np.zeros((F, steps * A, L)),
        "tilt": np.zeros((K, L)),
    }


def log_likelihoods(w: Weights, data: Outcomes) -> tuple[np.ndarray, np.ndarray]:
    """Log likelihood [n] of each transition, and responsibilities [n, K]."""
    return _slopes(w, _inner(w, data.z), data, {})


def gradient(w: Weights, data: Outcomes) -> tuple[float, Weights]:
    """The mean log likelihood and its gradient in what is trained."""
    f, (n, k) = _inner(w, data.z), data.z.shape
    trained = w["units"][0] == NETWORK
    width = w["hidden"].shape[1] if trained else 0
    slopes = {"tilt": np.zeros(w["tilt"].shape, f.dtype), "inner": np.zeros((n, width), f.dtype)}
    value, _ = _slopes(w, f, data, slopes)
    back = slopes.pop("inner")
    if trained:
        back *= 1.0 - f[:, 1 + k :] ** 2
        slopes |= {"hidden": data.z.T @ back, "bias": back.sum(axis=0)}
    return float(value.mean()), {name: x / n for name, x in slopes.items()}


def _inner(w: Weights, z: np.ndarray) -> np.ndarray:
    """f [n, F]."""
    units = seen(w["units"], z, w["hidden"], w["bias"])
    return np.concatenate([np.ones((len(z), 1), z.dtype), z, units.astype(z.dtype, copy=False)], axis=1)


def _slopes(w: Weights, f: np.ndarray, data: Outcomes, slopes: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Value [n] and responsibilities [n, K] at features f [n, F]; slopes, by name, are written into `slopes` if any."""
    from tailrank.learning.lowrank import _kernels

    heads, rewards, tilt = (np.asarray(w[name], dtype=f.dtype) for name in ("heads", "reward_heads", "tilt"))
    value, share, none = np.empty(len(f)), np.empty((len(f), heads.shape[2])), np.zeros((0, 0), f.dtype)
    first, second = (np.ascontiguousarray(x.transpose(1, 0, 2)) for x in (heads, rewards))  # a head in one piece
    to_first, to_second = (np.zeros_like(x) if slopes else x[:0] for x in (first, second))
    to_tilt, to_f = slopes.get("tilt", none), slopes.get("inner", none)
    log_psi = np.asarray(data.log_psi, dtype=f.dtype)
    _kernels.slopes(
        f, first, second, tilt, log_psi, data.head, data.law, value, share, to_first, to_second, to_tilt, to_f
    )
    if slopes:
        slopes["heads"], slopes["reward_heads"] = to_first.transpose(1, 0, 2), to_second.transpose(1, 0, 2)
    return value, share


@dataclass
class DecayedAdam:
    """Adam (Kingma and Ba 2015), going up, with decoupled weight decay on all but the biases."""

    decay: float
    moments: dict[str, tuple[np.ndarray, np.ndarray]]
    t: int = 0

    @classmethod
    def of(cls, w: Weights, decay: float) -> DecayedAdam:
        """For these weights."""
        return cls(decay, {name: (np.zeros_like(x), np.zeros_like(x)) for name, x in w.items()})

    def step(self, w: Weights, slopes: Weights, rate: float) -> None:
        """One step, in place."""
        self.t += 1
        scale = rate * np.sqrt(1.0 - 0.999**self.t) / (1.0 - 0.9**self.t)
        for name, slope in slopes.items():
            x, (first, second) = w[name], self.moments[name]
            first += 0.1 * (slope - first)
            second += 0.001 * (slope**2 - second)
            x += (scale * first / (np.sqrt(second) + 1e-8)).astype(x.dtype)
            if name != "bias":
                x[1 if name in ("heads", "reward_heads") else 0 :] *= 1.0 - rate * self.decay


def network_of(w: Weights, centre: np.ndarray, project: np.ndarray, A: int) -> OutcomeNetwork:
    """The weights as a network that acts."""

    def heads(x: np.ndarray) -> np.ndarray:
        F, columns, K = x.shape
        return np.ascontiguousarray(x.reshape(F, columns // A, A, K).transpose(1, 2, 0, 3), dtype=np.float64)

    hidden, bias, tilt, units = (np.asarray(w[name], dtype=np.float64) for name in ("hidden", "bias", "tilt", "units"))
    return OutcomeNetwork(centre, project, hidden, bias, heads(w["heads"]), heads(w["reward_heads"]), tilt, units)


def weights_of(net: OutcomeNetwork) -> Weights:
    """The weights of a network that acts."""

    def heads(x: np.ndarray) -> np.ndarray:
        return x.transpose(2, 0, 1, 3).reshape(x.shape[2], -1, x.shape[3])

    found = {"hidden": net.hidden, "bias": net.bias, "heads": heads(net.heads)}
    found |= {"reward_heads": heads(net.reward_heads), "tilt": net.tilt, "units": net.units}
    return {name: np.array(x, dtype=np.float32, order="C") for name, x in found.items()}


def mean_of(members: list[Weights]) -> Weights:
    """One network whose logits are the mean of those of the members: hidden units side by side.

    Kernels are normalised together, so members must have the same ones, and their heads are averaged.
    """
    E, k = len(members), len(members[0]["hidden"])
    if members[0]["units"][0] == KERNEL:
        return members[0] | {n: np.asarray(sum(w[n] for w in members) / E) for n in ("heads", "reward_heads", "tilt")}

    def heads(name: str) -> np.ndarray:
        linear = sum(w[name][: 1 + k] for w in members)
        return np.concatenate([linear, *(w[name][1 + k :] for w in members)]) / E

    return {
        "hidden": np.concatenate([w["hidden"] for w in members], axis=1),
        "bias": np.concatenate([w["bias"] for w in members]),
        "heads": heads("heads"),
        "reward_heads": heads("reward_heads"),
        "tilt": np.asarray(sum(w["tilt"] for w in members) / E),
        "units": members[0]["units"],
    }
