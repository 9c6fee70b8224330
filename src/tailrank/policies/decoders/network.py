"""Networks that decode observations, in NumPy: what a stored policy needs to act.

    q(x, h) = softmax(beta (head_h(trunk_h(x))))

The trunk is nothing (`linear`), one or two layers of tanh (`mlp`), or two small convolutions and a layer (`conv`).
Steps enter through biases of their own in every layer and, with heads="step", a head of their own; a shared decoder
has one of each. `forward` is written once for NumPy and JAX, so that training and acting cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.policies.convolution import KERNEL, LEAST, convolved, size_after

ARCHITECTURES = ("linear", "mlp", "conv")
HEADS = ("step", "shared")
CHANNELS = (16, 32)
"""Of the two convolutions."""
BY_STEP = ("head", "bias")
"""How the names of arrays begin whose first axis is the step."""
CLIP = 10.0
"""Standardised features are cut here: what was almost constant in training must not shout later."""


@dataclass(frozen=True)
class NeuralSettings:
    """How a decoder is built and trained.

    width, layers: of the hidden layers. restarts: the best on held-out episodes is kept; a warm
    start takes the place of one. steps: at most so many gradient steps. batch: transitions a step of the episode
    that are used (H times as many in all when the decoder is shared). held_out: share of the episodes kept for early
    stopping. image_shape: (rows, columns, channels) for `conv`. ensemble: decoders fitted to measure disagreement.
    """

    width: int = 64
    layers: int = 1
    restarts: int = 4
    steps: int = 400
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3
    batch: int = 128
    held_out: float = 0.2
    architecture: str = "mlp"
    heads: str = "step"
    image_shape: tuple[int, ...] | None = None
    ensemble: int = 1

    def __post_init__(self) -> None:
        for name in ("width", "restarts", "steps", "batch", "ensemble"):
            checks.whole(getattr(self, name), name)
        checks.one_of(self.architecture, "architecture", ARCHITECTURES)
        checks.one_of(self.heads, "heads", HEADS)
        if self.layers not in (1, 2):
            raise InputError(f"layers = {self.layers}: must be 1 or 2")
        checks.positive(self.learning_rate, "learning_rate")
        checks.not_negative(self.weight_decay, "weight_decay")
        checks.inside(self.held_out, "held_out", "(0, 1)")
        if (self.image_shape is None) == (self.architecture == "conv"):
            raise InputError(f"image_shape = {self.image_shape}: is for architecture = 'conv', and needed there")
        if self.image_shape is not None and (len(self.image_shape) != 3 or min(self.image_shape[:2]) < LEAST):
            raise InputError(f"image_shape = {self.image_shape}: must be rows, columns (at least {LEAST}), channels")


@dataclass(frozen=True, eq=False)
class NeuralDecoder:
    """A trained network: weights by name; mean [S or 1, m] and scale [m] of the features. S is H, or 1 if shared."""

    weights: dict[str, np.ndarray]
    mean: np.ndarray
    scale: np.ndarray
    temperature: float = 1.0
    image_shape: tuple[int, ...] | None = None
    shared: bool = False
    kind: ClassVar[str] = "neural"

    @property
    def n_latents(self) -> int:
        """K."""
        return int(self.weights["head"].shape[-1])

    @property
    def n_features(self) -> int:
        """m."""
        return len(self.scale)

    def log_odds(self, h: int, features: np.ndarray) -> np.ndarray:
        """log q_z(x) up to a constant, [n, K]."""
        s = 0 if self.shared else h
        here = {k: v[min(s, len(v) - 1)][None] if k.startswith(BY_STEP) else v for k, v in self.weights.items()}
        x = standardise(np.asarray(features, dtype=np.float32), self.mean[min(s, len(self.mean) - 1)], self.scale)
        return np.asarray(self.temperature * forward(np, here, x[None], self.image_shape)[0], dtype=np.float64)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Its numbers, and its weights with `weights.` before their names."""
        image = np.array(self.image_shape or (), dtype=np.int64)
        plain = {"mean": self.mean, "scale": self.scale, "temperature": np.array(self.temperature), "image": image}
        return {**plain, "shared": np.array(self.shared), **{f"weights.{k}": v for k, v in self.weights.items()}}

    @classmethod
    def describe_arrays(cls, arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
        """Sizes follow the network from its features on: convolutions, hidden layers, head."""
        described = {
            "mean": "float [1|H, m]",
            "scale": "float [m] > 0",
            "temperature": "float [] > 0",
            "image": "int64 [0|3] >= 1",
            "shared": "bool []",
        }
        size = "m"
        image = arrays.get("image", np.zeros(0))
        if image.shape == (3,):
            rows, columns, depth = (int(n) for n in image)
            described |= {"mean": f"float [1|H, m={rows * columns * depth}]", "scale": "float [m] > 0"}
            if min(rows, columns) < LEAST:
                raise InputError(f"image: {rows} rows, {columns} columns: must be at least {LEAST} each")
            size = str(depth)
            for i in range(len(CHANNELS)):
                described |= {f"weights.conv{i}": f"float [{KERNEL**2}*{size}, c{i}]"}
                described |= {f"weights.conv{i}_bias": f"float [c{i}]"}
                size = f"c{i}"
                rows, columns = size_after(rows), size_after(columns)
            size = f"{rows * columns}*{size}"
        for i in range(2):
            if f"weights.hidden{i}" in arrays:
                described |= {f"weights.hidden{i}": f"float [{size}, w{i}]", f"weights.bias{i}": f"float [1|H, w{i}]"}
                size = f"w{i}"
        return described | {"weights.head": f"float [1|H, {size}, K]", "weights.head_bias": "float [1|H, K]"}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> NeuralDecoder:
        """The decoder that `to_arrays` was called on."""
        return cls(
            weights={k.removeprefix("weights."): v for k, v in arrays.items() if k.startswith("weights.")},
            mean=arrays["mean"],
            scale=arrays["scale"],
            temperature=float(arrays["temperature"]),
            image_shape=tuple(int(i) for i in arrays["image"]) or None,
            shared=bool(arrays["shared"]),
        )


def standardise(x: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Features [..., m] with mean 0 and deviation 1, cut at `CLIP`."""
    return np.asarray(np.clip((x - mean) / scale, -CLIP, CLIP), dtype=np.float32)


def forward(xp: Any, weights: dict[str, Any], x: Any, image_shape: tuple[int, ...] | None) -> Any:
    """Outputs [S, B, K] of the network for standardised x [S, B, m]; xp is numpy or jax.numpy."""
    if image_shape is not None:
        x = x.reshape(*x.shape[:2], *image_shape)
        for i in range(len(CHANNELS)):
            x = convolved(xp, x, weights[f"conv{i}"], weights[f"conv{i}_bias"])
        x = x.reshape(*x.shape[:2], -1)
    for i in range(2):
        if f"hidden{i}" in weights:
            x = xp.tanh(x @ weights[f"hidden{i}"] + weights[f"bias{i}"][:, None])
    return x @ weights["head"] + weights["head_bias"][:, None]
