"""`EpisodeLog`: past episodes as flat arrays, one entry a step, checked once for all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Label = int | str


@dataclass(frozen=True, eq=False)
class EpisodeLog:
    """n episodes of T steps in all, each episode's steps in order, one episode after another.

    begin [n + 1]: where each episode's steps begin. state, action [T]: places in `states` and `actions`, the user's
    own names. next_state [T]: a place in `states`, S where the episode ended, -1 where the log does not say.
    reward [T]. probability [T]: with which the action was taken, None where nobody knows. observation [T, d], and
    next_observation [T, d] (NaN: not known), in place of states, which are then all 0. admissible [S, A]: which actions
    may be taken, None for all. cut [n]: the episode was cut off before its end. horizon: H.
    """

    begin: np.ndarray
    state: np.ndarray
    action: np.ndarray
    next_state: np.ndarray
    reward: np.ndarray
    states: tuple[Label, ...]
    actions: tuple[Label, ...]
    horizon: int
    cut: np.ndarray
    probability: np.ndarray | None = None
    observation: np.ndarray | None = None
    next_observation: np.ndarray | None = None
    admissible: np.ndarray | None = None
    name: str = "log"
    notes: tuple[str, ...] = ()

    @property
    def episodes(self) -> int:
        """n."""
        return self.begin.size - 1

    @property
    def transitions(self) -> int:
        """T."""
        return int(self.state.size)

    @property
    def lengths(self) -> np.ndarray:
        """Steps of each episode, [n]."""
        return np.diff(self.begin)

    @property
    def step(self) -> np.ndarray:
        """The step h of each entry, [T]."""
        return np.arange(self.transitions) - np.repeat(self.begin[:-1], self.lengths)

    @property
    def whole(self) -> np.ndarray:
        """Whether each episode's return is known: it was not cut off, [n]."""
        return ~self.cut

    def returns(self, discount: float = 1.0) -> np.ndarray:
        """What each episode earned, as far as the log goes, [n]."""
        earned = self.reward if discount == 1.0 else self.reward * discount**self.step
        return np.add.reduceat(earned, self.begin[:-1])

    def subset(self, episodes: np.ndarray) -> EpisodeLog:
        """The log of some episodes [k], in that order; names and horizon stay."""
        lengths = self.lengths[episodes]
        begin = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(self.begin[episodes] - begin[:-1], lengths) + np.arange(begin[-1])
        columns = ("state", "action", "next_state", "reward", "probability", "observation", "next_observation")
        some: dict[str, Any] = {name: getattr(self, name) for name in columns}
        taken: dict[str, Any] = {name: None if column is None else column[entries] for name, column in some.items()}
        return replace(
            self,
            begin=begin,
            cut=self.cut[episodes],
            **taken,
        )

    def halves(self, rng: np.random.Generator) -> tuple[EpisodeLog, EpisodeLog]:
        """Two logs of half of the episodes each, drawn at random."""
        order = rng.permutation(self.episodes)
        middle = self.episodes // 2
        return self.subset(np.sort(order[:middle])), self.subset(np.sort(order[middle:]))
