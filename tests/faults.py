"""A command in a forked process whose k-th change of a file fails or ends it, however that can happen.

Everything that tailrank writes goes through a few functions of `os`, which are replaced here in the child. Only calls
about files below `root` count. The kinds of faults:

    kill    the process is gone before the call
    tear    the process is gone after half of the call: of the bytes, if it writes some
    full    from this call on, the disk takes no more bytes (the half of those that are being written)
    once    this call fails, later ones do not
    frozen  from this call on, the file system is read-only
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

KINDS = ("kill", "tear", "full", "once", "frozen")
BY_PATH = ("open", "replace", "unlink", "mkdir")
BY_FILE = ("write", "ftruncate", "fsync")
FULL, FROZEN, BROKEN = errno.ENOSPC, errno.EROFS, errno.EIO


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (minus a signal), what it said, its changes of files, the first to fail."""

    code: int
    stdout: str
    stderr: str
    calls: tuple[str, ...]
    failed: str | None


def run(command: Callable[[], object], root: Path, at: int | None = None, kind: str = "kill") -> Ended:
    """Run `command` in a child of this process, with a fault at its call number `at` (from 0), if one is given."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as calls:
        faults = Faults(root, calls.fileno(), at, kind)
        pid = os.fork()
        if pid == 0:
            call(command, out.fileno(), err.fileno(), faults)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        texts = []
        for file in (out, err, calls):
            file.seek(0)
            texts.append(file.read().decode())
        made = [line.split(" ") for line in texts[2].splitlines()]
        failed = next((words[1] for words in made if words[0] == "failed"), None)
        return Ended(code, *texts[:2], tuple(words[0] for words in made if words[0] != "failed"), failed)


def call(command: Callable[[], object], out: int, err: int, faults: Faults | None = None) -> NoReturn:
    """In a child: run the command with this output and leave with its exit code."""
    code = 70
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        if faults is not None:
            faults.install()
        command()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 71
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


class Faults:
    """The functions of `os` that change files below `root`, with a fault in one of them."""

    def __init__(self, root: Path, log: int, at: int | None, kind: str) -> None:
        self.root, self.log, self.at, self.kind = os.path.realpath(root), log, at, kind
        self.count, self.struck, self.files = 0, False, {}
        self.real = {name: getattr(os, name) for name in (*BY_PATH, *BY_FILE, "close")}

    def install(self) -> None:
        """Replace them, in this process."""
        for name in BY_PATH:
            setattr(os, name, self._by_path(name))
        for name in BY_FILE:
            setattr(os, name, self._by_file(name))
        os.close = self._close

    def _by_path(self, name):
        def call(path, *args, **options):
            inside = os.path.realpath(os.path.dirname(path)).startswith(self.root)
            changes = name != "open" or args[0] & os.O_CREAT
            if inside and changes:
                self._strike(name, path, lambda: None)
            found = self.real[name](path, *args, **options)
            if name == "open" and inside:
                self.files[found] = path
            return found

        return call

    def _by_file(self, name):
        def call(file, *args):
            if file not in self.files:
                return self.real[name](file, *args)

            def half():
                if name == "write":
                    self.real["write"](file, args[0][: len(args[0]) // 2])
                elif name == "ftruncate":
                    self.real["ftruncate"](file, *args)

            self._strike(name, self.files[file], half)
            return self.real[name](file, *args)

        return call

    def _close(self, file):
        self.files.pop(file, None)
        self.real["close"](file)

    def _strike(self, name, path, half):
        """Count a call; at the one that is meant, and after it where the fault lasts, do what the fault does."""
        here = self.count == self.at
        self.count += 1
        self.real["write"](self.log, f"{name}\n".encode())
        if here and self.kind == "tear":
            half()
        if here and self.kind in ("kill", "tear"):
            os.kill(os.getpid(), signal.SIGKILL)
        if here and self.kind == "once":
            self._fail(name, path, FULL if name == "write" else BROKEN)
        self.struck = self.struck or here
        if self.struck and self.kind == "frozen" and name != "fsync":
            self._fail(name, path, FROZEN)
        if self.struck and self.kind == "full" and name in ("write", "mkdir"):
            if here:
                half()
            self._fail(name, path, FULL)

    def _fail(self, name, path, number):
        file = os.path.basename(path)
        self.real["write"](self.log, f"failed {file[1:-4] if file.endswith('.tmp') else file}\n".encode())
        raise OSError(number, os.strerror(number), *([str(path)] if name in BY_PATH else []))
