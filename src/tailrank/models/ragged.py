"""Ragged tables: the rows of owner i stand at ptr[i] .. ptr[i + 1] - 1, one owner after the other; ptr [n + 1]."""

from __future__ import annotations

import numpy as np


def offsets(counts: np.ndarray) -> np.ndarray:
    """Where the rows of each owner begin, [n + 1], for counts [n] of rows.

    >>> offsets(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(counts)], dtype=np.int64)


def owners(ptr: np.ndarray) -> np.ndarray:
    """The owner of every row, [ptr[n] - ptr[0]].

    >>> owners(np.array([0, 2, 2, 5])).tolist()
    [0, 0, 2, 2, 2]
    """
    return np.repeat(np.arange(ptr.size - 1), np.diff(ptr))


def rows_of(ptr: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the owners `chosen` [m], one after the other: the place in `chosen` of each row, and the row.

    >>> [x.tolist() for x in rows_of(np.array([0, 2, 2, 5]), np.array([2, 0]))]
    [[0, 0, 0, 1, 1], [2, 3, 4, 0, 1]]
    """
    counts = ptr[chosen + 1] - ptr[chosen]
    place = np.repeat(np.arange(chosen.size), counts)
    return place, np.arange(place.size) + np.repeat(ptr[chosen + 1] - np.cumsum(counts), counts)
