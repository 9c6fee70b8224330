"""One entry point for tables of episodes: CSV, Parquet and Arrow files, Minari data sets, and data frames.

CSV needs nothing but this package; the others need the extra `logs`. Nothing in a file is executed, and a file that
would not fit is refused before its columns are read.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.logs.assemble import assemble
from tailrank.envs.logs.columns import RawTable
from tailrank.envs.logs.log import EpisodeLog, Label
from tailrank.envs.mdp_files.text import csv_rows, read_text

TABLES = (".csv", ".csv.gz", ".parquet", ".pq", ".arrow", ".feather", ".ipc")
"""Files that a log may be."""


def read_log(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    horizon: int | None = None,
    states: Sequence[Label] = (),
    actions: Sequence[Label] = (),
) -> EpisodeLog:
    """The episodes of `source`: the name of a file, a Minari data set (by name or folder), or a data frame.

    columns: our names (episode, step, state, action, reward, next_state, terminated, truncated, probability,
    admissible) to those of the table, where they are not the usual ones. horizon: H; the longest episode if not given.
    """
    table = raw_table(source)
    try:
        return assemble(table, columns=columns, horizon=horizon, states=states, actions=actions)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(table.name) else f"{table.name}: {text}") from None


def raw_table(source: Any) -> RawTable:
    """The columns of a source as they are."""
    if not isinstance(source, str | Path):
        from tailrank.envs.logs._frames import of_frame

        return of_frame(source)
    path, lower = Path(source), str(source).lower()
    if lower.endswith((".csv", ".csv.gz")):
        return _csv(path)
    if lower.endswith(TABLES):
        from tailrank.envs.logs._arrow import of_file

        return of_file(_existing(path))
    if os.path.isfile(path):
        raise InputError(f"{source}: must be one of the file types {', '.join(TABLES)}")
    from tailrank.envs.logs._minari import of_dataset

    return of_dataset(str(source))


def is_log_name(source: str) -> bool:
    """Whether a name is that of a table that only a log can be (a .csv may also hold an MDP)."""
    return source.lower().endswith(TABLES[2:])


def is_log_csv(path: str) -> bool:
    """Whether a CSV file holds episodes and no MDP: its header has no probability of a next state, but a reward."""
    from tailrank.envs.logs.columns import assigned

    with _existing(Path(path)).open("rb") as file:
        start = file.read(65536)
    if path.lower().endswith(".gz"):
        start = read_text(Path(path))[:65536].encode()
    names = next(csv.reader([start.decode("utf-8-sig", "replace").split("\n", 1)[0]]), [])
    return "episode" in assigned([name.strip() for name in names], {})


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path}: {'must be a file' if path.exists() else 'there is no such file'}")
    return path


def _csv(path: Path) -> RawTable:
    text = read_text(_existing(path))
    fast = _numbers(text)
    if fast is not None:
        return RawTable(fast, lambda i: f"line {i + 2}", path.name)
    try:
        header, rows, lines = csv_rows(text)
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None
    header = [name.strip() for name in header]
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise InputError(f"{path.name}: line {line}: has {len(row)} entries, the header has {len(header)}")
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path.name}: column {twice!r:.60} in line 1: is there {header.count(twice)} times")
    cells = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in header]
    columns: dict[str, list[object]] = dict(zip(header, cells, strict=True))
    return RawTable(columns, lambda i: f"line {lines[i]}", path.name)


def _numbers(text: str) -> dict[str, np.ndarray] | None:
    """The columns of a CSV file that holds nothing but numbers, read in one go; None where it holds anything else."""
    head, _, body = text.partition("\n")
    names = [name.strip() for name in head.rstrip("\r").split(",")]
    if '"' in text or "\n\n" in text or "\n\r" in text or not body.strip() or len(set(names)) < len(names):
        return None
    try:
        table = np.loadtxt(io.StringIO(body), delimiter=",", ndmin=2, comments=None)
    except ValueError:
        return None
    return dict(zip(names, table.T, strict=True)) if table.shape[1] == len(names) else None
