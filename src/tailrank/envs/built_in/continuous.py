"""Simulators whose states are points of R^m and whose transitions have low rank, without being a block MDP.

    P_h(x' | x, a) = sum_j phi_hj(x, a) psi_j(x'),      psi_j = N(mu_j, s_j^2 I) seen through a linear map

phi is a smooth function of x and the psi_j overlap, so no observation tells a latent and no partition of the space is
the model. Rewards take a few values with a law of their own at (x, a), independent of the next state.

The best CVaR is known: with n points of every psi_j the latent table

    M_h[j, c] = mean over the points x' of psi_j of V_{h+1}(x', c),     V_h(x, c) = min_a E M_h[phi_h(x, a), c - r]

has exact budgets (rewards are whole units), and what is left is the error of n points, which `star` reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from tailrank import checks
from tailrank.envs.built_in import _counter_rng

Law = Callable[[int, np.ndarray], np.ndarray]
POINTS = 4096
"""Points of every psi_j in the latent table of `star`."""


@dataclass(eq=False)
class ContinuousLowRank:
    """A `Simulator`. centres [d, m] and spread [d] of the psi_j in inner coordinates y; x = y @ seen [m, m] is seen.

    phi(h, y) [n, A, d] and law(h, y) [n, A, L] are functions of inner coordinates; rewards are (0, .., L - 1) unit.
    start [d]: the mixture of psi_j that first states are drawn from.
    """

    name: str
    horizon: int
    n_actions: int
    centres: np.ndarray
    spread: np.ndarray
    seen: np.ndarray
    phi: Law
    law: Law
    unit: float
    n_levels: int
    start: np.ndarray
    width: int = 10_000
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        self.n_features = int(self.centres.shape[1])
        top = self.unit * (self.n_levels - 1)
        self.reward_range = (0.0, top)
        self.return_range = (0.0, self.horizon * top)
        self.levels = self.unit * np.arange(self.n_levels)
        self._inner = np.linalg.inv(self.seen)
        self._star = lru_cache(maxsize=1)(self._tables)

    @property
    def d(self) -> int:
        """The rank of every step."""
        return len(self.centres)

    def features(self, h: int, x: np.ndarray) -> np.ndarray:
        """The true phi_h(x, .) of observations [n, m], [n, A, d]."""
        return self.phi(h, np.asarray(x, dtype=np.float64) @ self._inner)

    def reward_laws(self, h: int, x: np.ndarray) -> np.ndarray:
        """The law of the reward over `levels` of observations [n, m], [n, A, L]; a learner may be told it."""
        return self.law(h, np.asarray(x, dtype=np.float64) @ self._inner)

    def log_densities(self, x: np.ndarray) -> np.ndarray:
        """log psi_j(x) of observations [n, m], [n, d]."""
        y = np.asarray(x, dtype=np.float64) @ self._inner
        away = ((y[:, None] - self.centres) ** 2).sum(axis=2) / self.spread**2
        scale = self.n_features * np.log(self.spread * np.sqrt(2 * np.pi)) + np.linalg.slogdet(self.seen)[1]
        return np.asarray(-0.5 * away - scale)

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """First observations [n, m]."""
        self._keys, self._h = _counter_rng.keys(seeds), 0
        n = len(seeds)
        self._enter(np.broadcast_to(self.start, (n, self.d)))
        return self._last

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards, observations, over."""
        h, n = self._h, len(self._y)
        if h >= self.horizon:
            return np.zeros(n), self._last, np.ones(n, dtype=bool)
        actions = np.asarray(actions)
        checks.indices(actions, "actions", self.n_actions, f"at step {h}")
        every = np.arange(n)
        reward = self.levels[_drawn(self.law(h, self._y)[every, actions], self._chance)]
        mixture = self.phi(h, self._y)[every, actions]
        self._h += 1
        if self._h < self.horizon:
            self._enter(mixture)
        return reward, self._last, np.full(n, self._h == self.horizon)

    def _enter(self, mixture: np.ndarray) -> None:
        """Draw latents from their laws [n, d] and states from the latents."""
        m = self.n_features
        even = m + m % 2
        # Of the random numbers of a step `even` are for what is seen, one for the latent, one for the reward.
        u = _counter_rng.uniforms(self._keys, self._h * (even + 2), even + 2)
        latent = _drawn(mixture, u[:, even])
        self._chance = u[:, even + 1]
        noise = _counter_rng.normals(u[:, :even])[:, :m]
        self._y = self.centres[latent] + self.spread[latent, None] * noise
        # Every row by itself: in one product the last bits of a row depend on how many there are.
        self._last = (self._y[:, None, :] @ self.seen)[:, 0]

    def optimum(self, tau: float) -> float:
        """CVaR*, see `star`."""
        return self.star(tau)[0]

    def star(self, tau: float) -> tuple[float, float]:
        """CVaR* and its error: how far the values on two independent sets of points are apart."""
        tau = checks.tail_level(tau)
        curves = self._star()
        budgets = self.unit * np.arange(curves.shape[1])
        both = [float((budgets - curve / tau).max()) for curve in curves]
        return float(np.mean(both)), abs(both[0] - both[1]) / 2

    def _tables(self) -> np.ndarray:
        """V_0(c) averaged over first states, for two sets of points, [2, C]."""
        return np.stack([self._curve(np.random.default_rng([20, i])) for i in range(2)])

    def _curve(self, rng: np.random.Generator) -> np.ndarray:
        d, m, L = self.d, self.n_features, self.n_levels
        C = self.horizon * (L - 1) + 1
        noise = rng.standard_normal((POINTS // 2, m))
        noise = np.vstack([noise, -noise])
        y = (self.centres[:, None] + self.spread[:, None, None] * noise).reshape(-1, m)
        shifted = np.maximum(np.arange(C)[:, None] - np.arange(L), 0)
        value = np.broadcast_to(self.unit * np.arange(C), (len(y), C))
        for h in reversed(range(self.horizon)):
            table = value.reshape(d, POINTS, C).mean(axis=1)
            best = np.full((len(y), C), np.inf)
            phi, law = self.phi(h, y), self.law(h, y)
            for a in range(self.n_actions):
                after = phi[:, a] @ table
                found = sum(law[:, a, [r]] * after[:, shifted[:, r]] for r in range(L))
                np.minimum(best, found, out=best)
            value = best
        return np.asarray(self.start @ value.reshape(d, POINTS, C).mean(axis=1))


def _drawn(laws: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The place [n] where the law [n, d] of each row passes its u [n]."""
    return np.minimum((np.cumsum(laws, axis=1) <= u[:, None]).sum(axis=1), laws.shape[1] - 1)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Rows on the simplex, over the last axis."""
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))


def continuous_lowrank(
    d: int = 4,
    n_actions: int = 4,
    horizon: int = 10,
    n_features: int = 4,
    instance: int = 0,
) -> ContinuousLowRank:
    """A random low-rank MDP on R^m: overlapping Gaussians, phi a softmax of random features, bold and safe actions.

    Action a pays 1/2 with probability 1 - b_a and otherwise 1 or 0, with odds that depend on the place; b_a goes from
    .3 (careful) to 1 (bold). What a bold action gains in the mean it loses in the tail. Only the first min(m, 4) inner
    coordinates matter; the others are noise of the same size.
    """
    d, A, H = checks.whole(d, "d", 2), checks.whole(n_actions, "n_actions", 2), checks.steps(horizon, 2)
    m = checks.whole(n_features, "n_features")
    checks.affordable(POINTS * d * (m + H * 2 * A), f"d = {d}, n_actions = {A}, horizon = {H}, n_features = {m}")
    rng = np.random.default_rng([14, checks.whole(instance, "instance", 0)])
    k = min(m, 4)
    centres = np.zeros((d, m))
    centres[:, :k] = rng.normal(size=(d, k))
    apart = np.sqrt(((centres[:, None] - centres) ** 2).sum(axis=2)) + 1e9 * np.eye(d)
    centres *= 2.0 / np.median(apart.min(axis=1))
    rotation = np.linalg.qr(rng.normal(size=(m, m)))[0]
    seen = rotation * rng.uniform(0.5, 2.0, size=m)
    directions, offsets = rng.normal(size=(k, 24)) / np.sqrt(k), rng.uniform(-2.0, 2.0, size=24)
    heads = rng.normal(size=(24, A, d)) * 3.0 / np.sqrt(24)
    luck = rng.normal(size=(24, A)) * 3.0 / np.sqrt(24)
    bold = np.linspace(0.3, 1.0, A)[rng.permutation(A)]

    def inner(y: np.ndarray) -> np.ndarray:
        return np.tanh(y[:, :k] @ directions + offsets)

    def phi(h: int, y: np.ndarray) -> np.ndarray:
        return softmax(np.tensordot(inner(y), heads, 1))

    def law(h: int, y: np.ndarray) -> np.ndarray:
        win = 1.0 / (1.0 + np.exp(-(inner(y) @ luck)))
        return np.stack([bold * (1 - win), np.broadcast_to(1 - bold, win.shape), bold * win], axis=2)

    return ContinuousLowRank(
        "continuous-lowrank", H, A, centres, rng.uniform(0.8, 1.2, size=d), seen, phi, law, 0.5, 3, np.full(d, 1.0 / d)
    )
