"""Data frames of any library that narwhals knows (pandas, Polars, Arrow, ..) as raw columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.logs.columns import Raw, RawTable

MISSING = "the extra `logs` is not installed; try: pip install 'tailrank[logs]'"


def of_frame(frame: Any) -> RawTable:
    """The columns of a data frame, or of a mapping from names to columns."""
    if isinstance(frame, dict):
        columns = {str(name): _plain(np.asarray(column), column) for name, column in frame.items()}
        sizes = {len(column) for column in columns.values()}
        if len(sizes) > 1:
            raise InputError(f"frame: columns must have one length, found {sorted(sizes)[:5]}")
        return RawTable(columns, _row, "frame")
    try:
        import narwhals
    except ImportError:
        raise InputError(f"frame: {MISSING}") from None
    try:
        known = narwhals.from_native(frame, eager_only=True)
    except TypeError:
        raise InputError(f"frame: a {type(frame).__name__} is neither a data frame nor the name of a file") from None
    columns = {}
    for name in known.columns:
        series = known[name]
        if series.dtype.is_numeric() or series.dtype == narwhals.Boolean:
            columns[name] = _numeric(series)
        else:
            columns[name] = series.to_list()
    return RawTable(columns, _row, "frame")


def _numeric(series: Any) -> Raw:
    """Numbers as an array; missing ones are NaN, which every check refuses where a number must be."""
    if series.null_count() == 0:
        found = np.asarray(series.to_numpy())
        return found if found.dtype.kind in "iufb" else found.astype(np.float64)
    return np.array([np.nan if cell is None else float(cell) for cell in series.to_list()])


def _plain(array: np.ndarray, column: Any) -> Raw:
    return array if array.dtype.kind in "iufb" and array.ndim == 1 else list(column)


def _row(i: int) -> str:
    return f"row {i}"
