"""Random numbers by (key, counter): number k of an episode depends on its seed alone, whoever is drawn beside it.

They are those of SplitMix64 (Steele, Lea & Flood 2014) begun at a hash of the seed, so any of them can be had without
the ones before; whole arrays at a time. Normal ones by Box and Muller.
"""

from __future__ import annotations

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
SPREAD = np.uint64(0xD1B54A32D192ED03)
"""Sets the keys apart from the numbers that are drawn with them."""
ROUNDS = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
LAST, SPARE = np.uint64(31), np.uint64(11)


def keys(seeds: np.ndarray) -> np.ndarray:
    """The keys [n] of episodes with these seeds [n]."""
    return _mix_bits(_mix_bits(np.array(seeds, dtype=np.uint64) + GOLDEN) ^ SPREAD)


def uniforms(key: np.ndarray, first: int, count: int) -> np.ndarray:
    """Numbers first..first + count - 1 of every key [n], uniform in [0, 1), [n, count]."""
    places = np.arange(first + 1, first + 1 + count, dtype=np.uint64) * GOLDEN
    bits = _mix_bits(key[:, None] + places)
    bits >>= SPARE
    return bits * 2.0**-53


def normals(u: np.ndarray) -> np.ndarray:
    """Standard normal numbers from uniform ones [n, 2 k], [n, 2 k]."""
    half = u.shape[1] // 2
    radius = np.sqrt(-2.0 * np.log1p(-u[:, :half]))
    angle = 2.0 * np.pi * u[:, half:]
    return np.hstack([radius * np.cos(angle), radius * np.sin(angle)])


def _mix_bits(bits: np.ndarray) -> np.ndarray:
    """The output function of SplitMix64, in place."""
    for shift, factor in ROUNDS:
        bits ^= bits >> shift
        bits *= factor
    bits ^= bits >> LAST
    return bits
