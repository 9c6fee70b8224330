"""Episodes that are played row by row, so that one which goes wrong can be left out and the others go on.

`RowPlayer` is the part that does not know where rows are played; `RowsHere` plays them in this process, `_workers`
in others. What comes of a call for a row is a `RowOutcome`, or one line that says what went wrong there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.gymnasium._masks import MaskReader, RowMasks
from tailrank.envs.gymnasium._players import Copies
from tailrank.envs.gymnasium.actions import Actions
from tailrank.envs.gymnasium.spaces import Encoder
from tailrank.envs.protocols import LARGEST


class RowOutcome(NamedTuple):
    """A reward (0 of a reset), features [m], whether the environment ended the episode, and what it allows now, [A]."""

    reward: float
    features: np.ndarray
    over: bool
    allowed: np.ndarray | None = None


MOST_BAD, FEW = 0.1, 5
"""More than this share of episodes, and more than so few, may not go wrong: what is left would say little."""


class RowPlayer(ABC):
    """A `Player` of rows. skip: rows that go wrong are over and remembered in `bad`, {row: what happened}.

    Without skip the first of them raises. begun, skipped: episodes so far, and those of them that went wrong.
    """

    def __init__(self, width: int, n_features: int, skip: bool) -> None:
        self._width, self._n_features, self._skip = width, n_features, skip
        self.bad: dict[int, str] = {}
        self.begun = self.skipped = 0
        self.first = ""
        self._seen = np.zeros((0, n_features))
        self._masks = RowMasks()

    @property
    def width(self) -> int:
        """How many episodes run side by side."""
        return self._width

    @property
    def allowed(self) -> np.ndarray | None:
        """What is allowed now in each row, [n, A]; None where nobody says."""
        return self._masks.allowed

    def begin(self, seeds: Sequence[int]) -> np.ndarray:
        """Begin an episode for each seed; features [n, m], zeros where it could not be begun."""
        if self.skipped > max(FEW, MOST_BAD * self.begun):
            raise InputError(
                f"{self.skipped} of {self.begun} episodes went wrong, too many to skip; first {self.first}"
            )
        self.begun += len(seeds)
        self.bad, self._seen = {}, np.zeros((len(seeds), self._n_features))
        self._masks.begin(len(seeds))
        return self._taken(np.arange(len(seeds)), self.begin_rows(seeds))[1]

    def advance(self, rows: np.ndarray, actions: np.ndarray, h: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Play step h in these rows; one that went wrong pays 0, keeps its features and is over."""
        good = np.array([row not in self.bad for row in rows], dtype=bool)
        rewards, over = np.zeros(rows.size), np.ones(rows.size, dtype=bool)
        if good.any():
            results = self.advance_rows([int(row) for row in rows[good]], [int(a) for a in actions[good]], h)
            rewards[good], _, over[good] = self._taken(rows[good], results)
        return rewards, self._seen[rows], over

    def _taken(
        self, rows: np.ndarray, results: Sequence[RowOutcome | str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rewards, over = np.zeros(rows.size), np.ones(rows.size, dtype=bool)
        for i, (row, found) in enumerate(zip(rows, results, strict=True)):
            if isinstance(found, str):
                if not self._skip:
                    raise InputError(found)
                self.bad[int(row)] = found
                self.skipped, self.first = self.skipped + 1, self.first or found
            else:
                rewards[i], self._seen[row], over[i], allowed = found
                self._masks.put(row, allowed)
        return rewards, self._seen[rows], over

    @abstractmethod
    def begin_rows(self, seeds: Sequence[int]) -> list[RowOutcome | str]:
        """Begin an episode for each seed, in rows 0..n-1."""

    @abstractmethod
    def advance_rows(self, rows: Sequence[int], actions: Sequence[int], h: int) -> list[RowOutcome | str]:
        """Play step h in these rows."""


class RowsHere(RowPlayer):
    """Rows in this process, a copy of the environment each."""

    def __init__(
        self,
        envs: Sequence[Any],
        name: str,
        encoder: Encoder,
        actions: Actions,
        skip: bool,
        masks: MaskReader | None = None,
    ) -> None:
        super().__init__(len(envs), encoder.n_features, skip)
        self._copies = [Copies([env], name, encoder, actions, True, masks) for env in envs]

    def begin_rows(self, seeds: Sequence[int]) -> list[RowOutcome | str]:
        """Reset a copy for each seed."""
        return [self.begin_row(row, seed) for row, seed in enumerate(seeds)]

    def begin_row(self, row: int, seed: int) -> RowOutcome | str:
        """Begin an episode in a row."""
        copy = self._copies[row]
        return _outcome(lambda: RowOutcome(0.0, copy.begin([seed])[0], False, _only(copy)))

    def advance_rows(self, rows: Sequence[int], actions: Sequence[int], h: int) -> list[RowOutcome | str]:
        """Step the copies of these rows, one after the other."""
        return [self.advance_row(row, action, h) for row, action in zip(rows, actions, strict=True)]

    def advance_row(self, row: int, action: int, h: int) -> RowOutcome | str:
        """Play step h in a row."""

        def step() -> RowOutcome:
            rewards, features, over = copy.advance(np.zeros(1, dtype=int), np.array([action]), h)
            return RowOutcome(float(rewards[0]), features[0], bool(over[0]), _only(copy))

        copy = self._copies[row]
        return _outcome(step, f"{copy.place(0, h)}: ")

    def picture(self, row: int) -> np.ndarray:
        """What the environment of a row draws of itself, bytes [y, x, 3]; raises where it draws nothing of the kind."""
        return self._copies[row].picture()

    def close(self) -> None:
        """Close the copies."""
        for copy in self._copies:
            copy.close()


def _only(copy: Copies) -> np.ndarray | None:
    """What is allowed in the one row of a player, [A]."""
    return None if copy.allowed is None else copy.allowed[0].copy()


def _outcome(play: Callable[[], RowOutcome], where: str = "") -> RowOutcome | str:
    """What a row did, or one line that says why it did not."""
    try:
        found = play()
    except InputError as error:
        return str(error)
    if not abs(found.reward) <= LARGEST:
        return f"{where}reward = {found.reward:g}, must be finite and at most {LARGEST:g}"
    if not (np.abs(found.features) <= LARGEST).all():
        j = int(np.flatnonzero(~(np.abs(found.features) <= LARGEST))[0])
        return f"{where}feature {j} = {found.features[j]:g}, must be finite and at most {LARGEST:g}"
    return found
