"""An MDP as the bytes of a CSV, JSON or NPZ file that reads back as the same MDP.

Rows of the states in `absorbing` are left out where the reader puts them back, so that they stay listed
there; a CSV file with names has them where it needs them to keep the names in order. JSON holds
everything; CSV has no place for horizon, discount and start; NPZ holds one reward for each (s, a, s'), so
rows of equal (s, a, s', r) are added up and rows of probability 0 left out.
"""

from __future__ import annotations

import csv
import io
import json

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.mdp_files._labels import keeps, number_cells
from tailrank.envs.mdp_files._npz import MAX_ARRAYS
from tailrank.models.mdp import FiniteMDP

Column = list[object]


def csv_bytes(mdp: FiniteMDP) -> bytes:
    """The rows as CSV, floats to the last bit; `InputError` where CSV could not give the labels back."""
    for short in (True, False):
        columns = _columns(mdp, short)
        texts = {name: [str(x) for x in columns[name]] for name in ("state", "next_state", "action")}
        try:
            _, labels, _ = number_cells({k: texts[k] for k in ("state", "next_state")}, None, str)
            _, actions, _ = number_cells({"action": texts["action"]}, None, str)
        except InputError:
            break
        if (labels, actions) == (mdp.labels, mdp.action_labels) and keeps((*labels,)) and keeps((*actions,)):
            out = io.StringIO(newline="")
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
            return out.getvalue().encode()
    raise InputError("labels: the state or action labels would not be the same when read from a .csv file: use .json")


def json_bytes(mdp: FiniteMDP) -> bytes:
    """Everything as one JSON object, a row a line."""
    _check_labels(mdp)
    columns = _columns(mdp, short=True)
    head = {
        "columns": list(columns),
        "horizon": mdp.horizon,
        "discount": mdp.discount,
        "start": {str(mdp.labels[s]): float(mdp.start[s]) for s in np.flatnonzero(mdp.start)},
        "states": [_plain(x) for x in mdp.labels],
        "actions": [_plain(x) for x in mdp.action_labels],
    }
    rows = ",\n".join(json.dumps(row) for row in zip(*columns.values(), strict=True))
    return (json.dumps(head)[:-1] + f', "rows": [\n{rows}\n]}}\n').encode()


def npz_bytes(mdp: FiniteMDP) -> bytes:
    """P and R [S, A, S] (or [H, S, A, S]), start [S], horizon, discount and labels, state first."""
    _check_labels(mdp)
    table = mdp.table()
    keep = (table["probability"] > 0) & ~np.isin(table["state"], mdp.absorbing)
    shape = (mdp.n_states, mdp.n_actions, mdp.n_states)
    names = ["state", "action", "next_state"]
    if mdp.n_blocks > 1:
        shape, names = (mdp.n_blocks, *shape), ["step", *names]  # type: ignore[assignment]
    size = 16 * int(np.prod(shape, dtype=object))
    if size > MAX_ARRAYS:
        raise InputError(f"P and R would take {size} bytes, more than {MAX_ARRAYS}: use .csv or .json")
    cell = np.ravel_multi_index([table[name][keep] for name in names], shape)
    P, R = np.zeros(shape), np.zeros(shape)
    R.ravel()[cell] = table["reward"][keep]
    unlike = np.flatnonzero(R.ravel()[cell] != table["reward"][keep])
    if unlike.size:
        s, a, t = (table[name][keep][unlike[0]] for name in names[-3:])
        where = f"state {mdp.labels[s]}, action {mdp.action_labels[a]}, next state {mdp.labels[t]}"
        raise InputError(f"{where}: has outcomes with different rewards, which .npz cannot hold: use .csv or .json")
    np.add.at(P.ravel(), cell, table["probability"][keep])
    arrays: dict[str, np.ndarray] = {
        "P": P,
        "R": R,
        "start": mdp.start,
        "horizon": np.array(mdp.horizon),
        "discount": np.array(mdp.discount),
        "axis_order": np.array("state-first"),
    }
    for name, labels in (("states", mdp.labels), ("actions", mdp.action_labels)):
        if labels != tuple(range(len(labels))):
            small = all(isinstance(x, int | np.integer) and -(2**62) < int(x) < 2**62 for x in labels)
            arrays[name] = np.array(labels, dtype=np.int64) if small else np.array([str(x) for x in labels])
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def _columns(mdp: FiniteMDP, short: bool) -> dict[str, Column]:
    table = mdp.table()
    if short:
        keep = ~np.isin(table["state"], mdp.absorbing)
        table = {name: column[keep] for name, column in table.items()}
    result: dict[str, Column] = {name: column.tolist() for name, column in table.items()}
    for name, labels in (("state", mdp.labels), ("next_state", mdp.labels), ("action", mdp.action_labels)):
        plain = [_plain(x) for x in labels]
        result[name] = [plain[i] for i in table[name]]
    return result


def _plain(label: object) -> object:
    return int(label) if isinstance(label, np.integer) else label


def _check_labels(mdp: FiniteMDP) -> None:
    for what, labels in (("state", mdp.labels), ("action", mdp.action_labels)):
        if not keeps(labels):
            raise InputError(f"{what} labels: must be distinct whole numbers or names to be written to a file")
