"""Centre and spread of what was observed, and which of it is constant: the same for every unit of measurement."""

from __future__ import annotations

import numpy as np

ROUNDING, DUST = 1e-9, 1e-14
"""A number is constant that varies by no more than this share of its size, or of the largest variation of any."""


def standard(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centre and spread [m] of features [n, m]; a constant one has the spread 1."""
    centre, spread = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    return centre, np.where(varies(spread, centre), spread, 1.0)


def varies(spread: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Which numbers vary, by how they spread and how large they are, both [m].

    >>> varies(np.array([1e-12, 1e-30, 0.0, 1e-12]), np.array([0.0, 0.0, 1.0, 1.0])).tolist()
    [True, False, False, False]
    """
    return np.asarray((spread > ROUNDING * np.abs(size)) & (spread > DUST * spread.max(initial=0.0)))
