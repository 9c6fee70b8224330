"""The parts that gradients of the CVaR share, whatever the policy: weights of episodes, a tracked quantile, Adam.

    grad CVaR_tau = -(1 / tau) E[ (v - R)^+ grad log P(episode) ],   v the tau-quantile of the return R

Everything that a run must store is in arrays (`to_arrays`), so that it can go on to the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tailrank.checks import InputError
from tailrank.risk.law import var


def tail_weights(
    returns: np.ndarray, tau: float, quantile: float | None = None, variance_reduction: bool = False
) -> np.ndarray:
    """-(v - R)^+ / tau of returns [n], [n]; v is `quantile`, by default the returns' own.

    variance_reduction: the mean weight of the other episodes is taken off each, which leaves the expected gradient.
    """
    v = var(returns, tau) if quantile is None else quantile
    weights = -np.maximum(v - returns, 0.0) / tau
    n = weights.size
    return (weights - weights.mean()) * (n / (n - 1)) if variance_reduction and n > 1 else weights


def soft_level(tau: float, done: float) -> float:
    """The level in use when the fraction `done` of a soft start is over: from 1 down to tau on a line, then tau.

    This is the soft risk of CeSoR (Greenberg et al. 2022).
    """
    return max(tau, 1.0 - (1.0 - tau) * done)


@dataclass
class Tracker:
    """The quantile v by stochastic approximation: v += step_k (tau - share of returns at most v)."""

    rate: float
    value: float | None = None
    low: float = np.inf
    high: float = -np.inf
    steps: int = 0

    def move(self, returns: np.ndarray, tau: float) -> float:
        """v before it is told of these returns [n] (of the first ones: their quantile), then moved.

        Steps fall as k^-0.55 and are in ranges of the returns seen.
        """
        self.low, self.high = min(self.low, float(returns.min())), max(self.high, float(returns.max()))
        before = var(returns, tau) if self.value is None else self.value
        self.steps += 1
        step = self.rate * (self.high - self.low) * self.steps**-0.55
        moved = before + step * (tau - float((returns <= before).mean()))
        self.value = float(np.clip(moved, self.low, self.high))
        return before

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        value = np.nan if self.value is None else self.value
        return {"tracked": np.array([value, self.low, self.high, float(self.steps)])}

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> Tracker:
        """The tracker in a checkpoint, given one of the same rate."""
        value, low, high, steps = (float(x) for x in arrays["tracked"])
        return Tracker(self.rate, None if np.isnan(value) else value, low, high, int(steps))


@dataclass
class Adam:
    """Adam (Kingma and Ba 2015), upwards."""

    rate: float
    memory: tuple[float, float] = (0.9, 0.999)
    moments: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    steps: int = 0

    def climb(self, weights: list[np.ndarray], gradient: list[np.ndarray]) -> None:
        """Move `weights` in place along `gradient`."""
        if not self.moments:
            self.moments = [(np.zeros_like(w), np.zeros_like(w)) for w in weights]
        for w, (m, v) in zip(weights, self.moments, strict=True):
            if not m.shape == v.shape == w.shape or not m.dtype == v.dtype == w.dtype:
                raise InputError(f"adam: has moments of shape {m.shape} and {v.shape} for weights of shape {w.shape}")
        self.steps += 1
        first, second = (1.0 - b**self.steps for b in self.memory)
        for w, g, (m, v) in zip(weights, gradient, self.moments, strict=True):
            m += (1.0 - self.memory[0]) * (g - m)
            v += (1.0 - self.memory[1]) * (g**2 - v)
            w += self.rate * (m / first) / (np.sqrt(v / second) + 1e-8)

    def copy(self) -> Adam:
        """The same with arrays of its own."""
        return Adam(self.rate, self.memory, [(m.copy(), v.copy()) for m, v in self.moments], self.steps)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        arrays = {"adam.steps": np.array([self.steps])}
        for i, (m, v) in enumerate(self.moments):
            arrays |= {f"adam.{i}.first": m, f"adam.{i}.second": v}
        return arrays

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> Adam:
        """The optimiser in a checkpoint, with arrays of its own, given one of the same settings."""
        count = sum(key.startswith("adam.") and key.endswith(".first") for key in arrays)
        if not all(np.isfinite(x).all() for key, x in arrays.items() if key.startswith("adam.")):
            raise InputError("adam: must be finite")
        moments = [(arrays[f"adam.{i}.first"].copy(), arrays[f"adam.{i}.second"].copy()) for i in range(count)]
        return Adam(self.rate, self.memory, moments, int(arrays["adam.steps"][0]))
