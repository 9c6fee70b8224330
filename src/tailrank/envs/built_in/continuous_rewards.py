"""Rewards with a density on [0, 1]: `beta`, `uniform` (on an interval), `normal` (truncated), by their partial moments.

    F(x) = P(X <= x),    M1(x) = E[X; X <= x],    M2(x) = E[X^2; X <= x]       in closed form

A learner sees such rewards rounded up to a grid. What its plans really earn is bounded through the *moments* MDP: in
every cell of the grid the reward has two values, with the probability, mean and variance of the real one. The bounds
of `planning/exact/return_law.py` need nothing else, so they hold for the real rewards as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from tailrank.envs.built_in.episodic import product_of_laws
from tailrank.models.lowrank import StepModel
from tailrank.models.mdp import FiniteMDP
from tailrank.models.rewards import RewardLaw

KINDS = ("beta", "uniform", "normal")
NOTHING = 1e-14
"""Cells less likely than this keep no moments: their reward is the end of the cell."""


@dataclass(frozen=True, eq=False)
class ContinuousRewards:
    """Laws of one kind with the parameters first, second [L]; which [H, S, A] is the law of each pair."""

    kind: str
    first: np.ndarray
    second: np.ndarray
    which: np.ndarray

    @classmethod
    def random(cls, kind: str, n_laws: int, which: np.ndarray, rng: np.random.Generator) -> ContinuousRewards:
        """Random laws."""
        if kind == "beta":
            return cls(kind, rng.uniform(0.5, 4.0, n_laws), rng.uniform(0.5, 4.0, n_laws), which)
        if kind == "uniform":
            ends = np.sort(rng.random((n_laws, 2)), axis=1)
            return cls(kind, ends[:, 0], ends[:, 1], which)
        return cls(kind, rng.random(n_laws), rng.uniform(0.05, 0.4, n_laws), which)

    def rounded_up(self, spacing: Fraction) -> RewardLaw:
        """The laws on the grid of multiples of `spacing`, rewards rounded up."""
        cdfs: list[Callable[[np.ndarray], np.ndarray]]
        cdfs = [partial(_cdf, self.kind, a, b) for a, b in zip(self.first, self.second, strict=True)]
        return RewardLaw.from_cdfs(cdfs, self.which, spacing)

    def sample(self, h: int, groups: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rewards [n] of pairs at step h."""
        law = self.which[h, groups, actions]
        return quantile(self.kind, self.first[law], self.second[law], rng.random(law.size))

    def atoms(self, spacing: Fraction) -> tuple[np.ndarray, np.ndarray]:
        """Values [L, 2 n] and probabilities [L, 2 n]: two in each of the n cells, with its mean and variance."""
        n = spacing.denominator
        ends, laws = np.arange(n + 1) / n, range(self.first.size)
        parts = np.stack([moments(self.kind, self.first[i], self.second[i], ends) for i in laws])  # [L, 3, n + 1]
        prob, one, two = np.moveaxis(np.diff(parts, axis=2), 1, 0)
        met = prob > NOTHING
        safe, low, top = np.where(met, prob, 1.0), ends[:-1], ends[1:]
        mean = np.where(met, np.clip(one / safe, low, top), top)
        room = np.maximum(top - mean, 1e-12 / n)
        spread = np.where(met, np.clip(two / safe - mean**2, 0.0, (mean - low) * (top - mean)), 0.0)
        share = spread / (spread + room**2)  # of the upper value, the end of the cell
        below = np.maximum(mean - spread / room, low + 1e-8 / n)
        values = np.concatenate([below, np.broadcast_to(top, below.shape)], axis=1)
        return values, np.concatenate([prob * (1.0 - share), prob * share], axis=1)

    def moments_mdp(self, steps: tuple[StepModel, ...], spacing: Fraction, start: int) -> FiniteMDP:
        """The MDP with these kernels whose rewards have the mean and the variance of the real ones in every cell."""
        values, probs = self.atoms(spacing)
        return product_of_laws(steps, self.which, values, probs, start)


@dataclass(frozen=True, eq=False)
class RealRewards:
    """What is known of rewards that are not on the learner's grid."""

    laws: ContinuousRewards
    steps: tuple[StepModel, ...]
    spacing: Fraction
    start: int

    @cached_property
    def mdp(self) -> FiniteMDP:
        """The moments MDP: what `return_law` bounds on the learner's grid are bounds of what is really earned."""
        return self.laws.moments_mdp(self.steps, self.spacing, self.start)


def moments(kind: str, a: float, b: float, x: np.ndarray) -> np.ndarray:
    """F, M1 and M2 at x [n], [3, n]."""
    from scipy import special

    if kind == "beta":
        mean = a / (a + b)
        square = mean * (a + 1.0) / (a + b + 1.0)
        parts = [special.betainc(a + i, b, x) * scale for i, scale in enumerate((1.0, mean, square))]
        return np.stack(parts)
    if kind == "uniform":
        inside = np.clip(x, a, b)
        return np.stack([(inside ** (i + 1) - a ** (i + 1)) / ((i + 1) * (b - a)) for i in range(3)])
    z = (np.concatenate([[0.0, 1.0], x]) - a) / b
    below, bell = special.ndtr(z) - special.ndtr(z[0]), np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    one = a * below - b * (bell - bell[0])
    two = (a**2 + b**2) * below - b * ((a + b * z + a) * bell - a * bell[0])
    return np.asarray(np.stack([below, one, two])[:, 2:] / below[1])


def _cdf(kind: str, a: float, b: float, x: np.ndarray) -> np.ndarray:
    return np.asarray(moments(kind, a, b, x)[0])


def quantile(kind: str, a: np.ndarray, b: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Rewards [n] of laws with parameters a, b [n] at levels u [n]."""
    from scipy import special

    if kind == "beta":
        return np.asarray(special.betaincinv(a, b, u))
    if kind == "uniform":
        return np.asarray(a + u * (b - a))
    low, high = special.ndtr((0.0 - a) / b), special.ndtr((1.0 - a) / b)
    return np.clip(a + b * special.ndtri(low + u * (high - low)), 0.0, 1.0)
