"""The matrix libraries: one thread for each, and room for them under a limit on the address space (`ulimit -v`).

A matrix product adds in another order on more threads. What learns, plans or plays has one thread for it, so that its
bits do not depend on the number of cores; work is divided where the order of sums is known (`parallel.py`).

OpenBLAS maps a work buffer when it is first called. Where that fails it tries for ever, and no signal ends it: so under
a limit its buffers are taken before anything else, while there is room, or the lack of it is an error.
"""

from __future__ import annotations

import mmap
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

BUFFER = 2**26
"""Bytes that must be free for a buffer: OpenBLAS takes half of it on most processors, all of it on some."""


def on_one_blas_thread() -> AbstractContextManager[Any]:
    """While this holds, matrix products use one thread each."""
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> Any:
    import scipy.linalg  # noqa: F401 - it must be loaded to be found: kernels use its BLAS
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@cache
def claim_buffers() -> None:
    """Let the libraries of NumPy and SciPy take their buffers; MemoryError if a limit leaves no room for them."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    import numpy as np

    _room()
    np.linalg.solve(np.eye(2), np.eye(2))
    import scipy.linalg

    _room()
    scipy.linalg.solve_triangular(np.eye(2), np.eye(2))


def _room() -> None:
    try:
        mmap.mmap(-1, BUFFER).close()
    except OSError:
        needed = f"{BUFFER // 2**20} MB for a matrix library"
        raise MemoryError(f"{needed} could not be allocated under the limit on the address space, ulimit -v") from None
