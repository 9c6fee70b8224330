"""Minari data sets (HDF5 or Arrow) as raw columns, read without Minari: only numbers are taken, nothing is run.

A data set is a folder with data/metadata.json and the episodes beside it. Each episode has one observation more than it
has actions: the last one is where it ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tailrank._system.reading import MOST_ARRAYS, open_regular, read_json
from tailrank.checks import MOST_NUMBERS, InputError
from tailrank.envs.logs._arrow import MISSING, _batches, _counted, table_of
from tailrank.envs.logs.columns import Raw, RawTable
from tailrank.envs.mdp_files.text import reason

MOST_EPISODES = 10**7
FIELDS = ("observations", "actions", "rewards", "terminations", "truncations")


def of_dataset(name: str) -> RawTable:
    """The columns of the data set of that name (as Minari finds it) or in that folder."""
    root = Path(os.environ.get("MINARI_DATASETS_PATH", Path.home() / ".minari" / "datasets"))
    folders = [Path(name) / "data", Path(name), root / name / "data"]
    folder = next((path for path in folders if os.path.isfile(path / "metadata.json")), None)
    if folder is None:
        raise InputError(f"{name!r:.80}: is neither a file, a data frame nor a Minari data set in {root}")
    about = read_json(folder / "metadata.json")
    count = about.get("total_episodes") if isinstance(about, dict) else None
    if type(count) is not int or not 0 <= count <= MOST_EPISODES:
        raise InputError(f"{folder / 'metadata.json'}: total_episodes must be a whole number")
    try:
        parts = list((_hdf5 if (folder / "main_data.hdf5").is_file() else _arrow)(folder, count))
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name}: is damaged ({reason(error)})") from None
    if not parts:
        raise InputError(f"{name}: has no episodes")
    return _joined(parts, name)


def _hdf5(folder: Path, count: int) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    try:
        import h5py
    except ImportError:
        raise InputError(f"{folder}: {MISSING}") from None
    path, size = folder / "main_data.hdf5", 0
    open_regular(path, MOST_ARRAYS).close()
    with h5py.File(path, "r") as file:
        for i in range(count):
            group = file[f"episode_{i}"]
            part = {}
            for field in FIELDS:
                # Links may lead to other files.
                if not isinstance(group.get(field, getlink=True), h5py.HardLink):
                    raise InputError(f"{path.name}: episode_{i}/{field} must be in this file")
                data = group[field]
                if not isinstance(data, h5py.Dataset) or data.dtype.kind not in "iufb" or data.external:
                    raise InputError(f"{path.name}: episode_{i}/{field} must be an array of numbers")
                size += data.size
                if size > MOST_NUMBERS:
                    raise InputError(f"{path.name}: has more than {MOST_NUMBERS} numbers, the most that is read")
                part[field] = data[...]
            yield i, part


def _arrow(folder: Path, count: int) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    for i in range(count):
        files = sorted(path for path in (folder / str(i)).iterdir() if path.suffix in (".arrow", ".parquet"))
        batches = [batch for path in files for batch in _counted(_batches(path), path.name)]
        table = table_of(batches, f"episode {i}")
        names = sorted((n for n in table.columns if n.startswith("observations")), key=lambda n: (len(n), n))
        part = {field: _array(table.columns[field], field) for field in FIELDS[1:] if field in table.columns}
        if len(part) < len(FIELDS) - 1 or not names:
            raise InputError(f"episode {i}: must have {', '.join(FIELDS)} that are numbers")
        part = {field: values[:-1] for field, values in part.items()}
        seen = [_array(table.columns[n], n) for n in names]
        part["observations"] = seen[0] if len(seen) == 1 and names[0] == "observations" else np.stack(seen, axis=1)
        yield i, part


def _array(column: Raw, name: str) -> np.ndarray:
    if not isinstance(column, np.ndarray):
        raise InputError(f"{name}: must be numbers")
    return column


def _joined(parts: list[tuple[int, dict[str, np.ndarray]]], name: str) -> RawTable:
    episode, seen, after, others = [], [], [], list[dict[str, np.ndarray]]()
    for i, part in parts:
        n = len(part["rewards"])
        observations = part["observations"]
        if len(observations) != n + 1 or any(len(part[field]) != n for field in FIELDS[1:]):
            raise InputError(f"{name}: episode {i} must have one observation more than steps")
        episode.append(np.full(n, i))
        seen.append(observations[:-1].reshape(n, -1))
        after.append(observations[1:].reshape(n, -1))
        others.append(part)
    rows, following = np.concatenate(seen), np.concatenate(after)
    columns: dict[str, Any] = {"episode": np.concatenate(episode)}
    if rows.shape[1] == 1 and rows.dtype.kind in "iub":
        columns |= {"state": rows[:, 0], "next_state": following[:, 0]}
    else:
        columns |= {f"obs_{i}": rows[:, i] for i in range(rows.shape[1])}
        columns |= {f"next_obs_{i}": following[:, i] for i in range(rows.shape[1])}
    for field, ours in zip(FIELDS[1:], ("action", "reward", "terminated", "truncated"), strict=True):
        flat = np.concatenate([part[field].reshape(len(part[field]), -1) for part in others])
        if flat.shape[1] != 1:
            raise InputError(f"{name}: {field} must be one number a step, found {flat.shape[1]}")
        columns[ours] = flat[:, 0]
    return RawTable(columns, lambda i: f"row {i}", name)
