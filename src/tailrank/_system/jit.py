"""`compiled`: a kernel that becomes machine code when it is first called, so that importing it costs nothing.

Kernels release the interpreter lock. What they may call is NumPy and other kernels.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from functools import cached_property
from types import CodeType
from typing import Any

FAST = {"contract", "nsz", "arcp"}
"""What the compiler may do to sums of floats unless a kernel says otherwise: nothing that changes infinities."""
LINKING = threading.RLock()


class Kernel:
    """Stands for a function until it is called or asked for anything; then for Numba's dispatcher of it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._options = function, options

    def __call__(self, *arguments: Any) -> Any:
        """What the function returns."""
        return self.dispatcher(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    @cached_property
    def dispatcher(self) -> Any:
        """The dispatcher; the kernels that the function names are dispatchers in its module from then on."""
        try:
            return self._compile()
        except (
            AttributeError
        ) as error:  # Python would take it for a missing attribute and ask `__getattr__`, which asks here
            raise RuntimeError(f"{self._function.__name__}: cannot be compiled ({error})") from error

    def _compile(self) -> Any:
        from tailrank._system import _machine_code

        with LINKING:
            result = _machine_code.dispatcher(self._function, self._options)
            names = self._function.__globals__
            for name in _names(self._function.__code__):
                if isinstance(names.get(name), Kernel):
                    names[name] = names[name].dispatcher
            return result


class Instruction(Kernel):
    """Stands for what is not compiled from Python, for kernels to use; the function says what it does."""

    def _compile(self) -> Any:
        """What Numba puts in its place, or the function itself where nothing is compiled."""
        from tailrank._system import _machine_code

        return _machine_code.instruction(self._function)


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """The function as machine code: `@compiled`, or with options of Numba `@compiled(inline="always")`."""
    if function is None:
        return lambda f: compiled(f, **options)
    return Kernel(function, {"nogil": True, "fastmath": FAST, "no_cfunc_wrapper": True} | options)


inlined = compiled(inline="always")
frugal = compiled(_nrt=False)
"""For kernels that make no arrays: they do not count who uses those that they are given, which takes locked
instructions and a good part of the compiler's time."""
nested = compiled(no_cpython_wrapper=True, _nrt=False)
"""For kernels that only kernels call and that make no arrays: compiled without what Python would need to call them."""


def instruction(function: Callable[..., Any]) -> Any:
    """The function as an instruction of that name of `_machine_code`."""
    return Instruction(function, {})


@instruction
def prefetch(array: Any, index: Any) -> None:
    """Ask for the cache line of array[index], which will be read soon, to be in the second-level cache by then."""


def _names(code: CodeType) -> set[str]:
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)
