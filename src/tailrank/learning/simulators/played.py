"""What was played in a simulator: whole episodes of any length, kept flat, and their transitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.checks import InputError
from tailrank.episodes.rollout import Observed


@dataclass(frozen=True)
class PlayedTransitions:
    """T transitions: features and after [T, m] (float32), actions, rewards, step (h), ended and episode [T].

    ended: the environment ended the episode there; one that was only cut off after H steps did not end.
    """

    features: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    after: np.ndarray
    step: np.ndarray
    ended: np.ndarray
    episode: np.ndarray

    @property
    def n(self) -> int:
        """T."""
        return int(self.actions.size)

    def where(self, rows: np.ndarray) -> PlayedTransitions:
        """Those rows (a mask or indices)."""
        parts = (self.features, self.actions, self.rewards, self.after, self.step, self.ended, self.episode)
        return PlayedTransitions(*(part[rows] for part in parts))


@dataclass(frozen=True)
class PlayedEpisodes:
    """n episodes with T steps in all: features [T + n, m] (the last observation too), actions and rewards [T],
    lengths [n]."""

    horizon: int
    features: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    lengths: np.ndarray

    @classmethod
    def none(cls, horizon: int, n_features: int) -> PlayedEpisodes:
        """Before the first."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(horizon, np.zeros((0, n_features), dtype=np.float32), empty, np.zeros(0), empty)

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
        return self.features[self._begin]

    @property
    def _begin(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.lengths + 1)[:-1]]).astype(np.int64)

    def with_played(self, played: Observed) -> PlayedEpisodes:
        """These and the episodes of a rollout that kept its features."""
        if played.features is None:
            raise InputError("features: were not kept")
        H = self.horizon
        seen = np.arange(H + 1) <= played.lengths[:, None]
        taken = np.arange(H) < played.lengths[:, None]
        return PlayedEpisodes(
            H,
            np.concatenate([self.features, played.features[seen].astype(np.float32)]),
            np.concatenate([self.actions, played.actions[taken]]),
            np.concatenate([self.rewards, played.rewards[taken]]),
            np.concatenate([self.lengths, played.lengths]),
        )

    def head(self, n: int) -> PlayedEpisodes:
        """The first n episodes."""
        if n >= self.n:
            return self
        steps = int(self.lengths[:n].sum())
        parts = self.features[: steps + n], self.actions[:steps], self.rewards[:steps], self.lengths[:n]
        return PlayedEpisodes(self.horizon, *(np.ascontiguousarray(part) for part in parts))

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
        at, begin = self._begin[episode] + step, (np.cumsum(self.lengths) - self.lengths)[episode] + step
        ended = (step + 1 == self.lengths[episode]) & (step + 1 < self.horizon)
        return PlayedTransitions(
            self.features[at], self.actions[begin], self.rewards[begin], self.features[at + 1], step, ended, episode
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        names = ("features", "actions", "rewards", "lengths")
        return {f"played.{name}": getattr(self, name) for name in names}

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> PlayedEpisodes:
        """The episodes in a checkpoint of the same simulator."""
        features, actions, rewards, lengths = (
            np.asarray(arrays[f"played.{name}"]) for name in ("features", "actions", "rewards", "lengths")
        )
        fits = features.ndim == 2 and features.shape[1] == self.features.shape[1]
        fits = fits and lengths.ndim == actions.ndim == 1 and rewards.shape == actions.shape
        if not fits or int(lengths.sum()) != actions.size or len(features) != actions.size + lengths.size:
            raise InputError("played: the episodes of the checkpoint do not fit together")
        return PlayedEpisodes(self.horizon, features, actions, rewards, lengths)
