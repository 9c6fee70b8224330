"""Transitions as the oracle fits them: observations as places, rewards as laws, and what is held out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tailrank.episodes.replay import Replay
from tailrank.learning.lowrank import network
from tailrank.learning.lowrank.function_class import KnownRewards
from tailrank.learning.lowrank.places import log_scale, standard_places, stretch
from tailrank.learning.lowrank.psi import Psi
from tailrank.learning.lowrank.transitions import SeenTransitions
from tailrank.planning.observed.support import RewardKinds, nearest_kind, reward_kinds
from tailrank.policies.outcomes import OutcomeNetwork

if TYPE_CHECKING:
    from tailrank.learning.lowrank.oracle import LowRankFit, Setting

NEVER = -1e4
"""Log density of what cannot be."""
MOST_SENSED = 2_000
"""Transitions that the stretch of places is computed from, about."""


@dataclass(frozen=True)
class OutcomeData:
    """Transitions [n] in places: z and after [n, k]; law: of the reward, of `n_laws` (one where the laws are known, and
    say nothing of what comes next). centre [m], project [m, k]. scale: log |det| of the stretch of the places.
    """

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
    n_laws: int
    n_actions: int
    horizon: int
    ends: bool
    scale: float = 0.0

    @classmethod
    def of(
        cls,
        replay: Replay,
        n_actions: int,
        like: LowRankFit | None = None,
        known: KnownRewards | None = None,
        places: OutcomeNetwork | None = None,
    ) -> OutcomeData:
        """All transitions of a replay, in the places and with the laws of rewards of an earlier fit if one is given.

        known: the laws of rewards, where they need not be learned. places: a network whose places are taken.
        """
        t = SeenTransitions.of(replay)
        net = places if like is None else like.network
        centre, project = standard_places(t.x) if net is None else (net.centre, net.project)
        if known is not None:
            rewards, law = known.kinds(replay.horizon), np.zeros_like(t.h)
            known.check(t.reward)
        elif like is None:
            rewards, law = reward_kinds(t.reward, replay.horizon)
        else:
            rewards, law = like.rewards, nearest_kind(like.rewards, t.reward)
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
            len(rewards.values) if known is None else 1,
            n_actions,
            replay.horizon,
            bool(t.ended.any()) if like is None else like.ends,
            0.0 if places is None else log_scale(standard_places(t.x)[1], project),
        )

    @property
    def held_scale(self) -> float:
        """What the stretch adds to the mean log likelihood of held-out transitions."""
        return self.scale * float(self.followed[self.held].mean())

    def stretch_of(self, net: OutcomeNetwork) -> np.ndarray:
        """M [k, k]: how these places are stretched by what a network says of some of them."""
        rows = slice(None, None, max(1, self.h.size // MOST_SENSED))
        x = self.z[rows] @ np.linalg.pinv(self.project) + self.centre
        return stretch(net, x, self.h[rows], self.action[rows], self.project)

    def stretched(self, by: np.ndarray) -> OutcomeData:
        """The same in places z M, where M is `by` [k, k]."""
        scale = self.scale + float(np.linalg.slogdet(by)[1])
        return replace(self, z=self.z @ by, after=self.after @ by, project=self.project @ by, scale=scale)

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
        """Of each transition, [n], in places that are not stretched."""
        found = network.log_likelihoods(fit.weights, self.outcomes(fit.setting, fit.psi))[0]
        return found + self.scale * self.followed


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
