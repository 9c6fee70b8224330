"""The folder of a run: who uses it, its files, and checkpoints that are whole or not there.

config.toml, manifest.json (versions, status, result), rows.jsonl (a row an iteration), checkpoint.safetensors
and, at the end, plan.safetensors and best.safetensors. Every file but rows.jsonl is replaced as a whole;
rows.jsonl only grows, and a checkpoint says how much of it belongs to it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tailrank._system.atomic import flags, name_in_errors, write_all, write_bytes
from tailrank._system.reading import parse_json, read_arrays, read_json
from tailrank.checks import InputError

SCHEMA = 1
LOCK = ".lock"
CONFIG, MANIFEST, ROWS = "config.toml", "manifest.json", "rows.jsonl"
CHECKPOINT, PLAN, BEST = "checkpoint.safetensors", "plan.safetensors", "best.safetensors"
LOOKS = (0.001, 0.005, 0.02)
"""Seconds after which a lock is tried again by who only wants to know whether somebody has it."""
PATIENCE = (*LOOKS, 0.1, 0.4)
"""The same for who wants to have it: one who looked may be held up on a busy machine before letting go."""


class InUse(InputError):
    """Another process holds the folder."""


@dataclass(frozen=True)
class Mark:
    """Where a run stood: `size` and `digest` are those of rows.jsonl, `cvar` that of the last plan."""

    rows: int
    size: int
    digest: str
    regret: float
    cvar: float | None
    seconds: float
    config: str
    environment: str


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; refused while another one holds it.

    The lock ends with the process, however it ends; children that an environment forks do not inherit it.
    """
    path = folder / LOCK
    with os.fdopen(_own(path), "ab") as file:
        with name_in_errors(path):
            free = _lock(file.fileno(), PATIENCE)
        if not free:
            raise InUse(f"{folder}: is in use by another process; wait for it, or choose another --out")
        _HELD.append(file)
        try:
            yield
        finally:
            _HELD.remove(file)


def in_use(folder: Path) -> bool:
    """Whether a process holds the folder."""
    try:
        number = os.open(folder / LOCK, flags("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK"))
    except OSError:
        return False
    try:
        return not _lock(number, LOOKS)
    except OSError:
        return False
    finally:
        os.close(number)


def _lock(number: int, pauses: Sequence[float]) -> bool:
    """Whether the open file could be locked. A look of another process holds it for a moment, so it is tried again."""
    from filelock import lock_descriptor

    for pause in pauses:
        if lock_descriptor(number, blocking=False):
            return True
        time.sleep(pause)
    return lock_descriptor(number, blocking=False)


_HELD: list[BinaryIO] = []


def _let_go() -> None:
    """In a forked child, which may outlive the run and would keep its lock."""
    for file in _HELD:
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, empty if there is none yet."""
    path = folder / MANIFEST
    try:
        found = read_json(path)
    except FileNotFoundError:
        return {}
    except InputError as error:
        raise InputError(f"{path}: is damaged ({str(error).removeprefix(f'{path}: ')}); remove it and resume") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: is damaged; remove it and resume")
    return found


def write_manifest(folder: Path, values: Mapping[str, Any]) -> None:
    """Replace the manifest."""
    write_bytes(folder / MANIFEST, (json.dumps(values, indent=1, allow_nan=False) + "\n").encode(), inside=True)


def write_checkpoint(folder: Path, arrays: Mapping[str, np.ndarray], mark: Mark) -> None:
    """Replace the checkpoint."""
    from safetensors.numpy import save

    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}  # a number stays one
    text = json.dumps(asdict(mark), sort_keys=True, allow_nan=False)
    metadata = {"format": "tailrank-checkpoint", "schema": str(SCHEMA), "mark": text, "sha256": _sha(whole, text)}
    write_bytes(folder / CHECKPOINT, save(whole, metadata=metadata), inside=True)


def read_checkpoint(folder: Path) -> tuple[dict[str, np.ndarray], Mark] | None:
    """The arrays and the mark of the checkpoint, or None if there is none; raises if it is not as it was written."""
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    hint = "remove it to start the run again from its first iteration"
    try:
        arrays, metadata = read_arrays(path)
    except InputError as error:
        raise InputError(f"{error}; {hint}") from None
    if metadata.get("format") != "tailrank-checkpoint":
        raise InputError(f"{path}: is not a checkpoint of tailrank; {hint}")
    if metadata.get("schema") != str(SCHEMA):
        raise InputError(f"{path}: has schema {metadata.get('schema')}, this version reads schema {SCHEMA}")
    text = metadata.get("mark", "")
    if metadata.get("sha256") != _sha(arrays, text):
        raise InputError(f"{path}: is damaged (its checksum does not match its content); {hint}")
    try:
        return arrays, _mark(parse_json(text))
    except (InputError, TypeError):
        raise InputError(f"{path}: is damaged (its mark); {hint}") from None


def _mark(values: dict[str, Any]) -> Mark:
    """The mark with these values; raises where one is not what it must be."""
    mark = Mark(**values)
    counts, numbers = (mark.rows, mark.size), (mark.regret, mark.seconds, 0.0 if mark.cvar is None else mark.cvar)
    texts = (mark.digest, mark.config, mark.environment)
    if not all(type(x) is int and 0 <= x < 2**53 for x in counts) or not all(isinstance(x, str) for x in texts):
        raise InputError("mark: must have counts and checksums")
    if not all(type(x) in (int, float) and math.isfinite(x) for x in numbers):
        raise InputError("mark: must have finite numbers")
    return mark


def _own(path: Path) -> int:
    """A file of the folder to append to: made if it is not there, refused if it leads elsewhere or is a pipe."""
    try:
        with name_in_errors(path):
            number = os.open(path, flags("O_RDWR", "O_CREAT", "O_APPEND", "O_NOFOLLOW", "O_NONBLOCK"), 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise InputError(f"{path}: is a link; a run writes in its own folder only") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise InputError(f"{path}: must be a file")
    return number


def _sha(arrays: Mapping[str, np.ndarray], text: str) -> str:
    digest = hashlib.sha256(f"{SCHEMA}\n{text}\n".encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


class Rows:
    """rows.jsonl, open for appending; keeps the digest of what is in it."""

    def __init__(self, folder: Path, mark: Mark | None) -> None:
        self.path = folder / ROWS
        self.digest = hashlib.sha256()
        self.count, self.size = (mark.rows, mark.size) if mark else (0, 0)
        self.file = _own(self.path)
        try:
            if os.fstat(self.file).st_nlink > 1:
                self._part()
            if mark and (self._took(mark.size) < mark.size or self.digest.hexdigest() != mark.digest):
                raise InputError(f"{self.path}: its first {mark.rows} rows are not those of the checkpoint")
            with name_in_errors(self.path):
                os.ftruncate(self.file, self.size)
        except BaseException:
            os.close(self.file)
            raise

    def _part(self) -> None:
        """Go on in a copy where the file has another name, too (`cp -al`): what is there is somebody else's."""
        with self.path.open("rb") as file:
            write_bytes(self.path, file.read(self.size), inside=True)
        os.close(self.file)
        self.file = _own(self.path)

    def _took(self, size: int) -> int:
        """Take at most the first `size` bytes into the digest; how many there were."""
        taken = 0
        with self.path.open("rb") as file:
            while part := file.read(min(size - taken, 2**20)):
                self.digest.update(part)
                taken += len(part)
        return taken

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        line = (json.dumps(row, allow_nan=False) + "\n").encode()
        with name_in_errors(self.path):
            write_all(self.file, line)
        self.digest.update(line)
        self.count, self.size = self.count + 1, self.size + len(line)

    def sync(self) -> None:
        """Be sure that the rows are on the disk."""
        with name_in_errors(self.path):
            os.fsync(self.file)

    def close(self) -> None:
        """Close the file."""
        os.close(self.file)
