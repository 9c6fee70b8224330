"""Files that others wrote: bytes, JSON and arrays of bounded size, from regular files only.

A pipe would block, a device has no end, and a text of many brackets takes twenty times its size as Python objects; so
each is refused before it is read. Every way in which a file can be damaged is an `InputError` that names the file.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tailrank._system.atomic import flags
from tailrank.checks import InputError

MOST_TEXT = 2**28
"""Bytes of a text file, unpacked if it is compressed."""
MOST_ENTRIES = 2**25
"""Commas and opening brackets of a text that is parsed: what bounds the memory of the result."""
MOST_NOTES = 2**25
"""Bytes of JSON in a header, a manifest or a configuration."""
MOST_ARRAYS = 2**32
"""Bytes of a file of arrays."""
LONGEST_INTEGER = 300
"""Digits; more than a float can hold."""


def open_regular(path: str | Path, most: int) -> BinaryIO:
    """The file at `path` for reading; refused if it is not a regular file, or has more than `most` bytes."""
    try:
        # Without O_NONBLOCK, opening a pipe that nobody writes to waits for ever.
        number = os.open(path, flags("O_RDONLY", "O_NONBLOCK"))
    except ValueError:
        raise InputError(f"{str(path)!r:.80}: must be the name of a file") from None
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode) and found.st_size <= most:
        return os.fdopen(number, "rb")
    os.close(number)
    large = f"has {found.st_size} bytes, at most {most} are read"
    raise InputError(f"{path}: {large if stat.S_ISREG(found.st_mode) else 'must be a file'}")


def read_bytes(path: str | Path, most: int) -> bytes:
    """The content of a file."""
    with open_regular(path, most) as file:
        data = file.read(most + 1)
    if len(data) > most:  # it grew
        raise InputError(f"{path}: has more than {most} bytes, the most that is read")
    return data


def check_entries(text: str | bytes) -> None:
    """Raise where a text would become too many objects."""
    marks: tuple[Any, ...] = (",", "[", "{", "\n") if isinstance(text, str) else (b",", b"[", b"{", b"\n")
    if len(text) > MOST_ENTRIES and sum(map(text.count, marks)) > MOST_ENTRIES:
        raise InputError(f"has more than {MOST_ENTRIES} entries, the most that is read")


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text. Numbers beyond a float and NaN are left for the reader of the value to refuse."""
    check_entries(text)
    try:
        return json.loads(text, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON ({str(error) or type(error).__name__})") from None


def read_json(path: str | Path, most: int = MOST_NOTES) -> Any:
    """The value in a JSON file."""
    data = read_bytes(path, most)
    try:
        return parse_json(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_arrays(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays of a safetensors file, in memory of their own, and its notes."""
    from safetensors import SafetensorError, safe_open

    open_regular(path, MOST_ARRAYS).close()
    try:
        with safe_open(str(path), framework="numpy") as file:
            notes = file.metadata() or {}
            # Copies: the file's own memory may lie at odd addresses, where sums can round in another order.
            arrays = {name: file.get_tensor(name).copy() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, LookupError, MemoryError) as error:
        raise InputError(f"{path}: is damaged ({(str(error).splitlines() or [''])[0]})") from None
    return arrays, notes


def _integer(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)
