"""Masks: which actions a simulator allows, [n, A] of bool. None says that all are.

A policy need not know them. What it plays where it is not allowed is replaced by an action drawn among those that are,
so that uniform actions are uniform among the allowed ones. The draw is fixed by the seed of the episode and the step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def among(actions: np.ndarray, allowed: np.ndarray | None, seeds: np.ndarray, h: int) -> np.ndarray:
    """The actions [n] of step h, those that are not allowed [n, A] replaced; one that does not exist stays.

    >>> among(np.array([2, 1]), np.array([[True, False, False], [True, True, False]]), np.array([4, 6]), 0).tolist()
    [0, 1]
    """
    if allowed is None:
        return actions
    known = (actions >= 0) & (actions < allowed.shape[1])
    rows = np.flatnonzero(known & ~allowed[np.arange(actions.size), np.where(known, actions, 0)])
    if rows.size == 0:
        return actions
    allowed = allowed[rows]
    count = allowed.sum(axis=1)
    place = (_mixed(seeds[rows].astype(np.uint64), h) % count.astype(np.uint64)).astype(np.int64)
    result = actions.copy()
    # The place-th action that is allowed: as many as that come before it.
    result[rows] = (np.cumsum(allowed, axis=1) <= place[:, None]).sum(axis=1)
    return result


def _mixed(seeds: np.ndarray, h: int) -> np.ndarray:
    """Numbers [n] that look random, one for each seed at step h (SplitMix64)."""
    x = seeds * np.uint64(0x9E3779B97F4A7C15) + np.uint64((h + 1) * 0xD1B54A32D192ED03 % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def ever_allowed(bits: np.ndarray, places: np.ndarray, n: int, n_actions: int) -> np.ndarray:
    """[n, A]: what was ever allowed at each of n places, by masks of T steps (bits, `packed`) at these places [T].

    Where no step was there, nothing is known, and everything allowed.
    """
    row, action = np.nonzero(np.unpackbits(bits, axis=1, count=n_actions))
    found = np.zeros((n, n_actions), dtype=bool)
    found[places[row], action] = True
    return found | ~found.any(axis=1, keepdims=True)


def packed(allowed: np.ndarray) -> np.ndarray:
    """Masks [T, A] as bits [T, bytes]."""
    return np.packbits(allowed, axis=1)


def all_bits(steps: int, width: int) -> np.ndarray:
    """Bits [steps, width] of masks that allow everything."""
    return np.full((steps, width), 255, dtype=np.uint8)


def joined(masks: Sequence[np.ndarray | None], sizes: Sequence[int], axis: int = 0) -> np.ndarray | None:
    """Masks [..., A] one after the other along an axis, all true where one is None, so many there; None if all are."""
    shapes = [allowed.shape for allowed in masks if allowed is not None]
    if not shapes:
        return None
    like = list(shapes[0])
    all_true = ([*like[:axis], size, *like[axis + 1 :]] for size in sizes)
    return np.concatenate(
        [np.ones(shape, dtype=bool) if one is None else one for one, shape in zip(masks, all_true, strict=True)], axis
    )
