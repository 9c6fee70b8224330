"""Episodes in worker processes: the same bits whatever their number, and none of them is lost with its process.

Row r is played by worker r mod K. An episode is fixed by its seed and its actions, so where a process ends or a call
takes too long, a fresh process plays the episodes of that worker again up to where they were, and then the call. If
that fails as well, its rows are played one by one, each in a process of its own where the last one died, so that
it is known which of them is to blame. What is said about that row is an error, or (skip) the row is left out.

A process (`_worker_process`) makes the environment from its id, or from a function or class that it can import.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.gymnasium._frames import read_frame, write_frame
from tailrank.envs.gymnasium._masks import from_letters
from tailrank.envs.gymnasium._rows import RowOutcome, RowPlayer

STARTING = 120.0
"""Seconds that a process has at least to import its environment and make it."""


class WorkerLost(Exception):
    """A worker that ended or did not answer in time; its text says which."""


class WorkerProcess:
    """One child and its answers. silent: what the environment prints is dropped."""

    def __init__(self, about: Mapping[str, Any], timeout: float | None, silent: bool = False) -> None:
        self._timeout = timeout
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tailrank.envs.gymnasium._worker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if silent else None,
        )
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.ask({"path": [entry for entry in sys.path if isinstance(entry, str)], **about}, 0, STARTING)

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError, ValueError):  # a child that dies may leave half a message
            while True:
                self._answers.put(read_frame(self._child.stdout))  # type: ignore[arg-type]
        self._answers.put(None)

    def send(self, message: Mapping[str, Any]) -> None:
        """A message; that nobody reads it is known when the answer is asked for."""
        with contextlib.suppress(OSError, ValueError):
            write_frame(self._child.stdin, dict(message))  # type: ignore[arg-type]

    def reply(self, calls: int, least: float = 0.0) -> tuple[dict[str, Any], np.ndarray]:
        """What comes back for a message of so many calls of the environment; raises `WorkerLost`."""
        limit = None if self._timeout is None else max(self._timeout * max(calls, 1), least)
        try:
            found = self._answers.get(timeout=limit)
        except queue.Empty:
            raise WorkerLost(f"took longer than {self._timeout:g} s") from None
        if found is None:
            raise WorkerLost(f"ended its process (exit code {self._child.wait()})")
        message, numbers = found
        if "error" in message:
            raise InputError(message["error"])
        return message, numbers

    def answer(self, calls: int, least: float = 0.0) -> list[RowOutcome | str]:
        """The outcomes of the rows that were asked for; raises `WorkerLost`."""
        message, numbers = self.reply(calls, least)
        features = iter(numbers.reshape(sum(not isinstance(row, str) for row in message["rows"]) or 1, -1))
        return [
            row if isinstance(row, str) else RowOutcome(row[0], next(features), row[1], from_letters(row[2]))
            for row in message["rows"]
        ]

    def ask(self, message: Mapping[str, Any], calls: int, least: float = 0.0) -> list[RowOutcome | str]:
        """Send and wait."""
        self.send(message)
        return self.answer(calls, least)

    def close(self, wait: float = 5.0) -> None:
        """Let it end by itself, or kill it."""
        try:
            self._child.stdin.close()  # type: ignore[union-attr]
            self._child.wait(wait)
        except (OSError, subprocess.TimeoutExpired):
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()  # type: ignore[union-attr]


class InWorkers(RowPlayer):
    """Rows in K processes; about: what `_worker_process` makes the environment from; cluster: where they run, if not
    here (`_cluster.DaskCluster`)."""

    def __init__(
        self,
        about: Mapping[str, Any],
        name: str,
        shape: tuple[int, int],
        workers: int,
        timeout: float | None,
        skip: bool,
        cluster: Any = None,
    ) -> None:
        super().__init__(*shape, skip)
        self._about, self._name, self._timeout, self._cluster = about, name, timeout, cluster
        self._count = min(workers, self.width)
        self._workers: list[WorkerProcess] = []
        self._seeds: Sequence[int] = ()
        self._played: list[list[int]] = []
        self.replaced = 0
        """Processes that were lost so far."""
        for i in range(self._count):
            self._workers.append(self._start(i))

    def _start(self, i: int) -> WorkerProcess:
        start = WorkerProcess if self._cluster is None else self._cluster.start
        try:
            return start({**self._about, "copies": len(range(i, self.width, self._count))}, self._timeout)
        except WorkerLost as error:
            self.close()
            raise InputError(f"{self._name}: making it in a worker process {error}") from None

    def begin_rows(self, seeds: Sequence[int]) -> list[RowOutcome | str]:
        """Begin an episode for each seed."""
        self._seeds, self._played = seeds, [[] for _ in seeds]
        return self._all([(row, None) for row in range(len(seeds))], 0)

    def advance_rows(self, rows: Sequence[int], actions: Sequence[int], h: int) -> list[RowOutcome | str]:
        """Play step h in these rows, all workers at the same time."""
        found = self._all(list(zip(rows, actions, strict=True)), h)
        for row, action in zip(rows, actions, strict=True):
            self._played[row].append(action)
        return found

    def _all(self, calls: Sequence[tuple[int, int | None]], h: int) -> list[RowOutcome | str]:
        """The outcomes of (row, action) calls; an action of None begins the row."""
        mine = [[call for call in calls if call[0] % self._count == i] for i in range(self._count)]
        for worker, some in zip(self._workers, mine, strict=True):
            if some:
                worker.send({"calls": self._plain(some, h)})
        found: dict[int, RowOutcome | str] = {}
        for i, some in enumerate(mine):
            if some:
                try:
                    results = self._workers[i].answer(len(some))
                except WorkerLost:
                    results = self._again(i, some, h)
                found |= dict(zip((row for row, _ in some), results, strict=True))
        return [found[row] for row, _ in calls]

    def _plain(self, calls: Sequence[tuple[int, int | None]], h: int) -> list[tuple[int, int | None, int]]:
        """Calls as a worker gets them: its own row, the action, and the step; or the row, None and the seed."""
        return [(row // self._count, a, h if a is not None else self._seeds[row]) for row, a in calls]

    def _again(self, i: int, calls: Sequence[tuple[int, int | None]], h: int) -> list[Any]:
        """The calls once more in a fresh process, after everything before them; then row by row."""
        self._replace(i)
        try:
            return self._replayed(i, calls, h)
        except WorkerLost:
            self._replace(i)
        results: list[Any] = []
        good: list[tuple[int, int | None]] = []
        for row, action in calls:
            try:
                results += self._replayed(i, [(row, action)], h)
                good.append((row, action))
            except WorkerLost as error:
                step = "reset" if action is None else f"step {h}"
                results.append(f"{self._name}, seed {self._seeds[row]}, {step}: {error}, and so it did when repeated")
                self._replace(i)
                if good:  # they stood in the process that was lost
                    self._settled(i, good, h)
        return results

    def _settled(self, i: int, calls: Sequence[tuple[int, int | None]], h: int) -> None:
        try:
            self._replayed(i, calls, h)
        except WorkerLost as error:
            raise InputError(
                f"{self._name}, step {h}: {error} in an episode that went well when played before"
            ) from None

    def _replace(self, i: int) -> None:
        self._workers[i].close(0.0)
        self.replaced += 1
        self._workers[i] = self._start(i)

    def _replayed(self, i: int, calls: Sequence[tuple[int, int | None]], h: int) -> list[Any]:
        """The outcomes of the calls, after the episodes of their rows were played up to them."""
        worker = self._workers[i]
        rows = [row for row, action in calls if action is not None]
        if rows:
            before = self._plain([(row, None) for row in rows], 0)
            last = worker.ask({"calls": before}, len(before), STARTING)
            for step in range(h):
                last = worker.ask(
                    {"calls": self._plain([(row, self._played[row][step]) for row in rows], step)}, len(rows)
                )
            for row, found in zip(rows, last, strict=True):
                if isinstance(found, str) or not np.array_equal(found.features, self._seen[row]):
                    raise InputError(
                        f"{self._name}, seed {self._seeds[row]}: the same seed and actions gave another episode when "
                        "it was played again after its process was lost"
                    )
        return list(worker.ask({"calls": self._plain(calls, h)}, len(calls)))

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.close()
        self._workers = []
        if self._cluster is not None:
            self._cluster.close()


def recipe(source: Any, settings: Mapping[str, Any], imports: Sequence[str], levels: Any, env: Any) -> dict[str, Any]:
    """What another process makes the environment from: plain data."""
    about: dict[str, Any] = {"settings": dict(settings), "imports": list(imports), "levels": levels}
    if isinstance(source, str):
        spec = getattr(env, "spec", None)
        about |= {"source": source}
        with contextlib.suppress(ValueError, TypeError, AttributeError):  # one that is not plain is made by its id
            about["spec"] = spec.to_json()  # type: ignore[union-attr]
    else:
        about["source"] = [source.__module__, getattr(source, "__qualname__", "")]
        if source.__module__ == "__main__" or found_again(*about["source"]) is not source:
            raise InputError(f"workers: {source!r:.60} cannot be imported by another process; put it into a module")
    try:
        json.dumps(about)
    except (TypeError, ValueError):
        raise InputError("workers: settings and levels must be plain numbers, texts, lists and tables") from None
    return about


def found_again(module: str, name: str) -> Any:
    """What is called so in a module, or None."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
