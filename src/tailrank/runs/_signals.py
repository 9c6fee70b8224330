"""Signals that end work at a good moment: a first one asks for it, the same one again does not wait.

A good moment may be far away. So the first signal is answered at once, and `GRACE` seconds later it stops waiting for
a good moment by itself, as if it had come again.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
HEEDED = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
"""Windows has no SIGHUP."""
GRACE = 5.0
"""Seconds that a good moment may take to come."""


@dataclass
class Stop:
    """Whether to stop; `number` is the signal that said so, 0 before. answer: called when it comes.

    grace: seconds until it no longer waits; None waits for ever.
    """

    number: int = 0
    answer: Callable[[], None] | None = None
    grace: float | None = GRACE
    _late: bool = field(default=False, init=False, repr=False)
    _timer: threading.Timer | None = field(default=None, init=False, repr=False)

    @contextmanager
    def heed_signals(self) -> Iterator[None]:
        """SIGINT, SIGTERM and SIGHUP set `number`; SIGINT or SIGTERM again, or time, raises KeyboardInterrupt.

        SIGINT and SIGHUP stay ignored where they are (nohup, jobs in the background of a script). Only the main thread
        hears signals.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        heard = set()

        def stop(number: int, frame: FrameType | None) -> None:
            # A terminal that is closed can send SIGHUP twice, by itself and through its shell.
            if self._late or (number in heard and signal.Signals(number).name != "SIGHUP"):
                raise KeyboardInterrupt
            heard.add(number)
            if not self.number:
                self.number = number
                self._begin_grace(number)

        before = {number: signal.getsignal(number) for number in HEEDED}
        before = {n: handler for n, handler in before.items() if handler is not signal.SIG_IGN or n == signal.SIGTERM}
        try:
            for number in before:
                signal.signal(number, stop)
            yield
        finally:
            self.arrived()
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def arrived(self) -> None:
        """The good moment has come: what is done now is not cut short."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._late = None, False

    def _begin_grace(self, number: int) -> None:
        if self.answer is not None:
            with suppress(OSError):
                self.answer()
        if self.grace is None:
            return

        def again() -> None:
            self._late = True
            # The process, not this thread: what the main thread waits for is interrupted then.
            if os.name == "nt":
                signal.raise_signal(number)
            else:
                os.kill(os.getpid(), number)

        self._timer = threading.Timer(self.grace, again)
        self._timer.daemon = True
        self._timer.start()
