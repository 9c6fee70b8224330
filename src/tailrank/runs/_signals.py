"""Signals that end work at a good moment: a first one asks for it, the same one again does not wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
HEEDED = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
"""Windows has no SIGHUP."""


@dataclass
class Stop:
    """Whether to stop; `number` is the signal that said so, 0 before."""

    number: int = 0

    @contextmanager
    def heed_signals(self) -> Iterator[None]:
        """SIGINT, SIGTERM and SIGHUP set `number`; SIGINT or SIGTERM again raises KeyboardInterrupt.

        SIGINT and SIGHUP stay ignored where they are (nohup, jobs in the background of a script). Only the main thread
        hears signals.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        heard = set()

        def stop(number: int, frame: FrameType | None) -> None:
            # A terminal that is closed can send SIGHUP twice, by itself and through its shell.
            if number in heard and signal.Signals(number).name != "SIGHUP":
                raise KeyboardInterrupt
            heard.add(number)
            self.number = self.number or number

        before = {number: signal.getsignal(number) for number in HEEDED}
        before = {n: handler for n, handler in before.items() if handler is not signal.SIG_IGN or n == signal.SIGTERM}
        try:
            for number in before:
                signal.signal(number, stop)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
