"""Actions as numbers 0..A - 1: a fixed, documented list of the actions of a Gymnasium action space.

    Discrete(n)      its n values, counted from its start
    MultiDiscrete    all combinations of its entries, the last entry changing fastest
    MultiBinary      all combinations of its bits
    Box              `levels` evenly spaced values from low to high in every dimension (one level: the middle), rounded
                     and made distinct where the box holds whole numbers; all combinations of them
    Tuple, Dict      all combinations of their parts

Combinations beyond `MOST_ACTIONS` are refused. The list is plain data and is stored with a policy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.gymnasium.spaces import kind_of

LEVELS = 5
"""Values of every dimension of a Box unless the user says otherwise."""

MOST_ACTIONS = 1000
"""Most combinations that are listed."""


@dataclass(frozen=True)
class Choice:
    """An array of numbers: every entry takes one of its own levels. shape: of the array, () for a single number."""

    shape: tuple[int, ...]
    dtype: str
    levels: tuple[tuple[float, ...], ...]

    @cached_property
    def size(self) -> int:
        """The number of combinations."""
        return math.prod(len(values) for values in self.levels)

    @cached_property
    def table(self) -> np.ndarray:
        """All combinations, [A, *shape]."""
        rows = list(itertools.product(*self.levels))
        return np.array(rows).astype(self.dtype).reshape(len(rows), *self.shape)

    def take(self, indices: np.ndarray | int) -> Any:
        """A copy of the combinations with these numbers; one of a Box without axes is an array, as its samples are."""
        taken = self.table[indices].copy()
        return np.asarray(taken) if self.table.dtype.kind == "f" else taken

    def label(self, index: int) -> str:
        """One combination for display."""
        entries = [f"{x:g}" for x in self.table[index].ravel()]
        return entries[0] if len(entries) == 1 else f"({', '.join(entries)})"


@dataclass(frozen=True)
class ActionGroup:
    """A Tuple (keys is None) or a Dict of parts."""

    keys: tuple[str | int, ...] | None
    parts: tuple[Choice | ActionGroup, ...]

    @cached_property
    def size(self) -> int:
        """The number of combinations."""
        return math.prod(part.size for part in self.parts)

    def _digits(self, indices: Any) -> tuple[Any, ...]:
        return np.unravel_index(indices, [part.size for part in self.parts])

    def take(self, indices: np.ndarray | int) -> Any:
        """The combinations with these numbers, batched part by part."""
        values = tuple(part.take(i) for part, i in zip(self.parts, self._digits(indices), strict=True))
        return values if self.keys is None else dict(zip(self.keys, values, strict=True))

    def label(self, index: int) -> str:
        """One combination for display."""
        texts = [part.label(i) for part, i in zip(self.parts, self._digits(index), strict=True)]
        if self.keys is not None:
            texts = [f"{key}={text}" for key, text in zip(self.keys, texts, strict=True)]
        return f"({', '.join(texts)})"


@dataclass(frozen=True)
class Actions:
    """The listed actions of one action space.

    >>> from gymnasium.spaces import Box
    >>> actions = Actions.of(Box(-1, 1, (1,)), levels=3)
    >>> actions.n, actions.decode(2), actions.labels
    (3, array([1.], dtype=float32), ('-1', '0', '1'))
    """

    root: Choice | ActionGroup

    @classmethod
    def of(cls, space: object, levels: int | Sequence[int] | None = None) -> Actions:
        """The actions of a Gymnasium space; `levels` for each dimension of a Box, one number or one for each."""
        root = _node(space, levels, "action")
        if isinstance(root, ActionGroup) and root.size > MOST_ACTIONS:
            raise InputError(
                f"action space {space!s:.80}: its parts combine to {root.size} actions, must be at most {MOST_ACTIONS}"
                f"; lower levels (now {_say_levels(levels)}) or wrap the environment so that it takes fewer"
            )
        return cls(root)

    @property
    def n(self) -> int:
        """A, how many there are."""
        return self.root.size

    def decode(self, index: int) -> Any:
        """The action with this number, for `env.step`."""
        return self.root.take(int(index))

    def decode_batch(self, indices: np.ndarray) -> Any:
        """The actions with these numbers [n], batched for the `step` of a vector environment."""
        return self.root.take(np.asarray(indices))

    @property
    def labels(self) -> tuple[str, ...]:
        """What to call them, [A]."""
        return tuple(self.root.label(i) for i in range(self.n))

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and texts that `from_json` reads back."""
        return _out(self.root)

    @classmethod
    def from_json(cls, data: Any) -> Actions:
        """The actions that were stored; what does not fit together is refused."""
        try:
            return cls(_in(data))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise InputError(f"actions: are damaged ({error})") from None


def _node(space: Any, levels: int | Sequence[int] | None, place: str) -> Choice | ActionGroup:
    kind = kind_of(space)
    if kind == "Discrete":
        first = int(space.start)
        return Choice((), str(space.dtype), (tuple(range(first, first + int(space.n))),))
    if kind in ("MultiDiscrete", "MultiBinary"):
        shape = tuple(int(k) for k in space.shape)
        counts = np.asarray(space.nvec).ravel() if kind == "MultiDiscrete" else np.full(math.prod(shape), 2)
        starts = np.broadcast_to(getattr(space, "start", 0), shape).ravel()
        size = math.prod(int(n) for n in counts)
        if size > MOST_ACTIONS:
            raise InputError(
                f"{place} space {space!s:.80}: has {size} combinations, must be at most {MOST_ACTIONS}; wrap the "
                "environment (gymnasium.wrappers.TransformAction) so that it takes fewer"
            )
        entries = tuple(tuple(range(int(a), int(a) + int(n))) for a, n in zip(starts, counts, strict=True))
        return Choice(shape, str(space.dtype), entries)
    if kind == "Box":
        return _grid(space, levels, place)
    if kind in ("Tuple", "Dict"):
        items = list(space.spaces.items() if kind == "Dict" else enumerate(space.spaces))
        bad = next((key for key, _ in items if not isinstance(key, str | int)), None)
        if bad is not None:
            raise InputError(f"{place}: has the key {bad!r:.40}, must be a text or a whole number")
        parts = tuple(_node(part, levels, f"{place}[{key!r}]") for key, part in items)
        return ActionGroup(tuple(key for key, _ in items) if kind == "Dict" else None, parts)
    raise InputError(
        f"{place}: a {kind} space ({space!s:.60}) has no list of actions; wrap the environment "
        "(gymnasium.wrappers.TransformAction) so that it takes Discrete, MultiDiscrete or Box actions"
    )


def _grid(space: Any, levels: int | Sequence[int] | None, place: str) -> Choice:
    low, high = (np.asarray(bound, dtype=np.float64).ravel() for bound in (space.low, space.high))
    k, whole = low.size, np.dtype(space.dtype).kind in "biu"
    # Whole numbers beyond 2^53 are not exact as floats.
    bad = np.flatnonzero(~(np.maximum(np.abs(low), np.abs(high)) < (2.0**53 if whole else 1e300)))
    if bad.size:
        i = bad[0]
        raise InputError(
            f"{place} space {space!s:.80}: dimension {i} has bounds {low[i]:g} and {high[i]:g}, must be finite to be "
            "divided into levels; wrap the environment (gymnasium.wrappers.RescaleAction)"
        )
    counts = _counts(levels, k, place)
    entries = tuple(_levels(a, b, n, whole) for a, b, n in zip(low, high, counts, strict=True))
    size = math.prod(len(values) for values in entries)
    if size > MOST_ACTIONS:
        most = next((n for n in range(LEVELS * 2, 1, -1) if n**k <= MOST_ACTIONS), 0)
        advice = (
            f"lower levels (to {most}: {most**k} actions), or give one for each dimension"
            if most
            else ("even 2 levels are too many, wrap the environment so that it takes fewer dimensions")
        )
        raise InputError(
            f"{place} space {space!s:.80}: {k} dimensions with levels {_say_levels(levels)} make {size} actions, "
            f"must be at most {MOST_ACTIONS}; {advice}"
        )
    return Choice(tuple(int(n) for n in space.shape), str(space.dtype), entries)


def finer_levels(space: Any, levels: int | Sequence[int] | None, times: int) -> list[int]:
    """Values in every dimension of a grid of Box actions that is so many times finer, a power of 2."""
    if checks.whole(times, "refine", least=2) & (times - 1):
        raise InputError(f"refine = {times}: must be 2, 4, 8 or another power of 2")
    if kind_of(space) != "Box" or np.dtype(space.dtype).kind != "f":
        raise InputError(f"refine = {times}: is for Box actions of real numbers, not for {space!s:.60}")
    return [(n - 1) * times + 1 for n in _counts(levels, int(np.prod(space.shape)), "action")]


def _counts(levels: int | Sequence[int] | None, k: int, place: str) -> list[int]:
    if levels is None or np.ndim(levels) == 0:
        return [checks.whole(LEVELS if levels is None else levels, "levels", least=2)] * k
    counts = [checks.whole(n, "levels") for n in levels]  # type: ignore[union-attr]
    if len(counts) != k:
        raise InputError(f"levels = {_say_levels(levels)}: must be one number, or {k} for the dimensions of {place}")
    return counts


def _levels(low: float, high: float, n: int, whole: bool) -> tuple[float, ...]:
    values = np.linspace(low, high, n) if n > 1 else np.array([(low + high) / 2])
    return tuple(np.unique(np.rint(values) if whole else values).tolist())


def _say_levels(levels: int | Sequence[int] | None) -> str:
    if levels is None:
        return str(LEVELS)
    return str(levels) if np.ndim(levels) == 0 else ",".join(map(str, levels))  # type: ignore[arg-type]


def _out(node: Choice | ActionGroup) -> dict[str, Any]:
    if isinstance(node, Choice):
        return {"shape": list(node.shape), "dtype": node.dtype, "levels": [list(values) for values in node.levels]}
    keys = None if node.keys is None else list(node.keys)
    return {"keys": keys, "parts": [_out(part) for part in node.parts]}


def _in(data: dict[str, Any]) -> Choice | ActionGroup:
    if "parts" in data:
        keys = None if data["keys"] is None else tuple(k if isinstance(k, str) else int(k) for k in data["keys"])
        group = ActionGroup(keys, tuple(_in(part) for part in data["parts"]))
        if not group.parts or (keys is not None and len(keys) != len(group.parts)) or group.size > MOST_ACTIONS:
            raise InputError("keys and parts do not fit together")
        return group
    dtype = np.dtype(data["dtype"])
    levels = tuple(tuple(checks.number(x, "level") for x in values) for values in data["levels"])
    node = Choice(tuple(int(n) for n in data["shape"]), dtype.name, levels)
    single = len(levels) == 1 or node.size <= MOST_ACTIONS
    if dtype.kind not in "biuf" or not all(levels) or math.prod(node.shape) != len(levels) or not single:
        raise InputError("shape, type and levels do not fit together")
    return node
