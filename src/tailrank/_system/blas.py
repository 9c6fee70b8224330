"""Room for the matrix libraries under a limit on the address space (`ulimit -v`).

OpenBLAS maps a work buffer when it is first called. Where that fails it tries for ever, and no signal ends it: so under
a limit its buffers are taken before anything else, while there is room, or the lack of it is an error.
"""

from __future__ import annotations

import mmap
from functools import cache

BUFFER = 2**26
"""Bytes that must be free for a buffer: OpenBLAS takes half of it on most processors, all of it on some."""


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
