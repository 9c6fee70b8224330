"""Data frames of any library that narwhals knows (pandas, Polars, Arrow, ..) as raw columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.logs.columns import Raw, RawTable, spread

MISSING = "the extra `logs` is not installed; try: pip install 'tailrank[logs]'"


def of_frame(frame: Any) -> RawTable:
    """The columns of a data frame, or of a mapping from names to columns."""
    if isinstance(frame, dict):
        columns: dict[str, Raw] = {}
        for name, column in frame.items():
            columns |= _given(str(name), column)
        sizes = {len(column) for column in columns.values()}
        if len(sizes) > 1:
            raise InputError(f"frame: columns must have one length, found {sorted(sizes)[:5]}")
        return RawTable(columns, _row, "frame")
    names = [str(name) for name in getattr(frame, "columns", ())]
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise InputError(f"frame: column {twice!r:.60} is there {names.count(twice)} times")
    try:
        import narwhals
    except ImportError:
        if not names or not all(hasattr(frame[name], "to_list") for name in names):
            raise InputError(f"frame: {MISSING}") from None
        return of_frame({name: frame[name].to_list() for name in names})  # pandas and Polars need no more
    try:
        known = narwhals.from_native(frame, eager_only=True)
    except TypeError:
        raise InputError(f"frame: a {type(frame).__name__} is neither a data frame nor the name of a file") from None
    columns = {}
    for name in known.columns:
        if not isinstance(name, str):
            raise InputError(f"frame: column {name!r:.60}: names of columns must be text")
        series = known[name]
        if series.dtype.is_numeric() or series.dtype == narwhals.Boolean:
            columns[name] = _numeric(series)
        else:
            columns |= _cells(name, series.to_list())
    return RawTable(columns, _row, "frame")


def _numeric(series: Any) -> Raw:
    """Numbers as an array; missing ones are NaN, which every check refuses where a number must be."""
    if series.null_count() == 0:
        found = np.asarray(series.to_numpy())
        return found if found.dtype.kind in "iufb" else found.astype(np.float64)
    return np.array([np.nan if cell is None else float(cell) for cell in _known(series.to_list())])


def _given(name: str, column: Any) -> dict[str, Raw]:
    """A column of a mapping: an array of numbers as it is."""
    if isinstance(column, str) or not isinstance(column, Iterable):
        raise InputError(f"frame: column {name!r:.60}: must be a list or an array, found {column!r:.40}")
    array = column if isinstance(column, np.ndarray) else None
    if array is None and all(isinstance(cell, bool | int | float) for cell in column):
        array = np.asarray(column)
    if array is not None and array.dtype.kind in "iufb" and array.ndim == 1:
        return {name: array}
    # Lists have Python's own numbers, of which complex ones are refused like words.
    return _cells(name, array.tolist() if array is not None and array.dtype.kind == "c" else list(column))


def _cells(name: str, cells: list[object]) -> dict[str, Raw]:
    """A column of anything else: vectors become a column for each coordinate."""
    cells = _known(cells)
    first = next((cell for cell in cells if cell is not None), None)
    return spread(name, cells) if isinstance(first, list | tuple | np.ndarray) else {name: cells}


def _known(cells: list[Any]) -> list[Any]:
    """The cells with None for what pandas calls missing."""
    return [None if type(cell).__name__ in ("NAType", "NaTType") else cell for cell in cells]


def _row(i: int) -> str:
    return f"row {i}"
