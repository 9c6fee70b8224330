"""Run a sweep: every run in a folder of its own, what is finished skipped, what was begun resumed, what fails reported.

The folders are the truth. sweep.json beside them lists the runs and their status for whoever reads them; nothing is
decided by it. A run whose worker dies is given again, until it has died three times with no checkpoint in between.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tailrank._system.atomic import write_bytes
from tailrank._system.parallel import cores
from tailrank._system.reading import open_regular, parse_json
from tailrank.checks import InputError, one_of, whole
from tailrank.runs import folder as files
from tailrank.runs._signals import Stop
from tailrank.runs.config import RunConfig
from tailrank.runs.run import Interrupted
from tailrank.runs.sweeps._backends import Backend, Processes, Serial, SweepTask, WorkerAnswer
from tailrank.runs.sweeps.file import Planned, Sweep

BACKENDS = ("serial", "processes", "dask")
RECORD = "sweep.json"
DEATHS = 3
OFTEN, SHARE = 0.5, 0.05
"""Seconds between two looks at the folders, and the most of the time that looking may take."""


@dataclass(frozen=True)
class SweepState:
    """How a run stands: new, begun, failed or finished; `row` is its last one."""

    status: str = "new"
    cvar: float | None = None
    error: str = ""
    row: dict[str, Any] = field(default_factory=dict)


Watch = Callable[[Mapping[str, SweepState], str], None]
"""Called now and then with the states by name, and what there is to say about all of them."""


@dataclass(frozen=True)
class Outcome:
    """What became of the runs, by name; `before` of them had been finished already."""

    states: dict[str, SweepState]
    before: int
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> dict[str, str]:
        """Errors by name."""
        return {name: state.error for name, state in self.states.items() if state.status == "failed"}


def look(planned: Planned, out: Path) -> SweepState:
    """How the run stands in its folder; raises where that holds another run."""
    folder = out / planned.name
    if not (folder / files.CONFIG).is_file():
        return SweepState()
    found, wanted = RunConfig.read(folder / files.CONFIG), planned.config
    if found != wanted:
        name, there, here = next(found.differences(wanted))
        what = f"{name} = {there!r:.60}, here {here!r:.60}"
        raise InputError(f"{folder}: holds another run ({what}); choose another out or name, or remove the folder")
    manifest, row = files.read_manifest(folder), _last_row(folder)
    status = {"finished": "finished", "failed": "failed"}.get(str(manifest.get("status")), "begun")
    result = manifest.get("result")
    cvar = result.get("cvar") if status == "finished" and isinstance(result, dict) else None
    return SweepState(status, cvar, str(manifest.get("error", "")), row)


def _last_row(folder: Path) -> dict[str, Any]:
    try:
        with open_regular(folder / files.ROWS, 2**53) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2**16))
            row = parse_json(file.read().rsplit(b"\n", 2)[-2])
    except (OSError, InputError, IndexError):
        return {}
    counted = isinstance(row, dict) and all(type(row.get(name, 0)) is int for name in ("k", "episodes"))
    return row if counted else {}


def run_sweep(
    sweep: Sweep,
    *,
    backend: str = "processes",
    workers: int | None = None,
    scheduler: str | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Run what is not finished. A signal raises Interrupted when the runs that were going on have been saved.

    backend: serial, processes or dask; workers: how many at once (the processors of this machine if nobody says);
    scheduler: the address of Dask workers that are already there.
    """
    options, sweep = backend_options(backend, workers, scheduler), replace(sweep, out=sweep.out.absolute())
    sweep.out.mkdir(parents=True, exist_ok=True)
    with files.lock_folder(sweep.out):
        going = _Going(sweep, {planned.name: look(planned, sweep.out) for planned in sweep.runs}, watch)
        return going.to_the_end(options)


def backend_options(backend: str, workers: int | None, scheduler: str | None) -> tuple[str, int, str | None]:
    """The three, checked; raises where one of them would do nothing."""
    one_of(backend, "backend", BACKENDS)
    if scheduler is not None and backend != "dask":
        raise InputError(f"scheduler: is for backend = 'dask', found {backend!r}")
    if workers is not None and (backend == "serial" or scheduler is not None):
        raise InputError("workers: is for workers that are started here, by processes or dask")
    return backend, cores() if workers is None else whole(workers, "workers"), scheduler


class _Going:
    """A sweep that is going on."""

    def __init__(self, sweep: Sweep, states: dict[str, SweepState], watch: Watch | None) -> None:
        self.runs, self.out = {planned.name: planned for planned in sweep.runs}, sweep.out
        self.states, self.watch = states, watch
        self.open = [name for name, state in states.items() if state.status != "finished"]
        self.states |= {name: replace(states[name], status="begun") for name in self.open if states[name].error}
        self.before = len(states) - len(self.open)
        self.deaths: dict[str, tuple[tuple[int, int], int]] = {}
        self.notes: dict[str, None] = {}
        self.stop = Stop(grace=None)  # its runs have a grace of their own
        self.due = self.saved = 0.0

    def to_the_end(self, options: tuple[str, int, str | None]) -> Outcome:
        """Every run finished or failed."""
        self._record()
        try:
            with self.stop.heed_signals():
                self._loop(options)
        except Interrupted as error:  # of a run in this process
            self.stop.number = error.signal
        finally:
            for name in self.open:
                self.states[name] = look(self.runs[name], self.out)
            self._record()
        if self.stop.number:
            done = sum(state.status == "finished" for state in self.states.values())
            text = f"interrupted with {done} of {len(self.states)} runs finished; the same command goes on"
            raise Interrupted(text, self.stop.number)
        return Outcome(self.states, self.before, tuple(self.notes))

    def _loop(self, options: tuple[str, int, str | None]) -> None:
        if not self.open:
            return
        with self._backend(*options) as backend:
            for name in self.open:
                backend.submit(self._task(name))
            while self.open and not self.stop.number:
                answer = backend.answer()
                if answer is not None and not self._take(answer):
                    backend.submit(self._task(answer.name))
                self._tick(backend.trouble)
            if self.stop.number:
                self.due = 0.0
                self._tick(lambda: "stopping (again: at once)")

    def _backend(self, name: str, workers: int, scheduler: str | None) -> Backend:
        if name == "serial":
            return Serial(self._check)
        workers = min(workers, len(self.open))
        if name == "processes":
            return Processes(workers)
        from tailrank.runs.sweeps._cluster import Cluster

        return Cluster(self.out, workers, scheduler)

    def _task(self, name: str) -> SweepTask:
        return SweepTask(name, self.runs[name].config.tables(), str((self.out / name).resolve()))

    def _take(self, answer: WorkerAnswer) -> bool:
        """Whether the run is over; one that was lost is so when it keeps dying."""
        name, status, error = answer.name, answer.status, answer.error
        if status in ("lost", "interrupted"):
            deaths = self._deaths(name)
            if deaths < DEATHS:
                return False
            status, error = "failed", f"given up after its worker was lost {deaths} times ({error or status})"
        self.open.remove(name)
        self.states[name] = SweepState(status, answer.cvar, error)
        self.notes |= dict.fromkeys(f"{name}: {note}" for note in answer.notes)
        if time.monotonic() - self.saved >= OFTEN:
            self._record()
        return True

    def _deaths(self, name: str) -> int:
        """How often the worker of this run was lost since its last checkpoint."""
        try:
            found = (self.out / name / files.CHECKPOINT).stat()
            mark = found.st_ino, found.st_mtime_ns
        except OSError:
            mark = 0, 0
        before, count = self.deaths.get(name, (mark, 0))
        self.deaths[name] = (mark, count + 1 if mark == before else 1)
        return self.deaths[name][1]

    def _check(self) -> None:
        """For runs in this process."""
        self._tick()
        if self.stop.number:
            raise Interrupted("stopped while it waited", self.stop.number)

    def _tick(self, say: Callable[[], str] = str) -> None:
        """Look at the folders and show them, if it is time."""
        began = time.monotonic()
        if self.watch is None or began < self.due:
            return
        for name in self.open:
            row = _last_row(self.out / name)
            if row:
                self.states[name] = replace(self.states[name], status="begun", row=row)
        self.watch(self.states, say())
        took = time.monotonic() - began
        self.due = began + max(OFTEN, took / SHARE)

    def _record(self) -> None:
        """Write sweep.json."""
        runs = []
        for name, state in self.states.items():
            planned = self.runs[name]
            about: dict[str, Any] = {"name": name, "status": state.status}
            about |= {"cvar": state.cvar} if state.status == "finished" else {}
            about |= {"error": state.error} if state.status == "failed" else {}
            runs.append(about | {"labels": planned.labels, "config": planned.config.checksum})
        text = json.dumps({"schema": files.SCHEMA, "runs": runs}, indent=1, allow_nan=False) + "\n"
        write_bytes(self.out / RECORD, text.encode(), inside=True)
        self.saved = time.monotonic()
