"""From a source's own state and action numbers or names to indices, and back for the start.

Entries that are all whole numbers are numbers, from 0 or from 1. Otherwise they are names, numbered in
order of first appearance (in the state column first, then in the next_state column).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import numpy as np

from tailrank import checks
from tailrank.checks import InputError

Label = int | str
Columns = Mapping[str, Sequence[object]]
INTEGER = re.compile(r"[+-]?[0-9]{1,4000}(\.0*)?")
NUMERIC = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def label(cell: object, what: str) -> Label:
    """The number or the name that an entry of a file stands for."""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return int(cell)
    if isinstance(cell, int | np.integer) and not isinstance(cell, bool):
        return int(cell)
    if not isinstance(cell, str):
        raise InputError(f"{what} = {_clip(cell)}: must be a whole number or a name")
    text = cell.strip()
    if INTEGER.fullmatch(text):
        return int(text.partition(".")[0])
    if not text or not text.isprintable() or NUMERIC.fullmatch(text):
        raise InputError(f"{what} = {_clip(cell)}: must be a whole number or a name")
    return text


def keeps(labels: Sequence[object]) -> bool:
    """Whether labels written to a file are the same when they are read, types included."""
    try:
        same = all(label(str(x), "label") == x and isinstance(x, str | int | np.integer) for x in labels)
    except InputError:
        return False
    return same and not any(isinstance(x, bool) for x in labels) and len(set(labels)) == len(labels)


def number_cells(
    columns: Columns, base: int | None, place: Callable[[int], str], known: Sequence[Label] = ()
) -> tuple[list[np.ndarray], tuple[Label, ...], bool]:
    """Indices [n] for each of the columns that share a numbering, the labels, and whether they are names.

    `base` 0 or 1 asks for numbers from there, None decides by the entries; `known` gives the labels.
    """
    first = next(iter(columns))
    labels = _distinct(columns, place)
    values = labels.values()
    if known:
        names, index = True, {x: i for i, x in enumerate(known)}
        lost = next((x for x in values if x not in index), None)
        if lost is not None:
            column, where = _find(columns, labels, lost, place)
            near = checks.did_you_mean(str(lost), map(str, known))
            raise InputError(f"{column} = {lost} {where}: is not among the {first}s of the file{near}")
    elif names := any(isinstance(x, str) for x in values):
        name = next(x for x in values if isinstance(x, str))
        if base is not None:
            column, where = _find(columns, labels, name, place)
            raise InputError(f"{column} = {name!r} {where}: must be a whole number when the index base is {base}")
        index = {x: i for i, x in enumerate(dict.fromkeys(values))}
    else:
        numbers = [x for x in values if isinstance(x, int)]
        low, top = min(numbers), max(numbers)
        least = base if base is not None else min(max(low, 0), 1)
        if low < least:
            column, where = _find(columns, labels, low, place)
            raise InputError(f"{column} = {low} {where}: must be at least {least}{_base_hint(base)}")
        most = 10**6 + 10 * len(columns[first])
        if top > most:
            column, where = _find(columns, labels, top, place)
            raise InputError(f"{column} = {str(top)[:40]} {where}: is too large (at most {most} for this many rows)")
        index = {x: x - least for x in range(least, top + 1)}
    cell_index = {cell: index[x] for cell, x in labels.items()}
    arrays = [np.array([cell_index[c] for c in column], dtype=np.int64) for column in columns.values()]
    return arrays, tuple(index), names


def start_law(start: object, labels: Sequence[object]) -> np.ndarray:
    """The law of the first state [S] from a label, `"1:0.5,4:0.5"`, a mapping from labels or a law [S]."""
    index = {x: i for i, x in enumerate(labels)}
    if isinstance(start, str) and ":" in start and start.strip() not in index:
        pieces = [piece.rpartition(":") for piece in start.split(",")]
        start = {state: p for state, _, p in pieces}
        if len(start) < len(pieces):
            raise InputError(f"start: a state is given twice in {', '.join(s for s, _, _ in pieces)}"[:200])
    if not isinstance(start, Mapping):
        if isinstance(start, list | tuple | np.ndarray):
            return checks.law(start, "start", len(labels))
        start = {start: 1.0}
    law = np.zeros(len(labels))
    for state, p in start.items():
        law[_index(state, index)] += checks.number(p, f"start[{state}]")
    return checks.law(law, "start", len(labels))


def span(labels: Sequence[object], most: int = 5) -> str:
    """The labels in a few words: `1..20`, or the first names."""
    numbers = [x for x in labels if isinstance(x, int)]
    if len(labels) > 2 and numbers == list(labels) and numbers[-1] - numbers[0] == len(labels) - 1:
        return f"{labels[0]}..{labels[-1]}"
    return ", ".join(str(x) for x in labels[:most]) + (", ..." if len(labels) > most else "")


def _index(state: object, index: Mapping[object, int]) -> int:
    found = index.get(label(state, "start"))
    if found is None:
        near = checks.did_you_mean(str(state), map(str, index)) if isinstance(state, str) else ""
        raise InputError(f"start = {_clip(state)}: must be one of the states {span(list(index))}{near}")
    return found


def _distinct(columns: Columns, place: Callable[[int], str]) -> dict[object, Label]:
    for name, column in columns.items():
        if not {type(cell) for cell in column} <= {str, int, float}:
            row = next(i for i, cell in enumerate(column) if type(cell) not in (str, int, float))
            raise InputError(f"{name} = {_clip(column[row])} {place(row)}: must be a whole number or a name")
    result: dict[object, Label] = {}
    for cell in dict.fromkeys(chain(*columns.values())):
        try:
            result[cell] = label(cell, "entry")
        except InputError:
            name, row = next((n, list(c).index(cell)) for n, c in columns.items() if cell in c)
            raise InputError(f"{name} = {_clip(cell)} {place(row)}: must be a whole number or a name") from None
    return result


def _find(
    columns: Columns, labels: Mapping[object, Label], wanted: Label, place: Callable[[int], str]
) -> tuple[str, str]:
    hits = ((i, n) for n, c in columns.items() for i, cell in enumerate(c) if labels[cell] == wanted)
    row, name = next(hits)
    return name, place(row)


def _base_hint(base: int | None) -> str:
    return " (index_base=1); give index_base=0 if states are numbered from 0" if base == 1 else ""


def _clip(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
