"""Numba, and a cache for the machine code that it makes. `jit` imports this when a kernel is first called.

Numba's own cache is replaced because it ends the program if no folder can be written or a file is damaged, mixes up
two processes that save at once, and does not see that a kernel of another module changed. Here an entry is one file,
named by a hash of all that its machine code depends on and closed by a checksum; whatever is missing or damaged is
compiled again. Entries are pickles of Numba, so they are only read from folders that nobody else can write to.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from tailrank._system.compiler_clock import COMPILING
from tailrank._system.telling import announce
from tailrank.checks import InputError

try:
    import numba
    from llvmlite import ir
    from numba.core import cgutils
    from numba.core.caching import IndexDataCacheFile
    from numba.core.compiler import CompileResult
    from numba.core.dispatcher import Dispatcher
    from numba.core.runtime import rtsys

    from tailrank._system import _vectors
    from tailrank._system._linking import Unfinished, linked_as_they_are
except (ImportError, OSError, AttributeError) as error:  # the last where NumPy is too new for it
    text = f"numba: needed for all but the smallest things, cannot be imported ({error}); pip install --upgrade numba"
    raise InputError(" ".join(text.split())) from None

DIGEST = hashlib.sha256().digest_size
UNUSED_DAYS = 30
"""Entries that no run has read for so long go when their function is saved again."""


def dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The function as Numba calls it: compiled, or read from the cache, for each type of arguments it is given."""
    kernel: Any = numba.njit(**options)(function)
    if hasattr(kernel, "_cache"):  # not under NUMBA_DISABLE_JIT
        kernel._cache = Kept(kernel)
        kernel._compiler.compile = linked_as_they_are()(kernel._compiler.compile)
    return kernel


@numba.extending.intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        read_to_second_level = [ir.Constant(ir.IntType(32), n) for n in (0, 2, 1)]
        kind = ir.FunctionType(ir.VoidType(), [place.type, *(n.type for n in read_to_second_level)])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [place, *read_to_second_level])
        return context.get_dummy_value()

    return numba.types.none(array, numba.types.uintp), generate


def instruction(function: Callable[..., Any]) -> Any:
    """What Numba puts in the place of a function, found by its name."""
    known = {"prefetch": prefetch, "sum_rows": _vectors.sum_rows, "lowest": _vectors.lowest}
    return function if numba.config.DISABLE_JIT else known[function.__name__]


class Kept:
    """What a dispatcher takes for its cache: machine code of one kernel by the types of its arguments."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self.cache_path = None

    def load_overload(self, types: Any, target: Any) -> Any:
        """The machine code, or None if it has to be compiled.

        To run what is there, memory management is enough; all that the compiler knows takes a quarter of a second.
        """
        rtsys.initialize(target)
        name = self._name(types, target.codegen())
        for folder in folders():
            with contextlib.suppress(OSError):
                if (data := _Entries(folder).load(name)) is not None:
                    return CompileResult._rebuild(target, *data)
        if not announce("compiling for this machine, once"):
            _announce()
        COMPILING.begin()
        return None

    def save_overload(self, types: Any, result: Any) -> None:
        """Keep this machine code if a folder can be written."""
        COMPILING.end()
        if isinstance(result.library, Unfinished):
            return
        if result.library.has_dynamic_globals or any(not part.can_cache for part in result.lifted):
            return
        name, problem = self._name(types, result.codegen), "there is no folder that only its owner can write to"
        for folder in folders():
            try:
                _Entries(folder).save(name, result._reduce())
                return
            except OSError as error:
                problem = f"{folder}: {error.strerror}"
        _note(problem)

    def _name(self, types: Any, codegen: Any) -> str:
        flags = [getattr(numba.config, flag) for flag in ("OPT", "BOUNDSCHECK", "USING_SVML")]
        place = f"{numba.__version__} {sys.version} {codegen.magic_tuple()} {flags} {_instructions()}"
        parts = "\n".join([place, str(types), *_parts(self._kernel, set())])
        function = self._kernel.py_func
        module = function.__module__.rpartition(".")[2]
        return f"{module}.{function.__name__}-{hashlib.sha256(parts.encode()).hexdigest()[:40]}.nbc"

    def flush(self) -> None:
        """Called by `recompile`: entries of other code have other names, so there is nothing to forget."""


class _Entries(IndexDataCacheFile):
    """Files of Numba's format with a checksum at the end, which reading leaves out."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder), "", None)

    def load(self, name: str) -> Any:
        """What was saved, or None if it is damaged."""
        path = self._data_path(name)
        data = Path(path).read_bytes()
        if hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return self._load_data(name)

    def save(self, name: str, data: Any) -> None:
        """Write the entry as a whole or not at all."""
        self._save_data(name, data)
        before = time.time() - UNUSED_DAYS * 86400
        for other in Path(self._cache_path).glob(f"{name.rpartition('-')[0]}-*.nbc"):
            with contextlib.suppress(OSError):
                if other.stat().st_mtime < before:
                    other.unlink()

    def _dump(self, data: Any) -> bytes:
        text: bytes = super()._dump(data)
        return text + hashlib.sha256(text).digest()


@cache
def folders() -> tuple[Path, ...]:
    """Where machine code is kept: $NUMBA_CACHE_DIR, the package's __pycache__, the user's cache folder; what is safe.

    Safe is a folder of this user, of root or of the owner of the package, that others cannot write to.
    """
    package = Path(__file__).resolve().parents[1]
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    wanted = [Path(numba.config.CACHE_DIR)] if numba.config.CACHE_DIR else []
    wanted += [package / "__pycache__", *([home / "tailrank"] if home.is_absolute() else [])]
    safe = []
    for folder in wanted:
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.stat()
            # Windows has no owners and modes of this kind; there, a user's folders are his own unless he shares them.
            ours = os.name == "nt" or found.st_uid in (0, os.geteuid(), package.stat().st_uid)
            if ours and (os.name == "nt" or not found.st_mode & 0o022):
                safe.append(folder)
    return tuple(safe)


@cache
def _announce() -> None:
    """Say on a terminal, once, why nothing seems to happen."""
    if sys.stderr is not None and sys.stderr.isatty():
        print("compiling for this machine; takes some seconds, once", file=sys.stderr, flush=True)


@cache
def _note(problem: str) -> None:
    text = "compiled code is not kept, so every run compiles anew (%s); name a folder in NUMBA_CACHE_DIR"
    logging.getLogger("tailrank").warning(text, problem)


@cache
def _instructions() -> str:
    """Which code the instructions have that kernels use; that of `prefetch` is fixed."""
    with contextlib.suppress(OSError):
        return hashlib.sha256(Path(_vectors.__file__).read_bytes()).hexdigest()
    return ""


def _parts(kernel: Any, seen: set[Any]) -> Iterator[str]:
    """All that the machine code of a kernel depends on: its code and options, its constants, the kernels it calls."""
    function = kernel.py_func
    if function in seen:
        return
    seen.add(function)
    options = {name: sorted(x) if isinstance(x, set) else x for name, x in kernel.targetoptions.items()}
    yield f"{function.__name__} {sorted(options.items())} {function.__defaults__}"
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    names = function.__globals__ | dict(zip(function.__code__.co_freevars, cells, strict=True))
    codes = [function.__code__]
    for code in codes:
        yield f"{code.co_code!r} {code.co_varnames} {code.co_names} {code.co_freevars}"
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                codes.append(constant)
            else:
                yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)
        for name in (*code.co_names, *code.co_freevars):
            value = names.get(name)
            if isinstance(value, Dispatcher):
                yield from _parts(value, seen)
            elif isinstance(value, np.ndarray):
                yield f"{name} {value.dtype} {value.shape} {value.tobytes()!r}"
            elif not isinstance(value, ModuleType):
                yield f"{name} {getattr(value, '__qualname__', None) or repr(value)}"
