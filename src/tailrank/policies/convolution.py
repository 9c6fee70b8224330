"""Convolutions of small networks, written once for NumPy and JAX: kernels of 3 x 3 that move by 2."""

from __future__ import annotations

from typing import Any

KERNEL, STRIDE = 3, 2
LEAST = 2 * KERNEL + 1
"""Rows and columns of an image, at least, for two convolutions."""


def patches(xp: Any, x: Any) -> Any:
    """What each place of a convolution sees of x [..., rows, columns, c]: [..., rows', columns', 9 c]."""
    rows, columns = ((size - KERNEL) // STRIDE * STRIDE + 1 for size in x.shape[-3:-1])
    places = [(i, j) for i in range(KERNEL) for j in range(KERNEL)]
    return xp.concatenate([x[..., i : i + rows : STRIDE, j : j + columns : STRIDE, :] for i, j in places], axis=-1)


def convolved(xp: Any, x: Any, kernel: Any, bias: Any) -> Any:
    """ReLU of a convolution of x [..., rows, columns, c] with kernel [9 c, c'] and bias [c']."""
    return xp.maximum(patches(xp, x) @ kernel + bias, 0.0)


def size_after(size: int) -> int:
    """Rows or columns that are left of so many."""
    return (size - KERNEL) // STRIDE + 1
