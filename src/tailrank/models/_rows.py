"""The checks and small tables behind the constructors of `FiniteMDP`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.models.ragged import offsets


def indices(column: object, name: str) -> np.ndarray:
    values = np.asarray(column).ravel()
    if values.dtype.kind in "iu" and values.size:
        if values.dtype.kind == "u" and int(values.max()) > np.iinfo(np.int64).max:
            raise InputError(f"{name} = {values.max()}: is too large")
        return values.astype(np.int64)
    numbers = checks.numbers(values, name)
    bad = np.flatnonzero((numbers != np.floor(numbers)) | (np.abs(numbers) > 2**53))
    if bad.size:
        raise InputError(f"{name} = {values[bad[0]]} in row {bad[0]}: must be a whole number")
    return numbers.astype(np.int64)


def names(labels: Sequence[object], name: str, size: int) -> tuple[object, ...]:
    """The labels [size], numbers from zero where there are none."""
    if not labels:
        return tuple(range(size))
    if len(labels) != size or len(set(labels)) < size:
        raise InputError(f"{name}: must be {size} different labels, found {len(set(labels))} in {len(labels)}")
    return tuple(labels)


def check_size(sizes: tuple[int, int, int], rows: int) -> None:
    """A few rows that name state 10^9 are a mistake, and must not cost 10^9 table entries."""
    most = 5_000_000 + 20 * rows
    if math.prod(sizes) > most:
        raise InputError(
            f"steps x states x actions = {' x '.join(map(str, sizes))}: must be at most {most} for {rows} rows; "
            "are the state, action and step numbers right?"
        )


def check_rows(
    pair: np.ndarray,
    p: np.ndarray,
    r: np.ndarray,
    counts: np.ndarray,
    shape: tuple[int, int, int],
    labels: tuple[object, ...],
    action_labels: tuple[object, ...],
    horizon: int,
) -> None:
    def place(k: int) -> str:
        b, s, a = np.unravel_index(k, shape)
        step = f"step {b}, " if shape[0] > 1 else ""
        return f"{step}state {labels[s]}, action {action_labels[a]}"

    bad = np.flatnonzero(~((p >= 0) & (p <= 1 + checks.PROBABILITY_TOLERANCE)))
    if bad.size:
        raise InputError(f"probability = {p[bad[0]]} at {place(pair[bad[0]])} (row {bad[0]}): must lie in [0, 1]")
    bad = np.flatnonzero(~np.isfinite(r))
    if bad.size:
        raise InputError(f"reward = {r[bad[0]]} at {place(pair[bad[0]])} (row {bad[0]}): must be finite")
    bad = np.flatnonzero(np.abs(r) > checks.LARGEST_RETURN / horizon)
    if bad.size:
        raise InputError(
            f"reward = {r[bad[0]]} at {place(pair[bad[0]])} (row {bad[0]}): times {horizon} steps it must be at most "
            f"{checks.LARGEST_RETURN:g} in size"
        )
    totals = np.bincount(pair, weights=p, minlength=counts.size)
    bad = np.flatnonzero((counts > 0) & ~(np.abs(totals - 1) <= checks.PROBABILITY_TOLERANCE))
    if bad.size:
        raise InputError(f"probabilities at {place(bad[0])} sum to {totals[bad[0]]:.9g}, expected 1")


def add_absorbing(
    counts: np.ndarray, columns: list[np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray], tuple[int, ...]]:
    block, state = np.nonzero(counts.sum(axis=2) == 0)
    if block.size == 0:
        return counts, columns, ()
    at = offsets(counts)[(block * counts.shape[1] + state) * counts.shape[2]]
    counts = counts.copy()
    counts[block, state, 0] = 1
    values = (state, np.ones(state.size), np.zeros(state.size))
    filled = [np.insert(c, at, v) for c, v in zip(columns, values, strict=True)]
    empty_everywhere = np.bincount(state, minlength=counts.shape[1]) == counts.shape[0]
    return counts, filled, tuple(int(x) for x in np.flatnonzero(empty_everywhere))


def start_law(start: object, S: int, labels: tuple[object, ...]) -> np.ndarray:
    if isinstance(start, Mapping):
        result = np.zeros(S)
        for state, p in start.items():
            result[state_number(state, S, labels)] += checks.number(p, f"start[{state}]")
        return checks.law(result, "start", S)
    if np.ndim(start) == 0:  # type: ignore[arg-type]
        result = np.zeros(S)
        result[state_number(start, S, labels)] = 1.0
        return result
    return checks.law(start, "start", S)


def state_number(state: object, S: int, labels: tuple[object, ...]) -> int:
    try:
        index = checks.whole(state, "start", least=0)
    except InputError:
        index = -1
    if not 0 <= index < S:
        raise InputError(f"start = {state}: must be a state in 0..{S - 1}")
    return index


def reward_array(R: np.ndarray, shape: tuple[int, ...], timed: bool) -> np.ndarray:
    S, A = shape[-3:-1]
    full = {(S,): (S, 1, 1), (S, A): (S, A, 1), (S, A, S): (S, A, S)}
    for short, long in full.items():
        if R.shape == short:
            return R.reshape(long)
        if timed and R.shape == (shape[0], *short) and R.shape not in full:
            return R.reshape(shape[0], *long)
    raise InputError(
        f"R: must have shape [S], [S, A] or [S, A, S] with S = {S}, A = {A}"
        f"{' (or these with the steps first)' if timed else ''}, found {list(R.shape)}"
    )
