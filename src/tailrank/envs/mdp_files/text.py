"""Text of bounded size from a file, and files written as a whole."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from pathlib import Path

from tailrank._system.atomic import write_bytes
from tailrank._system.reading import MOST_TEXT, check_entries, open_regular
from tailrank.checks import InputError


def read_text(path: Path) -> str:
    """The text of a UTF-8 file (a byte order mark is dropped), unpacked if its name ends in .gz."""
    try:
        with open_regular(path, MOST_TEXT) as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    data = unpacked.read(MOST_TEXT + 1)
            else:
                data = raw.read(MOST_TEXT + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path.name}: cannot be read ({reason(error)})") from None
    if len(data) > MOST_TEXT:
        raise InputError(f"{path.name}: has more than {MOST_TEXT} bytes of text, the most that is read")
    check_entries(data)
    zero = data.find(b"\0")
    if zero >= 0:
        raise InputError(f"{path.name}, line {_line(data, zero)}: holds a NUL byte; is this a text file?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        bad = f"byte 0x{data[error.start]:02x} on line {_line(data, error.start)}"
        raise InputError(f"{path.name}: is not UTF-8 text ({bad})") from None


def csv_rows(text: str) -> tuple[list[str], list[list[str]], list[int]]:
    """The header of a CSV text, its other rows that are not empty, and the lines where they end."""
    reader = csv.reader(io.StringIO(text, newline=""))
    header: list[str] = []
    rows, lines = [], []
    try:
        for row in reader:
            if not header:
                header = row
            elif row:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: is not CSV ({reason(error)})") from None
    return header, rows, lines


def write_file(path: Path, data: bytes) -> None:
    """Write a file as a whole; what goes wrong is a line for the user."""
    try:
        write_bytes(path, data)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({reason(error)})") from None


def reason(error: BaseException) -> str:
    """What an exception says, on one line of bounded length."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    lines = text.strip().splitlines()
    return (lines[0].strip() if lines else type(error).__name__)[:200]


def _line(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1
