"""How long this process has been compiling."""

from __future__ import annotations

import time


class CompilerClock:
    """How long this process has been compiling: what a limit on time should not count.

    One kernel may make the compiler compile others; the outermost counts.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began: list[float] = []

    def begin(self) -> None:
        """A kernel is compiled from now on."""
        self._began.append(time.perf_counter())

    def end(self) -> None:
        """The last one that was begun is done."""
        if self._began:
            began = self._began.pop()
            self.seconds += 0.0 if self._began else time.perf_counter() - began


COMPILING = CompilerClock()
