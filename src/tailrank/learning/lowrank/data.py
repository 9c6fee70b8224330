"""Transitions as the oracle fits them: observations as places, rewards as laws, and what is held out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tailrank.episodes.replay import Replay
from tailrank.learning.lowrank import network
from tailrank.learning.lowrank.psi import Psi
from tailrank.learning.lowrank.transitions import SeenTransitions
from tailrank.planning.observed.support import RewardKinds, nearest_kind, reward_kinds

if TYPE_CHECKING:
    from tailrank.learning.lowrank.oracle import LowRankFit, Setting

NEVER = -1e4
"""Log density of what cannot be."""
MOST_PLACES = 32
"""Observations with more features are seen through so many principal components."""


@dataclass(frozen=True)
class OutcomeData:
    """Transitions [n] in places: z and after [n, k]; law: of the reward. centre [m], project [m, k]."""

    episode: np.ndarray
    z: np.ndarray
    after: np.ndarray
    h: np.ndarray
    action: np.ndarray
    law: np.ndarray
    followed: np.ndarray
    ended: np.ndarray
    held: np.ndarray
    centre: np.ndarray
    project: np.ndarray
    rewards: RewardKinds
    n_actions: int
    horizon: int
    ends: bool

    @classmethod
    def of(cls, replay: Replay, n_actions: int, like: LowRankFit | None = None) -> OutcomeData:
        """All transitions of a replay, in the places and with the laws of rewards of an earlier fit if one is given."""
        t = SeenTransitions.of(replay)
        if like is None:
            centre, project = _places(t.x)
            rewards, law = reward_kinds(t.reward, replay.horizon)
        else:
            centre, project, rewards = like.network.centre, like.network.project, like.rewards
            law = nearest_kind(rewards, t.reward)
        held = t.held if t.held.any() and not t.held.all() else np.arange(t.h.size) % 2 == 0
        return cls(
            t.episode,
            (t.x - centre) @ project,
            (t.after - centre) @ project,
            t.h,
            t.action,
            law,
            t.followed,
            t.ended,
            held,
            centre,
            project,
            rewards,
            n_actions,
            replay.horizon,
            bool(t.ended.any()) if like is None else like.ends,
        )

    def some(self, most: int, rng: np.random.Generator) -> OutcomeData:
        """At most so many of the transitions."""
        if self.h.size <= most:
            return self
        rows = np.sort(rng.choice(self.h.size, size=most, replace=False))
        names = ("episode", "z", "after", "h", "action", "law", "followed", "ended", "held")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def parts(self, shared: bool, rows: np.ndarray) -> list[np.ndarray]:
        """Rows that lead to an observation: all in one, or one part for each step but the last."""
        rows = rows[self.followed[rows]]
        return [rows] if shared else [rows[self.h[rows] == h] for h in range(self.horizon - 1)]

    def log_psi(self, psi: tuple[Psi, ...]) -> np.ndarray:
        """log psi_k of what came next [n, K], the end as the last kind if there is one; 0 where it is not known."""
        found = log_psi_of(psi, self.h, self.after)
        if self.ends:
            found = np.column_stack([found, np.full(len(found), NEVER)])
            found[self.ended] = NEVER
            found[self.ended, -1] = 0.0
        found[~self.followed & ~(self.ended & self.ends)] = 0.0
        return found

    def outcomes(self, setting: Setting, psi: tuple[Psi, ...]) -> network.Outcomes:
        """As the network sees them."""
        head = self.action if setting.shared_heads else self.h * self.n_actions + self.action
        return network.Outcomes(self.z.astype(np.float32), head, self.law, self.log_psi(psi).astype(np.float32))

    def log_likelihoods(self, fit: LowRankFit) -> np.ndarray:
        """Of each transition, [n]."""
        return network.log_likelihoods(fit.weights, self.outcomes(fit.setting, fit.psi))[0]


def _places(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """centre [m] and project [m, k]: standardised features, or their principal components where they are many."""
    centre, spread = x.mean(axis=0), x.std(axis=0)
    scale = 1.0 / np.where(spread > 1e-9 * (1.0 + np.abs(x).max(axis=0)), spread, 1.0)
    if x.shape[1] <= MOST_PLACES:
        return centre, np.diag(scale)
    some = ((x - centre) * scale)[:: max(1, len(x) // 4000)]
    values, vectors = np.linalg.eigh(np.cov(some.T))
    top = np.argsort(values)[::-1][:MOST_PLACES]
    return centre, scale[:, None] * vectors[:, top] / np.sqrt(np.maximum(values[top], 1e-12))


def log_psi_of(psi: tuple[Psi, ...], h: np.ndarray, after: np.ndarray) -> np.ndarray:
    """log psi_k of places [n, k] that came after steps h [n], [n, K]."""
    if len(psi) == 1:
        return psi[0].log_densities(after)
    result = np.zeros((len(after), psi[0].n_kinds))
    for step, one in enumerate(psi):
        rows = np.flatnonzero(h == step)
        if rows.size:
            result[rows] = one.log_densities(after[rows])
    return result
