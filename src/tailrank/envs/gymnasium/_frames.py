"""Messages between a player and its worker processes: a JSON object and the bytes of an array, each with its length."""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

import numpy as np

LENGTHS = struct.Struct("<QQ")


def write_frame(file: BinaryIO, message: dict[str, Any], numbers: np.ndarray | None = None) -> None:
    """Send a message with plain values, and numbers (float64) if there are any."""
    text = json.dumps(message).encode()
    blob = b"" if numbers is None else np.ascontiguousarray(numbers, dtype="<f8").tobytes()
    file.write(LENGTHS.pack(len(text), len(blob)) + text + blob)
    file.flush()


def read_frame(file: BinaryIO) -> tuple[dict[str, Any], np.ndarray]:
    """The next message and its numbers [k]; raises EOFError where there is none, or only a part of one."""
    text, blob = LENGTHS.unpack(_exactly(file, LENGTHS.size))
    return json.loads(_exactly(file, text)), np.frombuffer(_exactly(file, blob), dtype="<f8").copy()


def _exactly(file: BinaryIO, size: int) -> bytes:
    found = file.read(size)
    if len(found) < size:
        raise EOFError
    return found
