"""Algorithm 2 with less work: rank-one updates, rare recomputation, and features of the transition alone.

Recomputation: weights and policy change only when the determinant of some Lambda_h has grown by a factor
(two) since they were last computed. While the policy is fixed its trajectories are independent, so they are
simulated many at a time; those that a recomputation makes obsolete are dropped, which leaves exactly the law
of simulating one after the other.

Factored: the reward law is known, so only E[V_{h+1}(s', c)] = <phi, M(c)> is regressed, in d instead of d nr
dimensions; the reward enters afterwards, exactly, as does the whole last step.

From the initial budget i1 only budgets from (i1 - h top)^+ to i1 can be left at step h, so tables at step h have
only these columns; the numbers in them are the same.
"""

from __future__ import annotations

import math

import numpy as np

from tailrank.planning.lsvi import _kernels as _kernels
from tailrank.planning.lsvi._policy import Clip, LsviPolicy
from tailrank.planning.lsvi.model import FeatureModel, View, rollout

CHUNK = 256
"""Visited states handled at a time, so that their scores stay in the cache."""


class FastFit:
    """The trajectories so far, their covariances kept up to date, and the iterate they give."""

    def __init__(
        self,
        model: FeatureModel,
        budget: int,
        lam: float,
        beta: float,
        clip: Clip,
        most: int,
        growth: float,
        factored: bool,
    ) -> None:
        self.model, self.budget, self.beta, self.clip, self.factored = model, budget, beta, clip, factored
        self.threshold = math.log(growth)
        H, A, nr = model.horizon, model.n_actions, clip.top + 1
        rank = [model.rank(h) for h in range(H - 1)] + [1]
        size = rank if factored else [d * nr for d in rank]
        self.inverse = [np.eye(D) / lam for D in size]
        if factored:
            self.inverse[H - 1][:] = 0.0  # nothing to learn at the last step
        self.chosen = [np.empty((most, D)) for D in size]
        joint = model.reward_laws(0, model.start()).ndim == 4
        self.views = [
            View(np.empty((most, A, d)), np.empty((most, A, d, nr) if joint else (most, A, nr)), np.empty((most, A)))
            for d in rank
        ]
        self.units = [np.empty(most, dtype=np.int64) for _ in range(H)]
        self.grown = np.zeros(H)
        """Growth of each log det since the last recomputation."""
        self.count, self.simulated, self.batch = 0, 0, 1

    def collect(self, policy: LsviPolicy, most: int, rng: np.random.Generator) -> None:
        """Line 12, until a determinant has grown enough or `most` trajectories are there."""
        before = self.count
        while self.count < most:
            n = min(self.batch, most - self.count)
            episodes = rollout(self.model, policy.choose, self.budget, n, rng)
            self.simulated += n
            rows, chosen, trial = np.arange(n), [], [m.copy() for m in self.inverse]
            gains = np.empty((len(trial), n))
            for h, (seen, actions) in enumerate(zip(episodes.views, episodes.actions, strict=True)):
                self.clip.check(h, seen.bonus)
                taken = View(seen.phi[rows, actions][:, None], seen.law[rows, actions][:, None], seen.bonus)
                chosen.append((taken.phi if self.factored else taken.joint())[:, 0])
                _kernels.grow(trial[h], chosen[h], gains[h])
            over = np.flatnonzero((self.grown[:, None] + gains >= self.threshold).any(axis=0))
            keep = int(over[0]) + 1 if over.size else n
            now = slice(self.count, self.count + keep)
            for h, seen in enumerate(episodes.views):
                self.chosen[h][now], self.units[h][now] = chosen[h][:keep], episodes.units[h][:keep]
                for store, part in zip(self.views[h], seen, strict=True):
                    store[now] = part[:keep]
                if keep < n:
                    _kernels.grow(self.inverse[h], chosen[h][:keep], gains[h])
                else:
                    self.inverse[h] = trial[h]
            self.count += keep
            self.grown += gains[:, keep - 1]
            if over.size:
                self.batch = max(1, 3 * (self.count - before) // 2)
                break

    def policy(self) -> LsviPolicy:
        """Lines 3-11."""
        self.grown[:] = 0.0
        H, t, nr = self.model.horizon, self.count, self.clip.top + 1
        lowest = [max(self.budget - h * self.clip.top, 0) for h in range(H + 1)]
        weights: list[np.ndarray] = []
        last = self.clip.last(np.arange(lowest[H], self.budget + 1))
        V = np.tile(last, (t, 1))  # line 3
        for h in reversed(range(H)):  # line 4
            chosen, offset = self.chosen[h][:t], lowest[h] - lowest[h + 1]
            if not self.factored:
                after = np.empty((t, self.budget + 1 - lowest[h]))
                _kernels.shift(V, self.units[h][:t], offset, after)
                w = (self.inverse[h] @ (chosen.T @ after)).reshape(-1, nr, after.shape[1])  # line 6
            elif h == H - 1:
                w = last[None]
            else:
                w = self.inverse[h] @ (chosen.T @ V)  # line 6, reward law applied later
            weights.append(w)
            if h > 0:
                V = self._values(h, w, np.arange(lowest[h], self.budget + 1), offset)
        inverse = tuple(m.copy() for m in self.inverse)
        base = tuple(lowest[1:] if self.factored else lowest[:H])
        return LsviPolicy(self.model, self.budget, tuple(weights[::-1]), inverse, self.beta, self.clip, base)

    def _values(self, h: int, weights: np.ndarray, budgets: np.ndarray, offset: int) -> np.ndarray:
        """Lines 7-10: V_h at the visited states and these budgets, [t, C]."""
        V = np.empty((self.count, budgets.size))
        low, high, inverse = self.clip.low(h), self.clip.high(budgets), self.inverse[h]
        for begin in range(0, V.shape[0], CHUNK):
            part = slice(begin, min(begin + CHUNK, V.shape[0]))
            seen = View(*(table[part] for table in self.views[h]))
            if self.factored:
                kernel = _kernels.lowest_joint if seen.law.ndim == 4 else _kernels.lowest_factored
                kernel(*seen, weights, inverse, self.beta, low, high, offset, V[part])
                continue
            x = seen.joint()
            flat = x.reshape(-1, x.shape[2])
            fit = (flat @ weights.reshape(x.shape[2], -1)).reshape(*x.shape[:2], -1)
            image = (flat @ inverse).reshape(x.shape)
            _kernels.lowest_printed(fit, image, x, seen.bonus, self.beta, low, high, V[part])
        return V
