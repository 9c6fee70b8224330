"""Images seen through a small encoder, in NumPy: what a stored policy needs to act.

An observation is kept as a row of bytes: its images, each reduced to at most `SIDE` rows and columns by the means of
blocks, and its other numbers as they are (float32). The encoder makes of it

    z = (out(k, hidden(k)) - centre) / spread,        and the other numbers,

which stand in the place of the features. k says for every channel of every convolution where it is largest (the mean
of the places under a softmax, after the spatial softmax of Levine et al. 2016) and how large: what stands at a place
where nothing ever stood is still seen to be there, which a layer with a weight for every place cannot do. `embedded`
is written once for NumPy and JAX, so that training and acting cannot differ; how the weights are found:
learning/images/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.policies.convolution import KERNEL, LEAST, patches, size_after
from tailrank.policies.moved import Moved
from tailrank.policies.tables import Policy
from tailrank.policies.wrapping import WrappingPolicy

SIDE = 40
"""Rows and columns of an image as it is kept, at most."""
CHANNELS = (8, 16, 16)
"""Of the convolutions; a small image has the first two alone."""
TOGETHER = 16
"""Rows that are encoded at once, always as many: so an image has the same numbers to the last bit in any company."""

Weights = Mapping[str, Any]


@dataclass(frozen=True)
class ShownImage:
    """An image within the features: where it begins, and its height, width and channels."""

    first: int
    shape: tuple[int, int, int]

    @property
    def pixels(self) -> int:
        """Features that it takes."""
        h, w, c = self.shape
        return h * w * c

    @property
    def block(self) -> int:
        """Rows and columns of a block of which one mean is kept."""
        return -(-max(self.shape[:2]) // SIDE)

    @property
    def kept(self) -> tuple[int, int, int]:
        """Its shape as it is kept."""
        h, w, c = self.shape
        return -(-h // self.block), -(-w // self.block), c

    def reduced(self, features: np.ndarray) -> np.ndarray:
        """The image as it is kept, uint8 [n, bytes], from features [n, m] in [0, 1]."""
        h, w, c = self.shape
        x, size = features[:, self.first : self.first + self.pixels].reshape(-1, h, w, c), self.block
        if size > 1:
            for axis, long in ((1, h), (2, w)):
                starts = np.arange(0, long, size)
                counts = np.diff(np.append(starts, long)).reshape([-1 if i == axis else 1 for i in range(4)])
                x = np.add.reduceat(x, starts, axis=axis) / counts
        return np.rint(255.0 * np.clip(x, 0.0, 1.0)).astype(np.uint8).reshape(len(x), -1)


@dataclass(frozen=True)
class ImageLayout:
    """Where the images are among m features."""

    n_features: int
    images: tuple[ShownImage, ...]

    @cached_property
    def others(self) -> np.ndarray:
        """The features that belong to no image, [k]."""
        image = np.zeros(self.n_features, dtype=bool)
        for one in self.images:
            image[one.first : one.first + one.pixels] = True
        return np.flatnonzero(~image)

    @cached_property
    def ends(self) -> np.ndarray:
        """Where each image ends in a row of bytes, [images]."""
        return np.cumsum([np.prod(one.kept) for one in self.images])

    @property
    def width(self) -> int:
        """Bytes of a row."""
        return int(self.ends[-1]) + 4 * self.others.size

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Observations as they are kept, uint8 [..., width], from features [..., m]."""
        x = np.asarray(features).reshape(-1, self.n_features)
        rest = np.ascontiguousarray(x[:, self.others], dtype="<f4").view(np.uint8)
        found = np.concatenate([*(one.reduced(x) for one in self.images), rest.reshape(len(x), -1)], axis=1)
        return found.reshape(*features.shape[:-1], self.width)

    def pixels(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """The images, uint8 [..., rows, columns, channels] each, from rows [..., width]."""
        parts = np.split(rows[..., : self.ends[-1]], self.ends[:-1], axis=-1)
        return tuple(x.reshape(*rows.shape[:-1], *one.kept) for one, x in zip(self.images, parts, strict=True))

    def rest(self, rows: np.ndarray) -> np.ndarray:
        """The other numbers, float32 [..., k], from rows [..., width]."""
        return np.ascontiguousarray(rows[..., self.ends[-1] :]).view("<f4").astype(np.float32)


def layers_of(image: ShownImage) -> tuple[int, ...]:
    """The channels of its convolutions."""
    return CHANNELS if size_after(size_after(min(image.kept[:2]))) >= KERNEL else CHANNELS[:2]


def embedded(xp: Any, weights: Weights, images: tuple[Any, ...]) -> Any:
    """What the network makes of images [n, rows, columns, channels] each, in 0..255: [n, d]; xp: numpy or jax.numpy."""
    found = []
    for i, x in enumerate(images):
        y, j = (x - weights[f"mean{i}"]) * weights[f"scale{i}"], 0
        while f"conv{i}.{j}" in weights:
            y = patches(xp, y) @ weights[f"conv{i}.{j}"] + weights[f"conv{i}.{j}.bias"]
            found += _largest(xp, y, weights[f"sharp{i}.{j}"])
            y, j = xp.maximum(y, 0.0), j + 1
    k = xp.concatenate(found, axis=1)
    inner = xp.maximum(k @ weights["hidden"] + weights["hidden.bias"], 0.0)
    return xp.concatenate([k, inner], axis=1) @ weights["out"] + weights["out.bias"]


def _largest(xp: Any, y: Any, sharp: Any) -> list[Any]:
    """Where channels y [n, rows, columns, c] are largest, from -1 to 1 down and across, and how large: [n, c] each."""
    n, rows, columns, c = y.shape
    odds = (y * sharp).reshape(n, rows * columns, c)
    odds = xp.exp(odds - odds.max(axis=1, keepdims=True))
    share = odds / odds.sum(axis=1, keepdims=True)
    down, across = (xp.linspace(-1.0, 1.0, size, dtype=y.dtype) for size in (rows, columns))
    places = xp.stack([xp.repeat(down, columns), xp.tile(across, rows)])
    where = places @ share
    size = (share * y.reshape(n, rows * columns, c)).sum(axis=1)
    return [where[:, 0], where[:, 1], size]


@dataclass(frozen=True, eq=False)
class ImageEncoder:
    """Encodes rows of bytes: weights by name (float32), see `described`."""

    layout: ImageLayout
    weights: dict[str, np.ndarray]

    @property
    def numbers(self) -> int:
        """d, the numbers that images become."""
        return int(self.weights["centre"].size)

    @property
    def n_seen(self) -> int:
        """d and the other numbers."""
        return self.numbers + self.layout.others.size

    def seen(self, rows: np.ndarray) -> np.ndarray:
        """z and the other numbers, float32 [n, d + k], of rows [n, width]."""
        z = np.empty((len(rows), self.numbers), dtype=np.float32)
        for i in range(0, len(rows), TOGETHER):
            some = rows[i : i + TOGETHER]
            full = (
                some if len(some) == TOGETHER else np.concatenate([some, np.repeat(some[:1], TOGETHER - len(some), 0)])
            )
            images = tuple(x.astype(np.float32) for x in self.layout.pixels(full))
            z[i : i + TOGETHER] = embedded(np, self.weights, images)[: len(some)]
        z = (z - self.weights["centre"]) / self.weights["spread"]
        return np.concatenate([z, self.layout.rest(rows)], axis=1)


def described(layout: ImageLayout) -> dict[str, str]:
    """The weights of an encoder, as `check_arrays` takes them."""
    found: dict[str, str] = {}
    k = 0
    for i, image in enumerate(layout.images):
        h, w, c = image.kept
        found |= {f"mean{i}": f"float32 [{h}, {w}, {c}]", f"scale{i}": "float32 [] > 0"}
        for j, channels in enumerate(layers_of(image)):
            found |= {f"conv{i}.{j}": f"float32 [{KERNEL**2 * c}, {channels}]"}
            found |= dict.fromkeys((f"conv{i}.{j}.bias", f"sharp{i}.{j}"), f"float32 [{channels}]")
            c, k = channels, k + 3 * channels
    found |= {"hidden": f"float32 [{k}, F]", "hidden.bias": "float32 [F]", "out": f"float32 [{k}+F, d]"}
    return found | {"out.bias": "float32 [d]", "centre": "float32 [d]", "spread": "float32 [d] > 0"}


def layout_of(n_features: int, images: list[tuple[int, tuple[int, ...]]]) -> ImageLayout:
    """The layout with images (first feature, shape); raises where they do not fit into m features."""
    at = 0
    for first, shape in images:
        if len(shape) != 3 or min(shape[:2]) < LEAST or shape[2] < 1 or first < at:
            raise InputError(f"image: begins at {first} with shape {shape}, which does not fit")
        at = first + shape[0] * shape[1] * shape[2]
    if not images or at > n_features:
        raise InputError(f"images: need {at} features, there are {n_features}")
    return ImageLayout(n_features, tuple(ShownImage(first, (shape[0], shape[1], shape[2])) for first, shape in images))


@dataclass(frozen=True)
class ImagePolicy(WrappingPolicy):
    """A `Policy` on features [n, m] that hands z to `inner`.

    Memory [n, w + d + k]: that of the inner policy (w numbers), and what it sees next (NaN before the first step), so
    that every image is encoded once.
    """

    inner: Policy
    encoder: ImageEncoder

    @property
    def n_features(self) -> int:
        """m."""
        return self.encoder.layout.n_features

    @property
    def n_actions(self) -> Any:
        """A, where the inner policy knows it."""
        return getattr(self.inner, "n_actions", None)

    @property
    def horizon(self) -> Any:
        """H, where the inner policy knows it."""
        return getattr(self.inner, "horizon", None)

    def start(self, n: int) -> np.ndarray:
        """The memory of n fresh episodes."""
        return np.column_stack([self.inner.start(n), np.full((n, self.encoder.n_seen), np.nan)])

    def seen(self, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """z and the other numbers [n, d + k]: as they are remembered, or of features [n, m]."""
        known = memory[:, memory.shape[1] - self.encoder.n_seen :]
        if not np.isnan(known[:, 0]).any():
            return known
        return self._encoded(states)

    def _encoded(self, states: np.ndarray) -> np.ndarray:
        return self.encoder.seen(self.encoder.layout.rows(states)).astype(np.float64)

    def own_memory(self, memory: np.ndarray) -> np.ndarray:
        """The memory of the inner policy."""
        wide = memory.shape[1] - self.encoder.n_seen
        return memory[:, 0] if wide == 1 else memory[:, :wide]

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """What the inner policy does at z."""
        return self.inner.act(h, self.seen(states, memory), self.own_memory(memory))

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """That of the inner policy, and what is seen next."""
        after = self._encoded(moved.next_states)
        told = moved._replace(states=self.seen(moved.states, memory), next_states=after)
        return np.column_stack([self.inner.update(h, told, self.own_memory(memory)), after])
