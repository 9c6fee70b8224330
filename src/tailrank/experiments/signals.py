"""Signals that end work at a good moment: a first one asks for it, a second one does not wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Stop:
    """Whether to stop; `number` is the signal that said so, 0 before."""

    number: int = 0

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """SIGINT and SIGTERM set `number`, a second one raises KeyboardInterrupt; only the main thread hears them."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            if self.number:
                raise KeyboardInterrupt
            self.number = number

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
