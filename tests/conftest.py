"""What every test begins with, whoever starts it; and helpers beside this file are importable from every folder.

Under `nohup` SIGHUP is ignored, in the background of a script SIGINT is; a shell may have another umask, locale or time
zone. Tests that are about one of these set it themselves.
"""

from __future__ import annotations

import os
import signal
import time


def pytest_configure() -> None:
    """Signals, umask, locale and time zone as tests expect them, here and in the processes that they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in {"SIGTERM", "SIGHUP", "SIGPIPE"} & set(dir(signal)):
        plain = signal.SIG_IGN if number == "SIGPIPE" else signal.SIG_DFL  # Python itself ignores that one
        signal.signal(getattr(signal, number), plain)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o022)
    for name in [name for name in os.environ if name.startswith("LC_") or name in ("LANG", "LANGUAGE")]:
        del os.environ[name]
    os.environ |= {"LC_ALL": "C.UTF-8", "TZ": "UTC"}
    if hasattr(time, "tzset"):
        time.tzset()
