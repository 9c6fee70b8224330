"""Outcome rows in CSV and JSON files.

CSV: a header `step,state,action,next_state,probability,reward` (step is optional, any order), or
`idstatefrom,idaction,idstateto,probability,reward[,idoutcome]`, then one outcome a line.
JSON: a list of rows, or an object with "rows" and optionally "columns", "horizon", "discount", "start",
"states" and "actions" (all labels, in order). A row is an object or a list in the order of the columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tailrank import checks
from tailrank._system.reading import parse_json
from tailrank.checks import InputError
from tailrank.envs.mdp_files._labels import Label, label, number_cells
from tailrank.envs.mdp_files.draft import Draft
from tailrank.envs.mdp_files.text import csv_rows, read_text

COLUMNS = ("step", "state", "action", "next_state", "probability", "reward")
USUAL = {
    "step": "t h time stage",
    "state": "s state_from from idstatefrom",
    "action": "a act idaction",
    "next_state": "s' s_next next_s s2 sp state_to to nextstate idstateto",
    "probability": "p prob pr",
    "reward": "r rew",
}
"""What columns are usually called elsewhere."""
ALIASES = {alias: name for name, aliases in USUAL.items() for alias in aliases.split()}
IGNORED = ("idoutcome",)
KEYS = ("rows", "columns", "horizon", "discount", "start", "states", "actions")
Place = Callable[[int], str]


def read_csv(text: str, base: int | None) -> Draft:
    """The draft of a CSV file; `base` is the number of the first state, None to find out."""
    header, rows, lines = csv_rows(text)
    if not header:
        raise InputError(f"the file is empty: the first line must be a header such as {','.join(COLUMNS)}")
    names = column_names(header, "line 1")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(names):
            raise InputError(f"line {line}: has {len(row)} entries, expected {len(names)} as in the header")
    if not rows:
        raise InputError("the file has a header and no rows: at least one outcome is needed")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return draft_of(columns, base, lambda i: f"on line {lines[i]}")


def read_csv_file(path: Path, base: int | None, axis_order: str) -> Draft:
    """The draft of the CSV file at `path`."""
    return read_csv(read_text(path), base)


def read_json_file(path: Path, base: int | None, axis_order: str) -> Draft:
    """The draft of the JSON file at `path`."""
    return read_json(read_text(path), base)


def read_json(text: str, base: int | None) -> Draft:
    """The draft of a JSON file; `base` is the number of the first state, None to find out."""
    content = parse_json(text)
    if isinstance(content, list):
        content = {"rows": content}
    if not isinstance(content, dict) or not isinstance(content.get("rows"), list):
        raise InputError('must be a list of rows or an object with a list "rows"')
    for key in content:
        if key not in KEYS:
            raise InputError(f"{key!r:.60}: is not one of the keys {', '.join(KEYS)}{checks.did_you_mean(key, KEYS)}")
    rows = content["rows"]
    if not rows:
        raise InputError("rows: at least one outcome is needed, found none")
    columns = row_columns(rows, content.get("columns"))
    known = [_labels(content.get(key), key) for key in ("states", "actions")]
    draft = draft_of(columns, base, lambda i: f"in rows[{i}]", *known)
    settings = {key: content[key] for key in ("horizon", "discount", "start") if content.get(key) is not None}
    return Draft(**(vars(draft) | settings))


def draft_of(
    columns: Mapping[str, Sequence[object]],
    base: int | None,
    place: Place,
    states: tuple[Label, ...] = (),
    actions: tuple[Label, ...] = (),
) -> Draft:
    """The draft with these columns of entries, one of them a row; `place(i)` says where row i stands."""
    (s, t), labels, s_names = number_cells({k: columns[k] for k in ("state", "next_state")}, base, place, states)
    (a,), action_labels, a_names = number_cells({"action": columns["action"]}, base, place, actions)
    p, r = (_floats(columns[name], name, place) for name in ("probability", "reward"))
    bad = np.flatnonzero((p < 0) | (p > 1 + checks.PROBABILITY_TOLERANCE))
    if bad.size:
        raise InputError(f"probability = {p[bad[0]]} {place(bad[0])}: must lie in [0, 1]")
    notes = []
    for what, given, names, own in (
        ("states", states, s_names, labels),
        ("actions", actions, a_names, action_labels),
    ):
        if names and not given:
            notes.append(f"{what} are names: {len(own)}, in order of first appearance")
        elif not given and base is None:
            notes.append(f"{what} are numbered from {own[0]} (change with index_base=...)")
    step = _steps(columns["step"], place) if "step" in columns else None
    return Draft(s, a, t, p, r, labels, action_labels, step=step, notes=tuple(notes))


def column_names(header: Sequence[object], where: str) -> list[str]:
    """The columns that a header names, in its order, in this module's words."""
    names = [str(name).strip().lower() for name in header]
    names = [ALIASES.get(name, name) for name in names]
    allowed = [*COLUMNS, *ALIASES, *IGNORED]
    for name, given in zip(names, header, strict=True):
        if name not in allowed:
            near = checks.did_you_mean(name, allowed)
            raise InputError(f"column {given!r:.60} in {where}: is not one of {', '.join(COLUMNS)}{near}")
        if names.count(name) > 1:
            raise InputError(f"column {given!r:.60} in {where}: is there {names.count(name)} times")
    missing = [name for name in COLUMNS[1:] if name not in names]
    if missing:
        raise InputError(f"{where}: has no column {', '.join(missing)}")
    return names


def row_columns(rows: list[object], given: object) -> dict[str, list[object]]:
    """Columns by name from rows, each a list or an object; given: the names of the entries of lists."""
    if given is not None and not isinstance(given, list):
        raise InputError("columns: must be a list of column names")
    first = rows[0]
    if given is None and isinstance(first, list):
        given = list(COLUMNS[len(COLUMNS) - len(first) :]) if len(first) in (5, 6) else list(COLUMNS)
    header = list(first) if given is None and isinstance(first, dict) else given or []
    names = column_names(header, "rows[0]" if given is None else "columns")
    result: dict[str, list[object]] = {name: [] for name in names}
    for i, row in enumerate(rows):
        if isinstance(row, dict):
            if row.keys() != set(header):
                odd = sorted(map(str, row.keys() ^ set(header)))
                raise InputError(f"rows[{i}]: must have the same keys as the first row, differs in {odd[0]!r:.60}")
            row = [row[key] for key in header]
        if not isinstance(row, list) or len(row) != len(names):
            found = f"{len(row)} entries" if isinstance(row, list) else f"{row!r:.40}"
            raise InputError(f"rows[{i}]: must have {len(names)} entries ({', '.join(names)}), found {found}")
        for column, cell in zip(result.values(), row, strict=True):
            column.append(cell)
    return result


def _labels(given: object, key: str) -> tuple[Label, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not given:
        raise InputError(f"{key}: must be a list of numbers or names")
    return checks.different((label(cell, f"{key}[{i}]") for i, cell in enumerate(given)), key)


def _floats(column: Sequence[object], name: str, place: Place) -> np.ndarray:
    try:
        if {type(cell) for cell in column} <= {str, int, float}:
            result = np.array(list(map(float, column)), dtype=np.float64)  # type: ignore[arg-type]
            if np.isfinite(result).all():
                return result
    except (ValueError, OverflowError):
        pass  # the search below names the entry
    for i, cell in enumerate(column):
        try:
            good = type(cell) in (str, int, float) and math.isfinite(float(cell))  # type: ignore[arg-type]
        except (ValueError, OverflowError):
            good = False
        if not good:
            raise InputError(f"{name} = {cell!r:.60} {place(i)}: must be a finite number")
    raise InputError(f"{name}: must be a column of finite numbers")


def _steps(column: Sequence[object], place: Place) -> np.ndarray:
    values = _floats(column, "step", place)
    bad = np.flatnonzero((values != np.floor(values)) | (values < 0) | (values > 10**9))
    if bad.size:
        raise InputError(f"step = {column[bad[0]]!r:.60} {place(bad[0])}: must be a whole number from 0 or 1")
    found = np.unique(values).astype(np.int64)
    if found[0] > 1:
        raise InputError(f"step = {found[0]} is the first: steps must be numbered from 0 or 1")
    gap = np.flatnonzero(np.diff(found) > 1)
    if gap.size:
        raise InputError(f"step {found[gap[0]] + 1} has no rows: the steps must run up to {found[-1]} without gaps")
    result: np.ndarray = values.astype(np.int64) - found[0]
    return result
