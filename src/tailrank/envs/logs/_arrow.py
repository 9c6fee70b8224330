"""Parquet and Arrow files as raw columns.

Only columns of plain numbers, truth values, text and lists of numbers are looked at; a file says how many rows it has
before any is unpacked, and what is unpacked is counted as it comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tailrank._system.reading import MOST_ARRAYS, open_regular
from tailrank.checks import MOST_NUMBERS, InputError
from tailrank.envs.logs.columns import Raw, RawTable, spread
from tailrank.envs.mdp_files.text import reason

MOST_BYTES = 2**31
"""Of all columns, unpacked."""
BATCH = 65536
MISSING = "reading it needs the extra `logs`; try: pip install 'tailrank[logs]'"


def of_file(path: Path) -> RawTable:
    """The columns of a .parquet, .arrow or .feather file."""
    try:
        import pyarrow
    except ImportError:
        raise InputError(f"{path.name}: {MISSING}") from None
    open_regular(path, MOST_ARRAYS).close()
    try:
        return table_of(list(_counted(_batches(path), path.name)), path.name)
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, MemoryError, OverflowError, LookupError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path.name}: is damaged or not what its name says ({reason(error)})") from None


def table_of(batches: list[Any], name: str) -> RawTable:
    """The columns of record batches."""
    import pyarrow

    columns: dict[str, Raw] = {}
    if batches:
        table = pyarrow.Table.from_batches(batches)
        for place, field in enumerate(table.schema):
            column = table.column(place)
            for title, found in _columns(str(field.name), field.type, column):
                if title in columns:
                    raise InputError(f"{name}: column {title!r:.60} is there twice")
                columns[title] = found
    return RawTable(columns, lambda i: f"row {i}", name)


def _batches(path: Path) -> Iterator[Any]:
    import pyarrow
    from pyarrow import ipc, parquet

    if path.suffix.lower() in (".parquet", ".pq"):
        with parquet.ParquetFile(path, memory_map=False) as file:
            about = file.metadata
            if about.num_rows * max(about.num_columns, 1) > MOST_NUMBERS:
                raise InputError(f"{path.name}: says it has {about.num_rows} rows, too many to read")
            names = [field.name for field in file.schema_arrow if _is_plain(field.type)]
            yield from file.iter_batches(BATCH, columns=names, use_threads=False)
        return
    with pyarrow.OSFile(str(path), "rb") as source:
        try:
            reader = ipc.open_file(source)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        except pyarrow.ArrowInvalid:
            source.seek(0)
            batches = iter(ipc.open_stream(source))
        for batch in batches:
            batch.validate(full=True)
            yield batch.select([field.name for field in batch.schema if _is_plain(field.type)])


def _counted(batches: Iterator[Any], name: str) -> Iterator[Any]:
    size = 0
    for batch in batches:
        size += batch.nbytes
        if size > MOST_BYTES:
            raise InputError(f"{name}: has more than {MOST_BYTES} bytes when unpacked, the most that is read")
        yield batch


def _is_plain(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    if types.is_list(kind) or types.is_fixed_size_list(kind) or types.is_large_list(kind):
        inner = kind.value_type
        return bool(types.is_integer(inner) or types.is_floating(inner))
    texts = types.is_string(kind) or types.is_large_string(kind)
    return bool(texts or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _columns(name: str, kind: Any, column: Any) -> list[tuple[str, Raw]]:
    """A column, or those of its coordinates where it holds vectors of one length."""
    from pyarrow import types

    if types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = kind.value_type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        if column.null_count:
            return [(name, np.array([np.nan if cell is None else float(cell) for cell in column.to_pylist()]))]
        return [(name, np.asarray(column.to_numpy()))]
    if types.is_string(kind) or types.is_large_string(kind):
        return [(name, column.to_pylist())]
    return list(spread(name, column.to_pylist()).items())
