"""What a worker of a sweep does with a run, and a process that does it for one run after the other.

What goes to a worker and comes back is plain data: the values of a configuration and a folder, and what came of it.
The run itself is in the folder. A worker may be killed at any moment, and a run may be given to two of them.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tailrank.checks import InputError
from tailrank.runs.build import packages_of
from tailrank.runs.config import RunConfig
from tailrank.runs.folder import CONFIG, InUse
from tailrank.runs.run import Taken, resume, run

PAUSE = 0.2
"""Seconds between two looks at a folder that another worker holds."""
LONGEST = 400
"""Characters of an error that are kept."""


def work(config: dict[str, Any], folder: str, check: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Run or resume what belongs into the folder; its status, with its CVaR or an error in one line, and notes.

    check: called after every iteration and while the folder is held by another worker; may raise Interrupted.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            result = _done(RunConfig.from_dict(config), Path(folder), check)
            answer = {"status": "finished", "cvar": result.get("cvar")}
        except (Exception, SystemExit) as error:
            answer = {"status": "failed", "error": _line(error)}
    notes = dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
    return answer | {"notes": list(notes)}


def _done(config: RunConfig, folder: Path, check: Callable[[], None]) -> dict[str, Any]:
    """The result of the run; waits while another worker has it."""

    def progress(*_: object) -> None:
        check()

    while True:
        begun = (folder / CONFIG).is_file()
        try:
            if begun:
                return resume(folder, progress=progress, imports=packages_of(config))
            return run(config, folder, progress=progress)
        except InUse:
            check()
            time.sleep(PAUSE)
        except Taken:
            if begun or not (folder / CONFIG).is_file():
                raise
            # Another worker was faster; what it began, or finished, is there to be resumed.


def _line(error: BaseException) -> str:
    text = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:LONGEST]


def main() -> None:
    """Answer runs, a line of JSON each, from stdin on stdout. The end of stdin ends this process, a run is saved first.

    So nothing has to be sent to stop it, and it does not outlive the process that started it.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an environment prints is no answer
    tasks: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            tasks.put(line)
        if tasks.unfinished_tasks:
            os.kill(os.getpid(), signal.SIGTERM)
        tasks.put("")

    threading.Thread(target=listen, daemon=True).start()
    while line := tasks.get():
        try:
            answer = work(**json.loads(line))
        except KeyboardInterrupt:
            answer = {"status": "interrupted"}
        print(json.dumps(answer), file=answers, flush=True)
        tasks.task_done()


if __name__ == "__main__":
    main()
