"""Worker processes on the machines of a Dask cluster, for `InWorkers`, which does not know where its processes run.

A process belongs to one Dask worker, which starts it when it is asked for the first time, hands messages on and sends
answers back. The episodes are not Dask's: where a Dask worker goes away, whoever asked gets `WorkerLost`, and
`InWorkers` plays the episodes again in a process on another one. So they are the same bits wherever they are played.
"""

from __future__ import annotations

import logging
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.gymnasium._workers import STARTING, WorkerLost, WorkerProcess

CONNECT = 10.0
"""Seconds that a connection may take."""
LOOK = 2.0
"""Seconds between two looks at whether a Dask worker is still there."""
TRIES = 3
"""Dask workers that are tried for a process."""
IDLE = 3600.0
"""Seconds after which a process that nobody asked is ended: whoever began it may be gone."""

Processes = dict[str, tuple[float, WorkerProcess]]


def play_there(key: str, message: dict[str, Any], limits: tuple[float | None, float], path: Sequence[str]) -> Any:
    """On a Dask worker: hand a message to process `key`. Returned is its answer, or one line if it is lost.

    limits: seconds a call, and seconds at least. path: where the one who asks imports from, tried after this one's own.
    """
    from distributed import get_worker

    processes: Processes = vars(get_worker()).setdefault("tailrank_processes", {})
    now = time.monotonic()
    for old in [name for name, (last, _) in list(processes.items()) if now - last > IDLE]:
        processes.pop(old)[1].close(0.0)
    try:
        if "source" in message:
            own = [entry for entry in sys.path if isinstance(entry, str)]
            more = [entry for entry in path if entry not in own]
            processes[key] = now, WorkerProcess({**message, "path": [*own, *more]}, limits[0])
            return {"rows": []}, np.zeros(0)
        if key not in processes:
            return "was forgotten by its Dask worker"
        process = processes[key][1]
        processes[key] = now, process
        if "end" in message:
            del processes[key]
            process.close(1.0)
            return {"rows": []}, np.zeros(0)
        process.send(message)
        return process.reply(len(message["calls"]), limits[1])
    except WorkerLost as error:
        return str(error)
    except InputError as error:
        return {"error": str(error)}, np.zeros(0)


class DaskCluster:
    """The Dask workers that a scheduler at `address` (tcp://HOST:PORT) knows."""

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise InputError("cluster: needs more packages: pip install 'tailrank[cluster]'") from None
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what it would say is dealt with here
        self.address, self._turn = address, 0
        try:
            self.client = Client(address, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            text = f"cluster = {address!r}: cannot be reached ({error})"
            raise InputError(" ".join(text.split())) from None

    @property
    def workers(self) -> list[str]:
        """The addresses of the Dask workers that are there."""
        try:
            return sorted(self.client.nthreads())
        except (OSError, CancelledError, RuntimeError) as error:
            raise InputError(f"cluster = {self.address!r}: does not answer any more ({error!s:.100})") from None

    def start(self, about: Mapping[str, Any], timeout: float | None) -> ClusterProcess:
        """A process on the Dask worker whose turn it is; on the next one where that one has just gone."""
        for _ in range(TRIES - 1):
            try:
                return ClusterProcess(self, about, timeout)
            except WorkerLost:
                continue
        return ClusterProcess(self, about, timeout)

    def next(self) -> str:
        """The address of the Dask worker whose turn it is; waits a while for the first one."""
        end = time.monotonic() + CONNECT
        while not (there := self.workers):
            if time.monotonic() > end:
                raise InputError(f"cluster = {self.address!r}: has no workers")
            time.sleep(0.1)
        self._turn += 1
        return there[(self._turn - 1) % len(there)]

    def close(self) -> None:
        """Leave it."""
        self.client.close()


class ClusterProcess(WorkerProcess):
    """A process on a Dask worker, as if it were here."""

    def __init__(self, cluster: DaskCluster, about: Mapping[str, Any], timeout: float | None) -> None:
        self._cluster, self._timeout, self._key = cluster, timeout, f"tailrank-{uuid.uuid4().hex}"
        self._there = cluster.next()
        self.ask(about, 0, STARTING)

    def send(self, message: Mapping[str, Any], least: float = 0.0) -> None:
        """A message; what becomes of it is known when the answer is asked for."""
        path = [entry for entry in sys.path if isinstance(entry, str)]
        self._answer = self._cluster.client.submit(
            play_there,
            self._key,
            dict(message),
            (self._timeout, least),
            path,
            key=f"{self._key}-{uuid.uuid4().hex[:8]}",
            workers=[self._there],
            pure=False,
        )

    def ask(self, message: Mapping[str, Any], calls: int, least: float = 0.0) -> list[Any]:
        """Send and wait."""
        self.send(message, least)
        return self.answer(calls, least)

    def reply(self, calls: int, least: float = 0.0) -> tuple[dict[str, Any], np.ndarray]:
        """What comes back; raises `WorkerLost` where the process, or its Dask worker, is gone."""
        from distributed import KilledWorker

        while True:
            try:
                found = self._answer.result(timeout=LOOK)
                break
            except TimeoutError:
                if self._there not in self._cluster.workers:
                    raise WorkerLost("went away with its Dask worker") from None
            except (OSError, CancelledError, KilledWorker):
                raise WorkerLost("went away with its Dask worker") from None
        if isinstance(found, str):
            raise WorkerLost(found)
        message, numbers = found
        if "error" in message:
            raise InputError(message["error"])
        return message, numbers

    def close(self, wait: float = 5.0) -> None:
        """Let it end, if its Dask worker is still there; nobody waits for that."""
        try:
            if self._there in self._cluster.workers:
                self.send({"end": True})
                self._answer.result(timeout=max(wait, 1.0))
        except (InputError, OSError, CancelledError, RuntimeError):
            return  # it ends with its Dask worker, or after an idle hour
