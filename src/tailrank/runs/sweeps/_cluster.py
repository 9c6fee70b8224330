"""The runs of a sweep on Dask: on workers of this machine, or on those of a scheduler that is already there.

Dask moves a task whose worker died to another one, and gives up after a few of them. A scheduler that is restarted has
forgotten everything: its tasks come back as cancelled and are submitted again, for the runs are in their folders, which
all workers must see under the same path. Two workers that meet in one folder wait for each other.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections import deque
from concurrent.futures import CancelledError
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from tailrank.checks import InputError
from tailrank.runs.run import Interrupted
from tailrank.runs.sweeps._backends import WAIT, SweepTask, WorkerAnswer
from tailrank.runs.sweeps._worker import work

PATIENCE = 300.0
"""Seconds to wait for a scheduler that went away."""
CONNECT = 10.0
"""Seconds that a connection may take."""
LOOK = 1.0
"""Seconds between two looks of a worker at whether it should stop."""
DEAF = """import signal
for name in {"SIGINT", "SIGHUP"} & set(dir(signal)):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
"""
"""What a local worker begins with: Ctrl-C in the terminal, or its end, is for the sweep, which lets it save its run."""


def work_there(task: dict[str, Any], stop: str, threads: int | None) -> dict[str, Any]:
    """On a worker: `worker.work`, until the file `stop` exists."""
    from distributed import get_worker

    beside = get_worker().state.nthreads
    if beside > 1:  # the settings of BLAS, of warnings and of many environments are those of a process
        return {"status": "failed", "error": f"its worker has {beside} threads; start Dask workers with --nthreads 1"}
    if threads is not None:
        os.environ["TAILRANK_THREADS"] = str(threads)
    last = 0.0

    def check() -> None:
        nonlocal last
        if time.monotonic() - last >= LOOK:
            last = time.monotonic()
            if os.path.exists(stop):
                raise Interrupted("the sweep was stopped", 0)

    try:
        check()
        return work(task["config"], task["folder"], check)
    except KeyboardInterrupt:
        return {"status": "interrupted"}


class Cluster:
    """Dask. out: the folder of the sweep; workers: how many to start here, if there is no scheduler."""

    def __init__(self, out: Path, workers: int, scheduler: str | None = None) -> None:
        self.scheduler, self.workers = scheduler, workers
        self.threads = None if scheduler is None and workers == 1 else 1
        self.stop = out.resolve() / f".stop-{uuid.uuid4().hex}"
        self.tasks: deque[SweepTask] = deque()
        self.given: dict[Any, SweepTask] = {}
        self.local: Any = None
        self.client: Any = None
        self.away, self.staffed = 0.0, False

    def __enter__(self) -> Self:
        """Start the workers, or find the scheduler."""
        try:
            import distributed
        except ImportError:
            raise InputError("backend = 'dask': needs more packages: pip install 'tailrank[cluster]'") from None
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what it would say is dealt with here
        if self.scheduler is None:
            self.local = distributed.LocalCluster(
                n_workers=self.workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                memory_limit=None,
                silence_logs=logging.CRITICAL,
                preload=[DEAF],
            )
        self._connect()
        return self

    def __exit__(self, *_: object) -> None:
        """Tell the workers to stop, wait for their checkpoints, leave."""
        try:
            if self.given:
                self.stop.touch()
            while not self.trouble() and not all(future.done() for future in self.given):
                time.sleep(WAIT)
        finally:
            self.stop.unlink(missing_ok=True)
            self.client.close()
            if self.local is not None:
                self.local.close()

    def submit(self, task: SweepTask) -> None:
        """Take a task."""
        self.tasks.append(task)

    def answer(self) -> WorkerAnswer | None:
        """The answer of a task that is done; what a scheduler forgot is given again."""
        for future in [future for future in self.given if future.status not in ("pending", "finished", "error")]:
            self.tasks.append(self.given.pop(future))
        if self.tasks:
            self._give()
        for future, task in self.given.items():
            if future.status in ("finished", "error"):
                answer = _answer(task.name, future)
                if answer is not None:
                    del self.given[future]
                    return answer
        time.sleep(WAIT)
        return None

    def trouble(self) -> str:
        """What keeps it from working."""
        if self.client.status != "running":
            return f"waiting for {self.scheduler}"
        # Asked only until there was one: a scheduler that is about to go would keep us waiting for its answer.
        self.staffed = self.staffed or bool(self.client.scheduler_info().get("workers"))
        return "" if self.staffed else "waiting for workers"

    def _give(self) -> None:
        """Submit what waits, if the scheduler is there."""
        from distributed.client import ClosedClientError

        if self.client.status not in ("running", "connecting"):
            self.away = self.away or time.monotonic()
            try:
                self._connect()
            except InputError:
                if time.monotonic() - self.away > PATIENCE:
                    raise
                return
        self.away = 0.0
        while self.tasks:
            task = self.tasks[0]
            key, arguments = f"{task.name}-{uuid.uuid4().hex[:8]}", (asdict(task), str(self.stop), self.threads)
            try:
                future = self.client.submit(work_there, *arguments, key=key, pure=False)
            except ClosedClientError:
                return
            self.given[future] = self.tasks.popleft()

    def _connect(self) -> None:
        from distributed import Client

        try:
            self.client = Client(self.local or self.scheduler, timeout=CONNECT, set_as_default=False)
            self.staffed = False
        except (OSError, ValueError) as error:
            text = f"scheduler = {self.scheduler!r}: cannot be reached ({error})"
            raise InputError(" ".join(text.split())) from None


def _answer(name: str, future: Any) -> WorkerAnswer | None:
    """What a task gave; an error is none of the run's, which are answers too. None where it has to be fetched again."""
    if future.status == "error":
        error = future.exception()
        return WorkerAnswer(name, "lost", error=f"{type(error).__name__}: {error}")
    from distributed import KilledWorker
    from distributed.client import ClosedClientError

    try:
        return WorkerAnswer.of(name, future.result(timeout=CONNECT))
    except (OSError, CancelledError, ClosedClientError, KilledWorker):  # whoever had it went away
        return None
