"""Candidates that begin with a coarse grid of continuous actions and refine it where their plan plays.

All actions of the fine grid have their numbers from the beginning; a candidate knows some of them. When half as many
episodes again were played as at the last refinement, the first output of the fit acts along the last quarter of them,
and the actions that it plays most (`MOST` of them, or as many as make up `SHARE` of the steps) get neighbours half a
spacing away in every dimension. The spacing then is half of what it was, down to that of the fine grid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailrank.envs.action_grid import ActionGrid
from tailrank.envs.protocols import Simulator
from tailrank.learning.simulators.candidates import FitData, LearningCandidate, WrappedFit
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.moved import Moved
from tailrank.policies.subset import SubsetPolicy
from tailrank.policies.tables import Policy, UniformPolicy

AGAIN = 1.5
"""So many times as many episodes as at the last refinement are played before the next."""
MOST, SHARE = 4, 0.8


@dataclass(frozen=True)
class FittedRefining(WrappedFit):
    """A fit that knows `actions` [A'] of the fine grid; spacing: between its neighbours where it was refined last;
    refined_at: the episodes that had been played then."""

    actions: np.ndarray
    spacing: int
    refined_at: int

    def playing(self, policy: Policy) -> Policy:
        """One on the fine grid."""
        return SubsetPolicy(policy, self.actions)

    def seen(self, played: PlayedEpisodes) -> PlayedEpisodes:
        """With the numbers that actions have among those that are known."""
        return replace(played, actions=np.searchsorted(self.actions, played.actions))

    def about(self) -> str:
        """What was fitted, and with how many actions."""
        return f"{self.inner.about()}, {self.actions.size} actions {self.spacing} apart on the fine grid"

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Those of the fit, and where the refinement stands."""
        stand = np.array([self.spacing, self.refined_at, *self.actions])
        return {f"inner.{name}": x for name, x in self.inner.to_arrays().items()} | {"refined": stand}


@dataclass(frozen=True)
class RefiningCandidate:
    """A candidate on the part of a grid of actions that it needs."""

    inner: LearningCandidate
    grid: ActionGrid

    def fit(self, data: FitData, rng: np.random.Generator, before: Any = None) -> FittedRefining:
        """The fit to all episodes, with more actions where it is time for them."""
        played = data.played
        if before is None:
            actions, spacing, at = self.grid.coarse, self.grid.stride, played.n
        else:
            actions, spacing, at = before.actions, before.spacing, before.refined_at
            if spacing > 1 and played.n >= AGAIN * at:
                actions, spacing, at = self._finer(before, played), spacing // 2, played.n
        # What else was played, by another candidate, is data too.
        actions = np.union1d(actions, played.actions).astype(np.int64)
        same = before is not None and np.array_equal(actions, before.actions)
        found = self.inner.fit(_numbered(data, actions), rng, before.inner if same else None)
        return FittedRefining(found, actions, spacing, at)

    def _finer(self, before: FittedRefining, played: PlayedEpisodes) -> np.ndarray:
        """The actions, with neighbours of those that the plan plays most."""
        counts = np.bincount(planned_actions(before.outputs()[0].policy, played), minlength=len(self.grid.digits))
        order = np.argsort(-counts, kind="stable")[:MOST]
        enough = int(np.searchsorted(np.cumsum(counts[order]), SHARE * counts.sum())) + 1
        new = [self.grid.beside(int(a), before.spacing // 2) for a in order[:enough] if counts[a]]
        return np.union1d(before.actions, np.concatenate(new))

    def restored(self, arrays: dict[str, np.ndarray], data: FitData, rng: np.random.Generator) -> FittedRefining:
        """The fit in a checkpoint."""
        spacing, at, *actions = (int(x) for x in arrays["refined"])
        own = {name.removeprefix("inner."): x for name, x in arrays.items() if name.startswith("inner.")}
        known = np.array(actions, dtype=np.int64)
        found = self.inner.restored(own, _numbered(data, known), rng)
        return FittedRefining(found, known, spacing, at)


def planned_actions(policy: Policy, played: PlayedEpisodes) -> np.ndarray:
    """What the policy would do at every step of the last quarter of the episodes, given what they paid."""
    n, features = max(played.n // 4, 1), played.features
    lengths, found = played.lengths[-n:], []
    row, step = np.cumsum(played.lengths + 1)[-n:] - lengths - 1, np.cumsum(played.lengths)[-n:] - lengths
    memory, live = policy.start(n), np.arange(n)
    for h in range(int(lengths.max())):
        live = live[lengths[live] > h]
        seen, at = features[row[live] + h], step[live] + h
        found.append(policy.act(h, seen, memory[live]))
        after = features[row[live] + h + 1]
        memory[live] = policy.update(h, Moved(seen, played.actions[at], played.rewards[at], after), memory[live])
    return np.concatenate(found)


def _numbered(data: FitData, actions: np.ndarray) -> FitData:
    """The episodes with the numbers that actions have among those [A'] that are known."""
    own = replace(data.played, actions=np.searchsorted(actions, data.played.actions))
    return replace(data, played=own, n_actions=actions.size)


def uniform_on(env: Simulator, rng: np.random.Generator) -> Policy:
    """Uniform actions; on the coarse ones of a grid."""
    grid = getattr(env, "grid", None)
    if grid is None:
        return UniformPolicy(env.n_actions, env.horizon, rng)
    return SubsetPolicy(UniformPolicy(grid.coarse.size, env.horizon, rng), grid.coarse)
