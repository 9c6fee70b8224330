"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_bytes(path: Path, data: bytes, *, inside: bool = False) -> None:
    """Replace the file at `path` by these bytes, and be sure that they are on the disk.

    A reader sees the old file or the new one, never a part. What goes wrong is an OSError that names `path`. A link at
    `path` is followed, unless the file must stay `inside` its folder: then the link itself is replaced.
    """
    target = Path(os.path.realpath(path.parent)) / path.name if inside else Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name[:200]}.tmp")
    try:
        # What a killed process, or somebody else, left there is not written to, least of all through a link.
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
