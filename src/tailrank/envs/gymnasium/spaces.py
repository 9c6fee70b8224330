"""Observations as vectors: a fixed, documented encoding of a Gymnasium observation space.

    Discrete(n)      one-hot [n]
    MultiDiscrete    the one-hots of its entries, one after the other
    MultiBinary      its bits
    Box              its numbers, flattened row by row; uint8 is scaled from its bounds to [0, 1]
    Tuple, Dict      their parts one after the other, in the space's own order

A Box of three axes, or of two with uint8, is an image: `image_shape` is (height, width, channels), and channels that
come first (fewer than rows and columns) are moved last before flattening. Text, Graph, Sequence and OneOf have no fixed
length and are refused. An encoder is plain data: it is stored with a policy and needs no Gymnasium to encode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.policies.convolution import LEAST

MOST_FEATURES = 10**6
"""Longest vector that is built."""

MOST_VALUES = 10**6
"""Most distinct observations for which tables make sense."""

FAMILIES = ("gymnasium", "gym")
SPACES = ("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Tuple", "Dict", "Text", "Graph", "Sequence", "OneOf")
KINDS = ("one-hot", "bits", "numbers")


class Misfit(InputError):
    """An observation that does not fit its space: the place and the value; `row` is its place in the batch."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


def kind_of(space: object) -> str:
    """The name of the Gymnasium space that `space` is or inherits from, else of its type with its module."""
    for base in type(space).__mro__:
        if base.__name__ in SPACES and base.__module__.split(".")[0] in FAMILIES:
            return base.__name__
    return f"{type(space).__module__}.{type(space).__name__}"


@dataclass(frozen=True)
class Leaf:
    """One Discrete, MultiDiscrete, MultiBinary or Box within an observation.

    path: keys and places that lead to it. shape: of its value. sizes, starts: number of values and least value of
    every entry (one-hot). low, high: bounds that are scaled to [0, 1], one or one for each entry; () if none.
    """

    path: tuple[str | int, ...]
    kind: str
    shape: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    channels_first: bool = False

    @property
    def width(self) -> int:
        """How many features it has."""
        return sum(self.sizes) if self.kind == "one-hot" else math.prod(self.shape)

    @property
    def place(self) -> str:
        """Its name in messages, such as observation['speed']."""
        return "observation" + "".join(f"[{key!r}]" for key in self.path)

    @cached_property
    def firsts(self) -> np.ndarray:
        """Where the one-hot of every entry begins, [k]."""
        return np.concatenate([[0], np.cumsum(self.sizes[:-1], dtype=np.int64)])

    def at(self, index: int) -> str:
        """The name of its entry with this flat index."""
        where = ", ".join(str(i) for i in np.unravel_index(index, self.shape))
        return f"{self.place}[{where}]" if where else self.place

    def values(self, observation: Any, row: int, batch: tuple[int, ...] = ()) -> np.ndarray:
        """Its value in `observation` as an array of numbers, [*batch, *shape]."""
        for depth, key in enumerate(self.path):
            try:
                observation = observation[key]
            except (KeyError, IndexError, TypeError):
                parent = Leaf(self.path[:depth], self.kind, ()).place
                raise Misfit(f"{parent} = {observation!r:.60}: has no entry {key!r}", row) from None
        shape = (*batch, *self.shape)
        try:
            array = np.asarray(observation)
        except ValueError:
            raise Misfit(f"{self.place} = {observation!r:.60}: must be an array of shape {shape}", row) from None
        if array.dtype.kind not in "biuf":
            raise Misfit(f"{self.place} = {observation!r:.60}: must be made of numbers", row)
        if array.shape != shape:
            raise Misfit(f"{self.place}: has shape {array.shape}, the space says {shape}", row)
        return array

    def fill(self, values: np.ndarray, out: np.ndarray) -> None:
        """Write the features of `values` [n, *shape] to `out` [n, width], which is zero before."""
        n = values.shape[0]
        if self.kind == "one-hot":
            entries = values.reshape(n, len(self.sizes))
            index = entries - np.asarray(self.starts)
            _refuse((index < 0) | (index >= np.asarray(self.sizes)) | (index % 1 != 0), self, entries, self._range)
            out[np.arange(n)[:, None], self.firsts + index.astype(np.int64)] = 1.0
            return
        out[:] = (np.moveaxis(values, 1, -1) if self.channels_first else values).reshape(out.shape)
        if self.kind == "bits":
            _refuse((out != 0) & (out != 1), self, out, lambda _: "must be 0 or 1")
            return
        _refuse(~np.isfinite(out), self, out, lambda _: "must be finite")
        if self.low:
            low, high = np.asarray(self.low), np.asarray(self.high)
            out[:] = (out - low) / np.where(high > low, high - low, 1.0)

    def _range(self, entry: int) -> str:
        first = self.starts[entry]
        return f"must be a whole number in {first}..{first + self.sizes[entry] - 1}"


def _refuse(bad: np.ndarray, leaf: Leaf, values: np.ndarray, rule: Any) -> None:
    """Raise a `Misfit` for the first entry that is marked, [n, k] each."""
    if bad.any():
        row, entry = (int(i) for i in np.argwhere(bad)[0])
        raise Misfit(f"{leaf.at(_original(leaf, entry))} = {values[row, entry]}: {rule(entry)}", row)


def _original(leaf: Leaf, entry: int) -> int:
    """The flat index before channels were moved last."""
    if not leaf.channels_first:
        return entry
    c, h, w = leaf.shape
    i, j, k = np.unravel_index(entry, (h, w, c))
    return int(np.ravel_multi_index((k, i, j), leaf.shape))


@dataclass(frozen=True)
class Encoder:
    """The encoding of one observation space, as a list of its leaves.

    >>> from gymnasium.spaces import Discrete, Tuple
    >>> encoder = Encoder.of(Tuple((Discrete(2), Discrete(3, start=1))))
    >>> encoder.encode([(1, 3), (0, 1)])
    array([[0., 1., 0., 0., 1.],
           [1., 0., 1., 0., 0.]])
    >>> encoder.n_values, encoder.code((1, 3))
    (6, 5)
    """

    leaves: tuple[Leaf, ...]

    @classmethod
    def of(cls, space: object) -> Encoder:
        """The encoder of a Gymnasium observation space."""
        result = cls(tuple(_leaves(space, ())))
        if not 1 <= result.n_features <= MOST_FEATURES:
            raise InputError(
                f"observation space {space!s:.80}: makes {result.n_features} features, must be 1..{MOST_FEATURES}"
            )
        return result

    @cached_property
    def n_features(self) -> int:
        """m, the length of an encoded observation."""
        return sum(leaf.width for leaf in self.leaves)

    @cached_property
    def n_values(self) -> int | None:
        """The number of distinct observations if the space is finite, else None. A Box never counts as finite."""
        if any(leaf.kind == "numbers" for leaf in self.leaves):
            return None
        return math.prod(math.prod(leaf.sizes) if leaf.sizes else 2**leaf.width for leaf in self.leaves)

    @property
    def is_table(self) -> bool:
        """Whether observations are few enough to be numbered (at most a million)."""
        return self.n_values is not None and self.n_values <= MOST_VALUES

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """(height, width, channels) of features that are one image, else None."""
        leaf = self.leaves[0]
        if len(self.leaves) > 1 or leaf.kind != "numbers" or not _is_image(leaf.shape, bool(leaf.low)):
            return None
        h, w, c = (*leaf.shape, 1)[:3] if not leaf.channels_first else (*leaf.shape[1:], leaf.shape[0])
        return h, w, c

    @cached_property
    def images(self) -> tuple[tuple[int, tuple[int, int, int]], ...]:
        """Every image of eight bits with at least `LEAST` rows and columns: its first feature, and (height, width,
        channels)."""
        found, first = [], 0
        for leaf in self.leaves:
            shape = Encoder((leaf,)).image_shape if leaf.low else None
            if shape is not None and min(shape[:2]) >= LEAST:
                found.append((first, shape))
            first += leaf.width
        return tuple(found)

    def encode(self, observations: Sequence[Any]) -> np.ndarray:
        """The features [n, m] of n observations."""
        return self.encode_leaves([self.copy_leaves(x, row) for row, x in enumerate(observations)])

    def copy_leaves(self, observation: Any, row: int = 0) -> list[np.ndarray]:
        """Copies of the values of its leaves: environments may use their arrays again, even for each other."""
        return [leaf.values(observation, row).copy() for leaf in self.leaves]

    def encode_leaves(self, taken: Sequence[list[np.ndarray]]) -> np.ndarray:
        """The features [n, m] of what `copy_leaves` returned for n observations."""
        return self._fill([np.array(values) for values in zip(*taken, strict=True)], len(taken))

    def encode_batch(self, batch: Any, n: int, rows: np.ndarray) -> np.ndarray:
        """The features [k, m] of these rows [k] of n observations that a vector environment has batched into one."""
        return self._fill([leaf.values(batch, 0, (n,))[rows] for leaf in self.leaves], len(rows))

    def _fill(self, parts: Sequence[np.ndarray], n: int) -> np.ndarray:
        out = np.zeros((n, self.n_features))
        first = 0
        for leaf, values in zip(self.leaves, parts, strict=True):
            leaf.fill(values, out[:, first : first + leaf.width])
            first += leaf.width
        return out

    def codes(self, features: np.ndarray) -> np.ndarray:
        """Numbers 0..n_values - 1 [n] of the observations with these features [n, m], for finite spaces."""
        if not self.is_table:
            found = "infinitely many" if self.n_values is None else f"{self.n_values}"
            raise InputError(f"observation: has {found} values, tables need at most {MOST_VALUES}")
        result = np.zeros(len(features), dtype=np.int64)
        first = 0
        for leaf in self.leaves:
            for size in leaf.sizes or (1,) * leaf.width:
                block = features[:, first : first + size]
                digit = block.argmax(axis=1) if leaf.sizes else block[:, 0].astype(np.int64)
                result = result * (size if leaf.sizes else 2) + digit
                first += size
        return result

    def code(self, observation: Any) -> int:
        """The number of one observation, for finite spaces; the first entry counts most."""
        return int(self.codes(self.encode([observation]))[0])

    def to_json(self) -> list[dict[str, Any]]:
        """Plain lists, dicts, numbers and texts that `from_json` reads back."""
        result = []
        for leaf in self.leaves:
            said = {f.name: getattr(leaf, f.name) for f in fields(leaf)}
            kept = {k: v for k, v in said.items() if k in ("path", "kind", "shape") or v not in ((), False)}
            result.append({k: list(v) if isinstance(v, tuple) else v for k, v in kept.items()})
        return result

    @classmethod
    def from_json(cls, data: object) -> Encoder:
        """The encoder that was stored; what does not fit together is refused."""
        try:
            leaves = tuple(_leaf_in(part) for part in data)  # type: ignore[attr-defined]
            result = cls(leaves)
            if not leaves or not 1 <= result.n_features <= MOST_FEATURES:
                raise InputError("must have 1 or more features")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"encoder: is damaged ({error})") from None
        return result


def _leaf_in(part: dict[str, Any]) -> Leaf:
    path = tuple(key if isinstance(key, str) else int(key) for key in part["path"])
    shape, sizes, starts = (tuple(int(x) for x in part.get(name, ())) for name in ("shape", "sizes", "starts"))
    low, high = (tuple(float(x) for x in part.get(name, ())) for name in ("low", "high"))
    leaf = Leaf(path, part["kind"], shape, sizes, starts, low, high, bool(part.get("channels_first", False)))
    entries = math.prod(shape)
    counts = entries if leaf.kind == "one-hot" else 0
    fits = (
        leaf.kind in KINDS
        and min(shape, default=1) > 0
        and min(sizes, default=1) > 0
        and len(sizes) == len(starts) == counts
        and len(low) == len(high)
        and len(low) in ((0, 1, entries) if leaf.kind == "numbers" else (0,))
        and np.isfinite([*low, *high]).all()
        and (not leaf.channels_first or (leaf.kind == "numbers" and len(shape) == 3))
    )
    if not fits:
        raise InputError(f"{leaf.place}: its kind, shape, sizes and bounds do not fit together")
    return leaf


def _leaves(space: Any, path: tuple[str | int, ...]) -> list[Leaf]:
    kind = kind_of(space)
    place = Leaf(path, "", ()).place
    if kind == "Discrete":
        return [Leaf(path, "one-hot", (), (int(space.n),), (int(space.start),))]
    if kind == "MultiDiscrete":
        sizes = np.asarray(space.nvec)
        starts = np.broadcast_to(getattr(space, "start", 0), sizes.shape)
        return [Leaf(path, "one-hot", sizes.shape, tuple(map(int, sizes.ravel())), tuple(map(int, starts.ravel())))]
    if kind == "MultiBinary":
        return [Leaf(path, "bits", tuple(space.shape))]
    if kind == "Box":
        return [_box(space, path)]
    if kind in ("Tuple", "Dict"):
        parts = space.spaces.items() if kind == "Dict" else enumerate(space.spaces)
        result = []
        for key, part in parts:
            if not isinstance(key, str | int):
                raise InputError(f"{place}: has the key {key!r:.40}, must be a text or a whole number")
            result += _leaves(part, (*path, key))
        return result
    raise InputError(
        f"{place}: a {kind} space ({space!s:.60}) has no encoding of fixed length; wrap the environment "
        "(gymnasium.wrappers.TransformObservation) so that it observes a Box, Discrete, Tuple or Dict space"
    )


def _box(space: Any, path: tuple[str | int, ...]) -> Leaf:
    shape, eight_bits = tuple(int(k) for k in space.shape), space.dtype == np.uint8
    low, high = (
        (tuple(float(x) for x in (bound.ravel()[:1] if (bound == bound.ravel()[0]).all() else bound.ravel())))
        if eight_bits and bound.size
        else ()
        for bound in (np.asarray(space.low), np.asarray(space.high))
    )
    entries = max(len(low), len(high))
    low, high = (bound * entries if len(bound) == 1 else bound for bound in (low, high))
    first = _is_image(shape, eight_bits) and len(shape) == 3 and shape[0] < min(shape[1:])
    if first and entries > 1:
        low, high = (tuple(np.moveaxis(np.reshape(bound, shape), 0, -1).ravel().tolist()) for bound in (low, high))
    return Leaf(path, "numbers", shape, low=low, high=high, channels_first=first)


def _is_image(shape: tuple[int, ...], eight_bits: bool) -> bool:
    return len(shape) == 3 or (len(shape) == 2 and eight_bits)
