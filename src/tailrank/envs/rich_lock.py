"""The risky lock seen through rich observations: every observation is new, and the latents must be found in it.

The chain and the rewards are those of `risky_lock`. What is observed at step h in latent z is

    x = R (e_z, e_h, 0, ..., 0) + noise N(0, I)

with R a rotation (a Hadamard matrix over sqrt(m), m a power of two of at least H + 4), as in BRIEE's lock; or, with
`view="nonlinear"`, a random smooth map of latent, step and noise that is far from Gaussian. Nothing tells a
learner the latents, the map, the noise or the rewards. `optimum(tau)` holds where one observation tells the latent:
`decodable` says how surely it does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.locks import cvar_star, risky_lock

VIEWS = ("rotation", "nonlinear")


@dataclass(eq=False)
class RichLock:
    """A `Simulator`: `width` episodes side by side, their latents kept inside.

    noise: standard deviation of every coordinate. dimension: m (default: the least power of two from H + 4 on).
    distinct: draw the noise from a pool of this many vectors a step, so that observations repeat.
    briee: the last right action pays 1 surely and nothing is risky (BRIEE's own lock).
    """

    horizon: int = 5
    n_actions: int = 4
    noise: float = 0.1
    dimension: int | None = None
    view: str = "rotation"
    distinct: int | None = None
    briee: bool = False
    seed: int = 0
    width: int = 10_000
    name: str = field(default="rich-lock", init=False)
    reward_range: tuple[float, float] = field(default=(0.0, 1.0), init=False)
    return_range: tuple[float, float] = field(default=(0.0, 1.0), init=False)
    notes: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        H = checks.whole(self.horizon, "horizon", 2)
        checks.one_of(self.view, "view", VIEWS)
        if not checks.number(self.noise, "noise") >= 0:
            raise InputError(f"noise = {self.noise}: must not be negative")
        self.lock = risky_lock(H, checks.whole(self.n_actions, "n_actions", 2), seed=self.seed)
        least = 2 ** math.ceil(math.log2(H + 4))
        m = least if self.dimension is None else checks.whole(self.dimension, "dimension", least)
        if m & (m - 1):
            raise InputError(f"dimension = {m}: must be a power of two")
        self.n_features = m
        rng = np.random.default_rng([self.seed, 1])
        self._rotation = hadamard(m)[:, : H + 3]
        self._maps = tuple(rng.normal(size=(m, m)) / math.sqrt(m) for _ in range(2)) if self.view == "nonlinear" else ()
        self._pool = None
        if self.distinct is not None:
            self._pool = rng.normal(size=(H, checks.whole(self.distinct, "distinct"), m))
        self._right = self.lock.rewards.which

    def optimum(self, tau: float) -> float:
        """CVaR* of a player who knows the latent."""
        return 1.0 if self.briee else cvar_star(tau)

    @property
    def decodable(self) -> float:
        """Probability that the best decoder of one observation takes one good latent for the other (rotation)."""
        return 0.5 * math.erfc(math.sqrt(0.5) / max(self.noise, 1e-300) / math.sqrt(2.0))

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """First observations [n, m]; the episodes of one call share a generator made from all their seeds."""
        self._rng = np.random.default_rng(np.asarray(seeds, dtype=np.uint64))
        self._h = 0
        self.latent = np.zeros(len(seeds), dtype=np.int64)
        self._last = self._observe()
        return self._last

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards, observations, over."""
        h, H, n = self._h, self.horizon, self.latent.size
        if h >= H:
            return np.zeros(n), self._last, np.ones(n, dtype=bool)
        reward, self.latent = self.lock.step(h, self.lock_states(h), np.asarray(actions), self._rng)
        if h < H - 1:
            self.latent = self.lock.group[h + 1][self.latent]
        if self.briee and h == H - 1:
            reward = np.where(reward == 0.8, 1.0, 0.0)
        self._h += 1
        if self._h < H:
            self._last = self._observe()
        return reward, self._last, np.full(n, self._h == H)

    def lock_states(self, h: int) -> np.ndarray:
        """The lock's own state numbers [n] of the latents (it has three states a step, in some order)."""
        return np.argsort(self.lock.group[h])[self.latent]

    def _observe(self) -> np.ndarray:
        h, n, m = self._h, self.latent.size, self.n_features
        signal = np.zeros((n, self.horizon + 3))
        signal[np.arange(n), self.latent] = 1.0
        signal[:, 3 + h] = 1.0
        noise = self._rng.normal(size=(n, m)) if self._pool is None else self._draw(h, n)
        if not self._maps:
            return signal @ self._rotation.T + self.noise * noise
        first, second = self._maps
        hidden = np.tanh(2.0 * (signal @ self._rotation.T * math.sqrt(m) + 4.0 * self.noise * noise) @ first.T)
        return np.asarray(np.tanh(2.0 * hidden @ second.T))

    def _draw(self, h: int, n: int) -> np.ndarray:
        pool = self._pool[h]  # type: ignore[index]
        return pool[self._rng.integers(len(pool), size=n)]


def hadamard(m: int) -> np.ndarray:
    """The orthonormal Hadamard matrix of a power of two."""
    matrix = np.ones((1, 1))
    while len(matrix) < m:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / math.sqrt(m)


def rich_lock(
    horizon: int = 5, n_actions: int = 4, noise: float = 0.1, dimension: int | None = None, view: str = "rotation",
    distinct: int | None = None, briee: bool = False, seed: int = 0,
) -> RichLock:  # fmt: skip
    """The lock with these settings."""
    return RichLock(horizon, n_actions, noise, dimension, view, distinct, briee, seed)
