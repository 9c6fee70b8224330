"""Work on all cores: threads around kernels, which release the interpreter lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

PARTS_WORK = 50_000_000
"""Products above which a step is cut into more parts than cores, so that none waits long for the last."""

POOL = "tailrank-part"
"""What the names of our threads begin with."""

SERIAL_WORK = 200_000
"""Products below which a step is not worth dividing over threads."""


def over_states(
    kernel: Callable[..., None], arguments: tuple[Any, ...], work: np.ndarray, *, finely: bool = True, first: int = 0
) -> None:
    """Call `kernel(begin, end, *arguments)` over all states, in parts of equal work [S] on all cores.

    finely: more parts than cores where there is much work; not for kernels that go through all states in every part.
    first: the state that the first entry of `work` is of.
    """
    n, workers = work.size, threads()
    total = int(work.sum()) if workers > 1 else 0
    inside = threading.current_thread().name.startswith(POOL)  # who waits for the pool must not be of it
    if workers == 1 or total < SERIAL_WORK or inside:
        kernel(first, first + n, *arguments)
        return
    parts = workers * (4 if finely and total >= PARTS_WORK else 1)
    cuts = np.searchsorted(np.cumsum(work), total * np.arange(1, parts) / parts)
    spans = list(pairwise(sorted({first, first + n, *(first + cuts).tolist()})))
    others = [_pool(workers).submit(kernel, *span, *arguments) for span in spans[1:]]
    kernel(*spans[0], *arguments)  # this thread works too
    for part in others:
        part.result()


def run_together(tasks: Sequence[Callable[[], T]], most: int = 2**30) -> list[T]:
    """The results of independent tasks that spend their time in kernels, run on all cores, at most so many at once."""
    workers = min(threads(), most)
    if workers <= 1 or len(tasks) == 1:
        return [task() for task in tasks]
    return list(_pool(workers).map(lambda task: task(), tasks))


def threads() -> int:
    """Cores to use: TAILRANK_THREADS, or those this process may run on."""
    setting = os.environ.get("TAILRANK_THREADS", "")
    return max(1, int(setting)) if setting.isdigit() else cores()


def cores() -> int:
    """Cores that this process may run on; all of the machine where the system does not say (macOS, Windows)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix=POOL)
