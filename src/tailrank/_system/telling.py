"""What long work is about, told while it goes on to whoever listens; where nobody listens it costs next to nothing.

Work says what it does where it does it, and need not know whether there is a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

Listener = Callable[[str, bool], None]
"""Called with a text, and whether it must be shown now."""
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)
_DOING: ContextVar[str] = ContextVar("doing", default="")


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Within it, `listener` is called with what is being done; "" when that is over.

    >>> with heard_by(lambda text, now: print(text or "over")), doing("judging the policy"):
    ...     tell(200, 1000, "episodes")
    judging the policy
    judging the policy: 200/1000 episodes
    over
    """
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Within it, this is being done. What is done within that stands for it, until it is over."""
    before = _DOING.get()
    token = _DOING.set(what)
    _say(what)
    try:
        yield
    finally:
        _DOING.reset(token)
        _say(before)


def tell(done: int, total: int, what: str) -> None:
    """So many of the total are done, of what is being done; not said where nobody said what that is."""
    if _DOING.get() and total > 1:
        _say(f"{_DOING.get()}: {done}/{total} {what}")


def announce(text: str, now: bool = False) -> bool:
    """Say this, whatever is being done; whether somebody listens."""
    return _say(text, now)


def _say(text: str, now: bool = False) -> bool:
    listener = _LISTENER.get()
    if listener is None:
        return False
    with suppress(OSError):  # a terminal may be closed; work is worth more than what is said about it
        listener(text, now)
    return True
