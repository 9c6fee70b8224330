"""Masks in the `info` of a Gymnasium environment: which actions are allowed now.

    info["action_mask"]           true or false (1 or 0) for each of the A actions, in the order in which they are
                                  numbered; or, as `MultiDiscrete.sample(mask=...)` has it, a tuple with one such array
                                  for each entry, all of whose combinations are allowed
    info["admissible_actions"]    the allowed actions, as the numbers of a Discrete space, or their places in the list

The first key that is there counts. An environment without them, or with None there, allows everything. Where a wrapper
changed the action space, `info` still speaks of the actions inside, and is not asked unless somebody says so.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.gymnasium.actions import Actions, Choice
from tailrank.envs.gymnasium.spaces import kind_of

LISTED = {"action_mask": False, "admissible_actions": True}
"""Keys of `info`, and whether allowed actions are listed there or a mask stands there."""


@dataclass(frozen=True)
class MaskReader:
    """Reads masks for the A actions of a space, those of entry i being counts[i]; `first` is the number of action 0."""

    n_actions: int
    counts: tuple[int, ...]
    first: int

    @classmethod
    def of(cls, env: Any, space: Any, actions: Actions, masks: bool | None = None) -> MaskReader | None:
        """The reader for an environment with this action space; None where masks say nothing about its numbered
        actions, as in a Box. masks: whether they are read; None: if the actions are those of the environment inside."""
        inside = getattr(getattr(env, "unwrapped", env), "action_space", space)
        if masks is False or (masks is None and not hasattr(env, "num_envs") and inside != space):
            return None
        if kind_of(space) not in ("Discrete", "MultiDiscrete", "MultiBinary") or not isinstance(actions.root, Choice):
            return None
        levels = actions.root.levels
        first = int(levels[0][0]) if kind_of(space) == "Discrete" else 0
        return cls(actions.n, tuple(len(values) for values in levels), first)

    def read(self, info: Any, where: str) -> np.ndarray | None:
        """What is allowed, [A]; None where `info` does not say."""
        key = next((key for key in LISTED if info.get(key) is not None), None) if isinstance(info, Mapping) else None
        if key is None:
            return None
        return (self._listed if LISTED[key] else self._mask)(info[key], f"{where}: info[{key!r}] = {info[key]!r:.60}")

    def _mask(self, found: Any, what: str) -> np.ndarray:
        parts = found if isinstance(found, tuple) else (found,)
        counts = self.counts if isinstance(found, tuple) else (self.n_actions,)
        arrays = [_numbers(part) for part in parts]
        if [a.shape for a in arrays] != [(n,) for n in counts] or not all(((a == 0) | (a == 1)).all() for a in arrays):
            times = " and ".join(str(n) for n in counts)
            raise InputError(f"{what}, must be {times} times True or False (1 or 0)")
        allowed = functools.reduce(np.logical_and.outer, [a.astype(bool) for a in arrays]).ravel()
        return _some(allowed, what)

    def _listed(self, found: Any, what: str) -> np.ndarray:
        numbers = _numbers(sorted(found) if isinstance(found, set | frozenset) else found)
        numbers = numbers.astype(np.int64) if np.size(found) == 0 else numbers
        whole = numbers.ndim == 1 and numbers.dtype.kind in "iu"
        if not whole or not ((numbers >= self.first) & (numbers < self.first + self.n_actions)).all():
            last = self.first + self.n_actions - 1
            raise InputError(f"{what}, must be a list of actions {self.first}..{last}")
        allowed = np.zeros(self.n_actions, dtype=bool)
        allowed[numbers - self.first] = True
        return _some(allowed, what)


class RowMasks:
    """What is allowed in rows 0..n - 1 now: `allowed` [n, A], or None as long as nobody says something."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, n: int) -> None:
        """Begin n episodes."""
        self._n = n
        self.allowed: np.ndarray | None = None

    def put(self, row: int, allowed: np.ndarray | None) -> None:
        """What is allowed [A] in a row; None: everything."""
        if self.allowed is None and allowed is not None:
            self.allowed = np.ones((self._n, allowed.size), dtype=bool)
        if self.allowed is not None:
            self.allowed[row] = True if allowed is None else allowed


def in_letters(allowed: np.ndarray | None) -> str | None:
    """A mask as a text of 0 and 1, for messages."""
    return None if allowed is None else (allowed + np.uint8(48)).astype(np.uint8).tobytes().decode()


def from_letters(text: str | None) -> np.ndarray | None:
    """The mask in such a text."""
    return None if text is None else np.frombuffer(text.encode(), dtype=np.uint8) == 49


def part_of(infos: Any, row: int) -> Any:
    """What the `infos` of a vector environment say of a row: `_key` says for which rows a key counts."""
    if not isinstance(infos, Mapping):
        return None
    return {
        key: infos[key][row] for key in LISTED if key in infos and (f"_{key}" not in infos or infos[f"_{key}"][row])
    }


def _numbers(values: Any) -> np.ndarray:
    """An array of numbers or bools; anything else becomes one of no shape that fits."""
    try:
        found = np.asarray(values)
    except (TypeError, ValueError):
        return np.zeros((0, 0))
    return found if found.dtype.kind in "biuf" else np.zeros((0, 0))


def _some(allowed: np.ndarray, what: str) -> np.ndarray:
    if not allowed.any():
        raise InputError(f"{what}, must allow an action as long as the episode goes on")
    return allowed
