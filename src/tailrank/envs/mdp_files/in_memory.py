"""MDPs that are already in memory: a data frame, a list of outcome rows, or arrays P and R.

They are read by the same rules as files (`_rows.py`, `_npz.py`), so a CSV file and the frame that was read from it are
the same MDP: names of columns, numbering, labels, errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.mdp_files import _npz, _rows
from tailrank.envs.mdp_files._labels import start_law
from tailrank.envs.mdp_files.draft import Draft


def is_frame(item: Any) -> bool:
    """Whether it is a table with named columns: of pandas, Polars, Arrow, or a mapping from names to columns."""
    if isinstance(item, Mapping):
        return not {"P", "R"} <= set(item)
    # Asked of its type: to list the columns of a lazy frame may take long.
    return hasattr(type(item), "columns")


def frame_draft(frame: Any, base: int | None) -> Draft:
    """The draft of a data frame with an outcome in each row."""
    frame = frame.collect() if hasattr(frame, "collect") else frame
    header = list(getattr(frame, "column_names", frame if isinstance(frame, Mapping) else frame.columns))
    names = _rows.column_names(header, "the columns of the frame")
    columns = {name: _cells(frame[given]) for name, given in zip(names, header, strict=True)}
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"frame: its columns must be of one length, found {sizes}")
    if not next(iter(sizes.values())):
        raise InputError("frame: has no rows, at least one outcome is needed")
    return _rows.draft_of(columns, base, lambda i: f"in row {i}")


def rows_draft(rows: Sequence[Any] | np.ndarray, base: int | None) -> Draft:
    """The draft of outcome rows: (state, action, next state, probability, reward), or these with a step in front."""
    plain = [_plain_row(row, i) for i, row in enumerate(rows)]
    if not plain:
        raise InputError("rows: at least one outcome is needed, found none")
    return _rows.draft_of(_rows.row_columns(plain, None), base, lambda i: f"in rows[{i}]")


def arrays_draft(P: Any, R: Any, base: int | None, axis_order: str, **others: Any) -> Draft:
    """The draft of P [S, A, S] or [A, S, S] (or one matrix [S, S] for each action) and R, state or action first."""
    found = {"P": _array(P), "R": _array(R)} | {name: np.asarray(x) for name, x in others.items() if x is not None}
    unknown = [name for name in others if name not in _npz.NAMES]
    if unknown:
        raise InputError(f"{unknown[0]}: is not one of the arrays {', '.join(_npz.NAMES)}")
    for name in ("P", "R"):
        if found[name].dtype.kind not in "biuf" or not np.isfinite(found[name]).all():
            raise InputError(f"{name}: must be an array of finite numbers, found {found[name].dtype}")
    return _npz.arrays_draft(found, base, axis_order)


def start_of(start: object, labels: Sequence[object]) -> np.ndarray:
    """The law of the first state [S] from a state, a mapping from states to probabilities, or a law."""
    return start_law(start, labels)


def _plain_row(row: Any, i: int) -> Any:
    if isinstance(row, Mapping):
        return {str(name): _plain(cell) for name, cell in row.items()}
    if isinstance(row, str) or not hasattr(row, "__len__"):
        raise InputError(f"rows[{i}]: must be (state, action, next state, probability, reward), found {row!r:.60}")
    return [_plain(cell) for cell in row]


def _cells(column: Any) -> list[object]:
    for name in ("to_list", "to_pylist", "tolist"):
        if hasattr(column, name):
            return [_plain(cell) for cell in getattr(column, name)()]
    return [_plain(cell) for cell in column]


def _plain(cell: Any) -> object:
    if isinstance(cell, np.generic):
        return cell.item()
    return float(cell) if isinstance(cell, Fraction | Decimal) else cell


def _array(values: Any) -> np.ndarray:
    """An array, also of a list of sparse matrices, one for each action."""
    if isinstance(values, list | tuple) and any(hasattr(x, "toarray") for x in values):
        values = [x.toarray() if hasattr(x, "toarray") else x for x in values]
    try:
        return np.asarray(values.toarray() if hasattr(values, "toarray") else values)
    except ValueError:
        raise InputError(f"P, R: must be arrays, found {type(values).__name__} of unequal parts") from None
