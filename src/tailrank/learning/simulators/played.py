"""What was played in a simulator: whole episodes of any length, kept flat, and their transitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike

from tailrank.checks import InputError
from tailrank.episodes.masks import all_bits, packed
from tailrank.episodes.rollout import Observed
from tailrank.policies.images import ImageLayout

REPEATED = 5
"""Observations count as finite where each was seen so often on average."""


@dataclass(frozen=True)
class PlayedTransitions:
    """T transitions: `here` and `there` [T] say which of the observations [U, m] (float32) were seen before and after;
    actions, rewards, step (h), ended and episode [T]; allowed [T, bytes]: as in `PlayedEpisodes`. drift [T]: what the
    reward of each changes by with the step (`drifting`); rewards are then what they would be at step 0.

    ended: the environment ended the episode there; one that was only cut off after H steps did not end.
    """

    observations: np.ndarray
    here: np.ndarray
    there: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    step: np.ndarray
    ended: np.ndarray
    episode: np.ndarray
    allowed: np.ndarray | None = None
    drift: np.ndarray | None = None

    @property
    def features(self) -> np.ndarray:
        """What was seen before, [T, m]."""
        return self.observations[self.here]

    @property
    def after(self) -> np.ndarray:
        """What was seen after, [T, m]."""
        return self.observations[self.there]

    @property
    def n(self) -> int:
        """T."""
        return int(self.actions.size)

    def held_out(self, rng: np.random.Generator, parts: int = 5) -> np.ndarray:
        """Which transitions [T] belong to one part of so many of the episodes, drawn at random."""
        episodes = np.unique(self.episode)
        return np.isin(self.episode, rng.permutation(episodes)[: max(episodes.size // parts, 1)])

    def where(self, rows: np.ndarray) -> PlayedTransitions:
        """Those rows (a mask or indices)."""
        parts = (self.here, self.there, self.actions, self.rewards, self.step, self.ended, self.episode)
        allowed, drift = (None if part is None else part[rows] for part in (self.allowed, self.drift))
        found = PlayedTransitions(self.observations, *(part[rows] for part in parts))
        return replace(found, allowed=allowed, drift=drift)


@dataclass(frozen=True)
class PlayedEpisodes:
    """n episodes with T steps in all: observations [U, m] (float32, or bytes of images), each once where they repeat;
    seen [T + n] says which of them was seen (the last of an episode too); actions and rewards [T], lengths [n];
    allowed [T, bytes]: the actions that were allowed, as bits (None: all of them, always)."""

    horizon: int
    observations: np.ndarray
    seen: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    lengths: np.ndarray
    allowed: np.ndarray | None = None

    @classmethod
    def of(
        cls, horizon: int, features: np.ndarray, actions: np.ndarray, rewards: np.ndarray, lengths: np.ndarray
    ) -> PlayedEpisodes:
        """From features [T + n, m]."""
        return cls(horizon, *each_once(features.astype(np.float32, copy=False)), actions, rewards, lengths)

    @classmethod
    def none(cls, horizon: int, n_features: int, dtype: DTypeLike = np.float32) -> PlayedEpisodes:
        """Before the first."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(horizon, np.zeros((0, n_features), dtype=dtype), empty, empty, np.zeros(0), empty)

    @property
    def features(self) -> np.ndarray:
        """What was seen at every step and at the end, [T + n, m]."""
        return self.observations[self.seen]

    @property
    def n_features(self) -> int:
        """m."""
        return int(self.observations.shape[1])

    @property
    def repeats(self) -> bool:
        """Whether few different observations repeat."""
        return len(self.observations) * REPEATED <= self.steps

    @property
    def n(self) -> int:
        """Episodes."""
        return int(self.lengths.size)

    @property
    def steps(self) -> int:
        """T."""
        return int(self.actions.size)

    @property
    def first(self) -> np.ndarray:
        """Features of the first observations, [n, m]."""
        return self.observations[self.seen[self.begin]]

    @property
    def begin(self) -> np.ndarray:
        """Where the episodes begin in `seen`, [n]."""
        return np.concatenate([[0], np.cumsum(self.lengths + 1)[:-1]]).astype(np.int64)

    def with_played(self, played: Observed, layout: ImageLayout | None = None) -> PlayedEpisodes:
        """These and the episodes of a rollout that kept its features; layout: where the images are, kept as bytes."""
        if played.features is None:
            raise InputError("features: were not kept")
        H = self.horizon
        here = np.arange(H + 1) <= played.lengths[:, None]
        taken = np.arange(H) < played.lengths[:, None]
        features = played.features[here]
        rows, seen = each_once(features.astype(np.float32) if layout is None else layout.rows(features))
        steps = played.actions[taken], played.rewards[taken], played.lengths
        allowed = None if played.allowed is None else packed(played.allowed[:, :H][taken])
        return self.with_more([PlayedEpisodes(H, rows, seen, *steps, allowed)])

    def with_more(self, others: Sequence[PlayedEpisodes]) -> PlayedEpisodes:
        """These and the episodes of others, in order; equal observations are looked for once, in all of them."""
        all_of = (self, *others)
        rows, place = each_once(np.concatenate([one.observations for one in all_of]))
        before = np.cumsum([0, *(len(one.observations) for one in all_of)])
        seen = np.concatenate([one.seen + begin for one, begin in zip(all_of, before, strict=False)])
        actions, rewards, lengths = (
            np.concatenate([getattr(one, name) for one in all_of]) for name in ("actions", "rewards", "lengths")
        )
        return PlayedEpisodes(self.horizon, rows, place[seen], actions, rewards, lengths, _allowed_in(all_of))

    def head(self, n: int) -> PlayedEpisodes:
        """The first n episodes."""
        if n >= self.n:
            return self
        steps = int(self.lengths[:n].sum())
        kept, seen = np.unique(self.seen[: steps + n], return_inverse=True)
        parts = self.observations[kept], seen.ravel(), self.actions[:steps], self.rewards[:steps], self.lengths[:n]
        allowed = None if self.allowed is None else self.allowed[:steps]
        found = PlayedEpisodes(self.horizon, *(np.ascontiguousarray(part) for part in parts))
        return replace(found, allowed=allowed)

    def step_numbers(self) -> np.ndarray:
        """h of each step, [T]."""
        return np.arange(self.steps) - np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)

    def to_go(self) -> np.ndarray:
        """Return from each step on, [T]."""
        ends = np.cumsum(self.lengths)
        total = np.concatenate([[0.0], np.cumsum(self.rewards)])
        return total[np.repeat(ends, self.lengths)] - total[:-1]

    def returns(self) -> np.ndarray:
        """[n]."""
        ends = np.cumsum(self.lengths)
        total = np.concatenate([[0.0], np.cumsum(self.rewards)])
        return total[ends] - total[ends - self.lengths]

    def transitions(self, most: int, rng: np.random.Generator) -> PlayedTransitions:
        """All transitions; where there are more than `most`, those of episodes drawn at random, about as many."""
        kept = np.arange(self.n)
        if self.steps > most:
            drawn = rng.permutation(self.n)
            kept = np.sort(drawn[: max(int(np.searchsorted(np.cumsum(self.lengths[drawn]), most)), 1)])
        lengths = self.lengths[kept]
        episode = np.repeat(kept, lengths)
        step = np.arange(episode.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        at, begin = self.begin[episode] + step, (np.cumsum(self.lengths) - self.lengths)[episode] + step
        ended = (step + 1 == self.lengths[episode]) & (step + 1 < self.horizon)
        here, there = self.seen[at], self.seen[at + 1]
        actions, rewards = self.actions[begin], self.rewards[begin]
        allowed = None if self.allowed is None else self.allowed[begin]
        return PlayedTransitions(self.observations, here, there, actions, rewards, step, ended, episode, allowed)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        masks = {} if self.allowed is None else {"played.allowed": self.allowed}
        return {f"played.{name}": getattr(self, name) for name in KEPT} | masks

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> PlayedEpisodes:
        """The episodes in a checkpoint of the same simulator."""
        rows, seen, actions, rewards, lengths = (np.asarray(arrays[f"played.{name}"]) for name in KEPT)
        fits = rows.ndim == 2 and rows.shape[1] == self.n_features and rows.dtype == self.observations.dtype
        fits = fits and seen.ndim == lengths.ndim == actions.ndim == 1 and rewards.shape == actions.shape
        fits = fits and int(lengths.sum()) == actions.size and seen.size == actions.size + lengths.size
        if not fits or (seen.size and not 0 <= seen.min() <= seen.max() < len(rows)):
            raise InputError("played: the episodes of the checkpoint do not fit together")
        allowed = arrays.get("played.allowed")
        if allowed is not None and (allowed.dtype != np.uint8 or allowed.ndim != 2 or len(allowed) != actions.size):
            raise InputError("played.allowed: the masks of the checkpoint do not fit its steps")
        return PlayedEpisodes(self.horizon, rows, seen, actions, rewards, lengths, allowed)


KEPT = ("observations", "seen", "actions", "rewards", "lengths")


def _allowed_in(parts: Sequence[PlayedEpisodes]) -> np.ndarray | None:
    """What was allowed [T, bytes] in all of them; where nobody said, everything."""
    said = next((one.allowed for one in parts if one.allowed is not None), None)
    if said is None:
        return None
    found = (all_bits(one.steps, said.shape[1]) if one.allowed is None else one.allowed for one in parts)
    return np.concatenate(list(found))


def each_once(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different rows [U, m] of features [n, m] in a fixed order, and which of them each row is, [n].

    Where no row repeats they stay in their order.
    """
    _, first, which = np.unique(observation_keys(features), return_index=True, return_inverse=True)
    if first.size == len(features):
        return features, np.arange(len(features))
    return features[first], which.ravel()


def observation_keys(features: np.ndarray) -> np.ndarray:
    """A number for each row of features [n, m], the same for equal rows and, nearly surely, for no others, [n]."""
    draws = np.random.default_rng(0)
    keys = np.zeros(len(features), dtype=np.uint64)
    if features.dtype == np.uint8:  # four bytes at once
        features = np.pad(features, ((0, 0), (0, -features.shape[1] % 4))).view(np.uint32)
    for j in range(features.shape[1]):
        mixer = np.uint64(2 * int(draws.integers(0, 2**63)) + 1)
        column = features[:, j] if features.dtype == np.uint32 else (features[:, j] + np.float32(0.0)).view(np.uint32)
        keys += column.astype(np.uint64) * mixer
    return keys
