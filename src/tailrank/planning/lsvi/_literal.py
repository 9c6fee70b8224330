"""Algorithm 2 as printed, in plain NumPy: everything is computed again in each iteration.

Slow on purpose: it is what the fast variants are tested against.
"""

from __future__ import annotations

import numpy as np

from tailrank.planning.lsvi._policy import Clip, LsviPolicy
from tailrank.planning.lsvi.model import FeatureModel, View, rollout


class LiteralPolicy(LsviPolicy):
    """The greedy policy of printed weights w [dbar, C]."""

    def scores(self, h: int, seen: View, budgets: np.ndarray) -> np.ndarray:
        """Q before the clip, [n, A]."""
        x, budgets = seen.joint(), np.clip(budgets, 0, self.weights[h].shape[1] - 1)
        fit = np.einsum("nax,xn->na", x, self.weights[h][:, budgets])
        return -seen.bonus + fit - self.beta * norm(x, self.inverse[h])


def norm(x: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """||x||_{Lambda^-1} over the last axis."""
    return np.sqrt(np.maximum(np.einsum("nax,nax->na", np.tensordot(x, inverse, 1), x), 0.0))


class LiteralFit:
    """The trajectories so far, and the iterate they give."""

    def __init__(self, model: FeatureModel, budget: int, lam: float, beta: float, clip: Clip, most: int) -> None:
        self.model, self.budget, self.lam, self.beta, self.clip = model, budget, lam, beta, clip
        H, A = model.horizon, model.n_actions
        size = [(clip.top + 1) * (model.rank(h) if h < H - 1 else 1) for h in range(H)]
        self.features = [np.empty((most, A, dbar)) for dbar in size]
        self.bonus = np.empty((H, most, A))
        self.actions, self.units = np.empty((H, most), dtype=np.int64), np.empty((H, most), dtype=np.int64)
        self.count, self.simulated = 0, 0

    def collect(self, policy: LsviPolicy, most: int, rng: np.random.Generator) -> None:
        """Line 12: one trajectory of the policy."""
        episode = rollout(self.model, policy.choose, self.budget, 1, rng)
        j = self.count
        for h, seen in enumerate(episode.views):
            self.clip.check(h, seen.bonus)
            self.features[h][j], self.bonus[h, j] = seen.joint()[0], seen.bonus[0]  # line 1, only where needed
            self.actions[h, j], self.units[h, j] = episode.actions[h][0], episode.units[h][0]
        self.count += 1
        self.simulated += 1

    def policy(self) -> LsviPolicy:
        """Lines 3-11."""
        H, t, top = self.model.horizon, self.count, self.clip.top
        terminal = self.clip.terminal
        budgets, rows = np.arange(H * top + 1 if terminal is None else terminal.size), np.arange(t)
        weights: list[np.ndarray] = []
        inverse: list[np.ndarray] = []
        V = np.broadcast_to(self.clip.last(budgets), (t, budgets.size))  # line 3
        for h in reversed(range(H)):  # line 4
            x, bonus, units = self.features[h][:t], self.bonus[h, :t], self.units[h, :t]
            chosen = x[rows, self.actions[h, :t]]
            Lambda = self.lam * np.eye(x.shape[2]) + chosen.T @ chosen  # line 5
            left = np.maximum(budgets - units[:, None], 0)
            w = np.linalg.solve(Lambda, chosen.T @ np.take_along_axis(V, left, axis=1))  # line 6
            weights.append(w)
            inverse.append(np.linalg.inv(Lambda))
            less = bonus + self.beta * norm(x, inverse[-1])
            Q = np.tensordot(x, w, 1)  # lines 7-8, all visited states at once
            Q -= less[..., None]
            V = np.clip(Q, self.clip.low(h), self.clip.high(budgets), out=Q).min(axis=1)  # line 9
        weights, inverse = weights[::-1], inverse[::-1]
        return LiteralPolicy(self.model, self.budget, tuple(weights), tuple(inverse), self.beta, self.clip, (0,) * H)
