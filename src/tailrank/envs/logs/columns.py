"""Columns of a table of episodes: which one means what, and their cells as numbers, labels or truth values.

A raw column is an array of numbers or a list of Python values. Every complaint names the row (counted from 1, as the
table has them; for CSV the line) and the column as the user wrote it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.logs.log import Label

Raw = np.ndarray | list[object]
Place = Callable[[int], str]
NAMES = {
    "episode": "episode episode_id ep traj trajectory trajectory_id traj_id patient patient_id stay_id case case_id",
    "step": "step t time timestep time_step step_id h index_in_episode",
    "state": "state s state_id obs observation",
    "action": "action a act action_id",
    "reward": "reward r rew",
    "next_state": "next_state s_next next_s s2 sp state_next next_obs next_observation",
    "terminated": "terminated terminal done end ended",
    "truncated": "truncated truncation timeout timeouts cut censored",
    "probability": "probability prob behaviour_probability behavior_probability behaviour_prob behavior_prob "
    "propensity pscore action_prob action_probability mu",
    "admissible": "admissible admissible_actions available available_actions allowed",
}
"""What each column is usually called, the first name being ours."""
VECTOR = re.compile(r"(next_)?(?:obs|observation|x|feature|state)[_.]?(\d+)", re.IGNORECASE)
"""A coordinate of an observation vector, such as obs_0 or next_x3."""
LISTS = ("admissible", "available", "allowed")
"""How the names of columns begin whose cells are lists of actions."""
WHOLE = re.compile(r"[+-]?\d{1,18}(\.0*)?")
TRUE, FALSE = {"true", "1", "1.0", "yes", "t"}, {"false", "0", "0.0", "no", "f", ""}


@dataclass(frozen=True)
class RawTable:
    """Columns by the user's names, and how a row is named in a message."""

    columns: Mapping[str, Raw]
    place: Place
    name: str

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


def assigned(names: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """From our names to those of the table: the chosen ones, and the usual ones for what nobody chose."""
    if not isinstance(chosen, Mapping):
        raise InputError(f"columns = {chosen!r:.60}: must be a mapping from our names to those of the table")
    result = {}
    for ours, theirs in chosen.items():
        checks.one_of(ours, "column", NAMES)
        if theirs not in names:
            raise InputError(
                f"column {ours}={theirs}: there is no column {theirs!r:.60}{checks.did_you_mean(theirs, names)}"
            )
        result[ours] = theirs
    lower = {name.strip().lower(): name for name in reversed(names)}
    for ours, usual in NAMES.items():
        found = [lower[word] for word in usual.split() if word in lower and lower[word] not in result.values()]
        if ours not in result and found:
            result[ours] = found[0]
    return result


def vectors(names: Sequence[str], taken: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns of observation vectors and of the next ones, in the order of their numbers."""
    here: dict[int, str] = {}
    after: dict[int, str] = {}
    for name in names:
        match = VECTOR.fullmatch(name.strip())
        if match and name not in taken:
            (after if match[1] else here)[int(match[2])] = name
    return [here[i] for i in sorted(here)], [after[i] for i in sorted(after)]


def spread(name: str, cells: Sequence[object]) -> dict[str, Raw]:
    """A column of vectors of one length as those of their coordinates; lists of admissible actions stay as they are."""
    if name.lower().startswith(LISTS):
        return {name: list(cells)}
    sizes = {len(cell) for cell in cells if isinstance(cell, Sequence | np.ndarray)}
    if len(sizes) != 1:
        raise InputError(f"column {name!r:.60}: its lists must have one length, found {sorted(sizes)[:3]}")
    nothing = [np.nan] * next(iter(sizes))
    try:
        rows = np.array([nothing if cell is None else cell for cell in cells], dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"column {name!r:.60}: its lists must hold numbers") from None
    return {f"{name}_{i}": rows[:, i] for i in range(rows.shape[1])}


def floats(column: Raw, name: str, place: Place) -> np.ndarray:
    """The column as finite floats [n]."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iufb":
        result = column.astype(np.float64)
    else:
        try:
            result = np.array([float(cell) for cell in column])  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            i = next(i for i, cell in enumerate(column) if not _is_number(cell))
            raise InputError(f"{place(i)}, column {name!r:.60}: {column[i]!r:.40} must be a number") from None
    bad = np.flatnonzero(~(np.abs(result) <= checks.LARGEST_RETURN))
    if bad.size:
        raise InputError(f"{place(int(bad[0]))}, column {name!r:.60}: {result[bad[0]]} must be a finite number")
    return result


def labels(
    columns: Mapping[str, Raw], place: Place, given: Sequence[Label] = (), *, empty: Sequence[str] = ()
) -> tuple[list[np.ndarray], tuple[Label, ...]]:
    """Places [n] of the cells of each column in one list of labels, and that list: numbers in order, or names.

    given: labels to begin with; others are then refused. empty: columns whose cells may be missing (-1).
    """
    coded = [_distinct(column, name, place, name in empty) for name, column in columns.items()]
    kinds = {type(label) for _, found in coded for label in found}
    if len(kinds) > 1:
        raise InputError(_mixed(columns, coded, place))
    seen = set().union(*(found for _, found in coded))
    order = tuple(given) or tuple(sorted(seen))
    index = {label: i for i, label in enumerate(order)}
    result = []
    for (codes, found), name in zip(coded, columns, strict=True):
        odd = next((k for k, label in enumerate(found) if label not in index), None)
        if odd is not None:
            i = int(np.flatnonzero(codes == odd)[0])
            raise InputError(
                f"{place(i)}, column {name!r:.60}: {found[odd]!r:.40} is not one of the {len(order)} that are known"
            )
        table = np.array([index[label] for label in found] + [-1], dtype=np.int64)
        result.append(table[codes])
    return result, order


def _distinct(column: Raw, name: str, place: Place, may_be_empty: bool) -> tuple[np.ndarray, list[Label]]:
    """Codes [n] (-1: empty) and what they stand for."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iub":
        values, codes = np.unique(column.astype(np.int64), return_inverse=True)
        return codes, values.tolist()
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        missing = np.isnan(column)
        bad = np.flatnonzero(~((column == np.floor(column)) & (np.abs(column) < 2**53)) & ~(missing & may_be_empty))
        if bad.size:
            cell = column[bad[0]]
            rule = "must be a whole number or a name (observations are columns obs_0, obs_1, ..)"
            raise InputError(f"{place(int(bad[0]))}, column {name!r:.60}: {cell} {rule}")
        values, codes = np.unique(column[~missing].astype(np.int64), return_inverse=True)
        result = np.full(column.size, -1)
        result[~missing] = codes
        return result, values.tolist()
    table: dict[object, int] = {}
    found: list[Label] = []
    codes = np.empty(len(column), dtype=np.int64)
    numbers: dict[Label, int] = {}
    for i, cell in enumerate(column):
        code = table.get(cell) if cell.__hash__ is not None else None
        if code is None or (code >= 0 and type(cell) is bool):
            label = _label(cell, name, place, i, may_be_empty)
            code = -1 if label is None else numbers.setdefault(label, len(found))
            if label is not None and code == len(found):
                found.append(label)
            table[cell] = code
        codes[i] = code
    return codes, found


def _label(cell: object, name: str, place: Place, i: int, may_be_empty: bool) -> Label | None:
    text = cell.strip() if isinstance(cell, str) else cell
    if text is None or text == "" or (isinstance(text, float) and math.isnan(text)):
        if may_be_empty:
            return None
        raise InputError(f"{place(i)}, column {name!r:.60}: the cell is empty")
    if isinstance(text, str):
        return int(float(text)) if WHOLE.fullmatch(text) else text
    if isinstance(text, bool | int | np.integer) or (isinstance(text, float) and text.is_integer()):
        return int(text)
    rule = "must be a whole number or a name (observations are columns obs_0, obs_1, ..)"
    raise InputError(f"{place(i)}, column {name!r:.60}: {cell!r:.40} {rule}")


def _mixed(columns: Mapping[str, Raw], coded: list[tuple[np.ndarray, list[Label]]], place: Place) -> str:
    """The complaint about a column of numbers and names, at the first cell of the rarer kind."""
    texts = sum(isinstance(label, str) for _, found in coded for label in found)
    total = sum(len(found) for _, found in coded)
    rare = str if 2 * texts <= total else int
    for (codes, found), name in zip(coded, columns, strict=True):
        for k, label in enumerate(found):
            if isinstance(label, rare):
                i = int(np.flatnonzero(codes == k)[0])
                others = "numbers" if rare is str else "names"
                return (
                    f"{place(i)}, column {name!r:.60}: {label!r:.40} among {others}: must be all numbers or all names"
                )
    return "labels: must be all numbers or all names"


def truths(column: Raw, name: str, place: Place) -> np.ndarray:
    """The column as booleans [n]."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iufb":
        bad = np.flatnonzero((column != 0) & (column != 1))
        if bad.size:
            raise InputError(f"{place(int(bad[0]))}, column {name!r:.60}: {column[bad[0]]} must be true or false")
        return column.astype(bool)
    table: dict[object, bool] = {}
    for i, cell in enumerate(column):
        if cell not in table:
            word = "" if cell is None else str(cell).strip().lower()
            if word not in TRUE and word not in FALSE:
                raise InputError(f"{place(i)}, column {name!r:.60}: {cell!r:.40} must be true or false")
            table[cell] = word in TRUE
    return np.array([table[cell] for cell in column], dtype=bool)


def _is_number(cell: object) -> bool:
    try:
        float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True
