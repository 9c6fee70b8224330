"""Files that are written as a whole or not at all.

Whatever changes a file calls `os` by name (open, write, fsync, ftruncate, replace), so that a test can make every one
of these calls fail.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

WINDOWS = os.name == "nt"


def flags(*names: str) -> int:
    """Flags of `os.open` by name, those that the system has; in bytes, and not handed to programs that are started."""
    return sum(getattr(os, name, 0) for name in (*names, "O_CLOEXEC", "O_NOINHERIT", "O_BINARY"))


def write_bytes(path: Path, data: bytes, *, inside: bool = False) -> None:
    """Replace the file at `path` by these bytes, and be sure that they are on the disk.

    A reader sees the old file or the new one, never a part. What goes wrong is an OSError that names `path`. A file
    that was left half-written by a process that died is used again, one that is being written is waited for. A link at
    `path` is followed, unless the file must stay `inside` its folder: then the link itself is replaced.
    """
    target = Path(os.path.realpath(path.parent)) / path.name if inside else Path(os.path.realpath(path))
    temporary = target.with_name(f".{os.fsdecode(os.fsencode(target.name)[:200])}.tmp")
    with name_in_errors(path):
        descriptor = _alone(temporary)
        try:
            os.ftruncate(descriptor, 0)
            write_all(descriptor, data)
            os.fsync(descriptor)
            if WINDOWS:  # nothing that is open can be replaced there
                os.close(descriptor)
                descriptor = -1
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        if not WINDOWS:  # folders cannot be opened there
            _sync(target.parent)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it: a disk that is almost full takes a part at first."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


@contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """An OSError says that it was about `path`."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _alone(path: Path) -> int:
    """The file at `path`, open for this process alone. What leads elsewhere from there is removed, never written to."""
    from filelock import lock_descriptor

    while True:
        try:
            descriptor = os.open(path, flags("O_WRONLY", "O_CREAT", "O_NOFOLLOW", "O_NONBLOCK"), 0o666)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link, a pipe
                raise
            os.unlink(path)
            continue
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                os.unlink(path)
            else:
                with suppress(OSError):  # some file systems have no locks
                    lock_descriptor(descriptor)
                if _is_at(descriptor, path):  # else whoever had it has given it its name
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
