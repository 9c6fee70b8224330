"""Where the runs of a sweep happen: in this process or in others. A cluster is in `cluster`.

A backend takes tasks and gives answers, in any order. A task that was lost with its worker is answered too; whether it
is given again is not the backend's business.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Protocol, Self, cast

from tailrank.runs.sweeps._worker import work

WAIT = 0.2
"""Seconds that a backend waits for an answer before it says that there is none yet."""


@dataclass(frozen=True)
class SweepTask:
    """A run as plain data: its name, the values of its configuration, its folder."""

    name: str
    config: dict[str, Any]
    folder: str


@dataclass(frozen=True)
class WorkerAnswer:
    """What came of a task. status: finished, failed, interrupted (by somebody else), or lost with its worker."""

    name: str
    status: str
    cvar: float | None = None
    error: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, values: dict[str, Any]) -> WorkerAnswer:
        """From the plain data that a worker gives."""
        return cls(name, values["status"], values.get("cvar"), values.get("error", ""), tuple(values.get("notes", ())))


class Backend(Protocol):
    """Used in a `with` block; leaving it stops what still runs, with a checkpoint where there is time for one."""

    def __enter__(self) -> Self:
        """Ready for tasks."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Everything stopped."""
        ...

    def submit(self, task: SweepTask) -> None:
        """Take a task."""
        ...

    def answer(self) -> WorkerAnswer | None:
        """The next answer; None if there is none within a fraction of a second."""
        ...

    def trouble(self) -> str:
        """What keeps it from working, if anything."""
        ...


class Serial:
    """One run after the other, here. check: called after every iteration; may raise Interrupted."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check
        self.tasks: deque[SweepTask] = deque()

    def __enter__(self) -> Self:
        """Ready."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing runs."""

    def submit(self, task: SweepTask) -> None:
        """Take a task."""
        self.tasks.append(task)

    def answer(self) -> WorkerAnswer | None:
        """Do the next task; a signal raises Interrupted when the run has been saved."""
        if not self.tasks:
            return None
        task = self.tasks.popleft()
        return WorkerAnswer.of(task.name, work(task.config, task.folder, self.check))

    def trouble(self) -> str:
        """Nothing."""
        return ""


class Processes:
    """Up to `workers` processes, started when there is work for them. One that dies is replaced."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.tasks: deque[SweepTask] = deque()
        self.processes: list[_Process] = []
        self.lines: queue.Queue[tuple[_Process, bytes]] = queue.Queue()

    def __enter__(self) -> Self:
        """Ready; nothing is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let every process save its run and end; a signal that cannot wait kills them."""
        try:
            for process in self.processes:
                process.release()
            for process in self.processes:
                process.popen.wait()
        finally:
            for process in self.processes:
                process.popen.kill()
                process.end()

    def submit(self, task: SweepTask) -> None:
        """Take a task."""
        self.tasks.append(task)

    def answer(self) -> WorkerAnswer | None:
        """Give tasks to idle processes, then wait a moment for an answer of a busy one."""
        idle = [process for process in self.processes if process.task is None]
        while self.tasks and (idle or len(self.processes) < self.workers):
            process = idle.pop() if idle else self._start()
            process.give(self.tasks.popleft())
        try:
            process, line = self.lines.get(timeout=WAIT)
        except queue.Empty:
            return None
        task, process.task = process.task, None
        if line and task:
            return WorkerAnswer.of(task.name, json.loads(line))
        self.processes.remove(process)
        how = process.end()
        return WorkerAnswer(task.name, "lost", error=f"its process {how}") if task else None

    def trouble(self) -> str:
        """Nothing."""
        return ""

    def _start(self) -> _Process:
        process = _Process(self.lines, threads=1 if self.workers > 1 else None)
        self.processes.append(process)
        return process


class _Process:
    """A process that runs `worker.main`, and the task that it has. Its lines go into `lines`, an empty one at the end.

    A thread reads them, because Windows cannot wait for several pipes at once.
    """

    def __init__(self, lines: queue.Queue[tuple[_Process, bytes]], threads: int | None) -> None:
        self.task: SweepTask | None = None
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        more = {"PYTHONPATH": paths} | ({} if threads is None else {"TAILRANK_THREADS": str(threads)})
        # A session of its own: Ctrl-C is for us, who then close its stdin.
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "tailrank.runs.sweeps._worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | more,
            start_new_session=True,
        )
        self.stdin, self.stdout = cast(IO[bytes], self.popen.stdin), cast(IO[bytes], self.popen.stdout)
        self.reader = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self.reader.start()

    def _read(self, lines: queue.Queue[tuple[_Process, bytes]]) -> None:
        for line in self.stdout:
            if line.endswith(b"\n"):
                lines.put((self, line))
        lines.put((self, b""))

    def give(self, task: SweepTask) -> None:
        """Send a task; where nobody reads it any more, the next look at the process says so."""
        self.task = task
        line = json.dumps({"config": task.config, "folder": task.folder}) + "\n"
        with suppress(BrokenPipeError):
            self.stdin.write(line.encode())
            self.stdin.flush()

    def release(self) -> None:
        """Let it save its run and end."""
        with suppress(BrokenPipeError):
            self.stdin.close()

    def end(self) -> str:
        """How it went, which it has or is about to."""
        self.release()
        code = self.popen.wait()
        self.reader.join(WAIT)
        if not self.reader.is_alive():  # else a child of an environment still has the pipe
            self.stdout.close()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
