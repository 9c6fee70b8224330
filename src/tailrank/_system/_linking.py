"""Machine code of what only kernels call: optimised once, where it is used, not on its own and then again.

Numba makes every function that a kernel calls ready to run: it optimises it, emits machine code, and then links the
optimised form into the kernel, where it is optimised again. Nobody runs the first machine code. While one of our
kernels is compiled, functions that Python cannot call are therefore linked as they are; should somebody ask for the
address of one after all, it is made then.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary, JITCPUCodegen

CALLED_BY_PYTHON = "_ZN7cpython"
"""What the names of the functions begin with through which Python calls others."""


class Unfinished(JITCodeLibrary):
    """A library that can be linked into others and has no machine code of its own yet."""

    def get_pointer_to_function(self, name: str) -> int:
        """The address of a function; 0 where there is none of this name."""
        if all(f.is_declaration or f.name != name for f in self._final_module.functions):
            return 0
        self.__class__ = JITCodeLibrary
        self._optimize_final_module()
        self._finalize_final_module()
        return int(self.get_pointer_to_function(name))


@contextmanager
def linked_as_they_are() -> Iterator[None]:
    """While this holds, functions that only kernels call are not made ready to run. Numba's compiler lock is held."""
    finish, tell, collecting = JITCodeLibrary.finalize, JITCPUCodegen.set_env, gc.isenabled()
    waiting: list[tuple[str, Any]] = []

    def finalize(library: Any) -> None:
        if any(f.name.startswith(CALLED_BY_PYTHON) for f in library._final_module.functions):
            finish(library)
            for name, environment in waiting:
                set_env(library._codegen, name, environment, known=False)
            return
        for part in dict.fromkeys(library._linking_libraries):
            getattr(library, "_reload_init", set()).update(getattr(part, "_reload_init", ()))  # newer versions have it
            library._final_module.link_in(part._get_module_for_linking(), preserve=True)
        library._final_module.verify()
        library._finalize_dynamic_globals()
        library._finalized = True
        library.__class__ = Unfinished

    def set_env(codegen: Any, name: str, environment: Any, known: bool = True) -> None:
        # What a function keeps of Python has a place once there is machine code, its own or that of a kernel.
        if codegen._engine.get_global_value_address(name):
            tell(codegen, name, environment)
        elif known:
            waiting.append((name, environment))

    alone = CPUCodeLibrary._optimize_functions
    CPUCodeLibrary._optimize_functions = lambda library, module: None
    JITCodeLibrary.finalize, JITCPUCodegen.set_env = finalize, set_env
    gc.disable()  # a compiler makes many small things that live until it is done: looking through them finds nothing
    try:
        yield
    finally:
        JITCodeLibrary.finalize, JITCPUCodegen.set_env = finish, tell
        CPUCodeLibrary._optimize_functions = alone
        if collecting:
            gc.enable()
