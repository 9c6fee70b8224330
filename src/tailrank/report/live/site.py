"""What `tailrank serve` shows: the data of a report, made anew when the files of its runs change.

Rows come all the time, policies seldom. So the heavy part (problems and policies) is kept until a checkpoint, a plan
or a sample of returns changes, and only the curves are made anew with every row.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tailrank.checks import tail_level
from tailrank.report._about import facts_of_runs, warnings_of
from tailrank.report.document import as_json, fitting, page
from tailrank.report.problem import Offered
from tailrank.report.sources import of_runs, with_solution
from tailrank.report.subject import Subject
from tailrank.runs import folder as files
from tailrank.runs.read import EVALUATION, Run

HEAVY = (files.CHECKPOINT, files.PLAN, EVALUATION)
LIGHT = (files.ROWS, files.MANIFEST)
SOLVE_SECONDS = 20.0
Stamp = tuple[tuple[int, ...], ...]


class Site:
    """Data for the page, with a mark (an ETag) that changes when the data does. Safe to use from many threads."""

    def __init__(self, make: Callable[[], Subject], folders: Sequence[Path] = (), imports: Sequence[str] = ()) -> None:
        self._make, self._folders, self._imports = make, tuple(folders), tuple(imports)
        self._lock, self._solving = threading.Lock(), threading.Lock()
        self._known: dict[str, Offered] = {}
        self._stamps: tuple[Stamp, Stamp] | None = None
        self._data: dict[str, Any] = {}
        self._text = b""
        self._refresh()

    def page(self) -> bytes:
        """The page, ready to ask this server for news."""
        with self._lock:
            self._refresh()
            return page(self._data, live=True).encode(errors="backslashreplace")

    def data(self) -> tuple[bytes, str]:
        """The data as JSON, and its mark."""
        with self._lock:
            self._refresh()
            return self._text, _mark(self._text)

    def solve(self, tau: object) -> bytes | None:
        """The data with the best policy at `tau` in front; None while another solution is being found."""
        level = tail_level(tau)  # type: ignore[arg-type]
        if not self._solving.acquire(blocking=False):
            return None
        try:
            with self._lock:
                self._refresh()
                subject = self._subject
            return as_json(self._live(fitting(with_solution(subject, level, seconds=SOLVE_SECONDS)))).encode()
        finally:
            self._solving.release()

    def _runs(self) -> Subject:
        return of_runs(self._folders, self._known, imports=self._imports)

    def _refresh(self) -> None:
        stamps = _stamp(self._folders, HEAVY), _stamp(self._folders, LIGHT)
        if self._stamps == stamps:
            return
        if self._stamps is None or self._stamps[0] != stamps[0]:
            self._subject = self._runs() if self._folders else self._make()
            self._data = fitting(self._subject)
            self._data["mark"] = _mark(as_json([self._data["problems"], self._data["policies"]]).encode())
        else:
            runs = [Run.read(folder, self._imports) for folder in self._folders]
            self._subject = replace(
                self._subject, runs=tuple(runs), about=facts_of_runs(runs), warnings=warnings_of(runs)
            )
            self._data = self._data | self._subject.news()
        self._data = self._live(self._data)
        self._text = as_json(self._data).encode()
        self._stamps = stamps

    def _live(self, data: dict[str, Any]) -> dict[str, Any]:
        running = any(run.status == "running" for run in self._subject.runs)
        can_solve = any(problem.mdp is not None for problem in self._subject.problems)
        return data | {"live": {"poll": bool(self._folders), "solve": can_solve, "running": running}}


def _stamp(folders: Sequence[Path], names: Sequence[str]) -> Stamp:
    """Which file it is, its time and size, zeros for those that are not there; and whether the folder is in use.

    Equal or not is all that counts: clocks may be set back.
    """
    stamps: list[tuple[int, ...]] = []
    for folder in folders:
        stamps.append((int(files.in_use(folder)),) if names is LIGHT else ())
        for name in names:
            try:
                found = (folder / name).stat()
                stamps.append((found.st_ino, found.st_mtime_ns, found.st_size))
            except OSError:
                stamps.append((0,))
    return tuple(stamps)


def _mark(text: bytes) -> str:
    return f'"{hashlib.sha256(text).hexdigest()[:24]}"'
