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
from tailrank.envs.built_in import _counter_rng
from tailrank.envs.built_in.locks import cvar_star, risky_lock

VIEWS = ("rotation", "nonlinear")


@dataclass(eq=False)
class RichLock:
    """A `Simulator`: `width` episodes side by side, their latents kept inside.

    noise: standard deviation of every coordinate. dimension: m (default: the least power of two from H + 4 on).
    distinct: draw the noise from a pool of this many vectors a step, so that observations repeat.
    briee: the last right action pays 1 surely and nothing is risky (BRIEE's own lock). split: see `locks`.
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
    split: float = 0.5
    name: str = field(default="rich-lock", init=False)
    reward_range: tuple[float, float] = field(default=(0.0, 1.0), init=False)
    return_range: tuple[float, float] = field(default=(0.0, 1.0), init=False)
    notes: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        H = checks.steps(self.horizon, 2)
        checks.one_of(self.view, "view", VIEWS)
        checks.not_negative(self.noise, "noise")
        self.lock = risky_lock(H, checks.whole(self.n_actions, "n_actions", 2), seed=self.seed, split=self.split)
        least = 2 ** math.ceil(math.log2(H + 4))
        m = least if self.dimension is None else checks.whole(self.dimension, "dimension", least)
        if m & (m - 1):
            raise InputError(f"dimension = {m}: must be a power of two")
        pool = 0 if self.distinct is None else checks.whole(self.distinct, "distinct")
        checks.affordable(3 * m * m + H * pool * m, f"horizon = {H}, dimension = {m}, distinct = {pool}")
        self.n_features = m
        rng = np.random.default_rng([self.seed, 1])
        self._rotation = hadamard(m)[:, : H + 3]
        self._maps = tuple(rng.normal(size=(m, m)) / math.sqrt(m) for _ in range(2)) if self.view == "nonlinear" else ()
        self._pool = None
        if self.distinct is not None:
            self._pool = rng.normal(size=(H, pool, m))

    def optimum(self, tau: float) -> float:
        """CVaR* of a player who knows the latent."""
        return 1.0 if self.briee else cvar_star(tau)

    @property
    def decodable(self) -> float:
        """Probability that the best decoder of one observation takes one good latent for the other (rotation)."""
        return 0.5 * math.erfc(math.sqrt(0.5) / max(self.noise, 1e-300) / math.sqrt(2.0))

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """First observations [n, m]."""
        self._keys, self._h = _counter_rng.keys(seeds), 0
        self.latent = np.zeros(len(seeds), dtype=np.int64)
        self._last = self._observe()
        return self._last

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards, observations, over."""
        h, H, n, A = self._h, self.horizon, self.latent.size, self.n_actions
        if h >= H:
            return np.zeros(n), self._last, np.ones(n, dtype=bool)
        actions = np.asarray(actions)
        checks.indices(actions, "actions", A, f"at step {h}")
        _, after, _, rewards = self.lock.truth.rows(h)
        row = self.lock.truth.rows_at(h, self.latent * A + actions, self._chance)
        reward, self.latent = rewards[row], after[row].astype(np.int64)
        if self.briee and h == H - 1:
            reward = np.where(reward == 0.8, 1.0, 0.0)
        self._h += 1
        if self._h < H:
            self._last = self._observe()
        return reward, self._last, np.full(n, self._h == H)

    def _observe(self) -> np.ndarray:
        h, m, pool = self._h, self.n_features, self._pool
        # Of the random numbers of a step m are for what is seen, one for what happens then.
        u = _counter_rng.uniforms(self._keys, h * (m + 1), m + 1)
        self._chance = u[:, m]
        seen = _counter_rng.normals(u[:, :m]) if pool is None else pool[h, (u[:, 0] * pool.shape[1]).astype(np.int64)]
        # R (e_z, e_h, 0, ...) is the sum of two columns.
        signal = (self._rotation[:, :3].T + self._rotation[:, 3 + h])[self.latent]
        if not self._maps:
            seen *= self.noise
            seen += signal
            return np.asarray(seen)
        first, second = self._maps
        hidden = np.tanh(2.0 * _each(signal * math.sqrt(m) + 4.0 * self.noise * seen, first))
        return np.asarray(np.tanh(2.0 * _each(hidden, second)))


def _each(rows: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """matrix times every row [n, m] by itself: in one product, the last bits of a row depend on how many there are."""
    return (rows[:, None, :] @ matrix.T)[:, 0]


def hadamard(m: int) -> np.ndarray:
    """The orthonormal Hadamard matrix of a power of two."""
    matrix = np.ones((1, 1))
    while len(matrix) < m:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / math.sqrt(m)


def rich_lock(
    horizon: int = 5,
    n_actions: int = 4,
    noise: float = 0.1,
    dimension: int | None = None,
    view: str = "rotation",
    distinct: int | None = None,
    briee: bool = False,
    seed: int = 0,
    split: float = 0.5,
) -> RichLock:
    """The risky lock seen through rotated, noisy observations, with these settings."""
    return RichLock(horizon, n_actions, noise, dimension, view, distinct, briee, seed, split=split)
