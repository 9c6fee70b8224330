"""Run a learner in a folder of its own, and resume it: the same rows and the same plan, bit for bit.

The random numbers of an iteration depend on the seed and its number alone, so a checkpoint needs no generator.
What is run is a `Job`; this module gives it a folder, rows, checkpoints and signals.
"""

from __future__ import annotations

import math
import os
import platform
import shutil
import signal
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tailrank._system.atomic import write_bytes
from tailrank._system.blas import on_one_blas_thread
from tailrank._system.telling import announce
from tailrank.checks import InputError, printable
from tailrank.runs import folder as files
from tailrank.runs._signals import GRACE, Stop
from tailrank.runs.build import check_trusted, close, environment, with_episodes
from tailrank.runs.config import RunConfig
from tailrank.runs.folder import Mark, Rows
from tailrank.runs.job import Job

Progress = Callable[[dict[str, Any], int, float | None], None]
"""Called after every iteration with its row, the number of iterations and CVaR* (None if nobody knows it)."""
OFTEN, SELDOM, SHARE = 10.0, 60.0, 0.05
"""Seconds between checkpoints, at least and at most, and how much of the time they may take in between."""
PACKAGES = ("tailrank", "numpy", "numba", "scipy", "safetensors")


class Interrupted(KeyboardInterrupt):
    """The run was stopped by a signal after it had saved a checkpoint; the message says how to go on."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.signal = number

    @property
    def exit_code(self) -> int:
        """What a shell calls the end of a process by this signal."""
        return 128 + (self.signal or signal.SIGINT)


class Taken(InputError):
    """The folder holds a run, or other files."""


def run(config: RunConfig, out: str | Path, *, progress: Progress | None = None, env: Any = None) -> dict[str, Any]:
    """The result of a new run in the folder `out`, which must not hold one yet. env: if it is there already."""
    shown, out = str(out), Path(out).absolute()  # environments may change the current folder
    config = replace(located(config), written="")
    _check_free(Path(shown))
    with _opened(config, env) as job:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise InputError(f"{out}: must be a folder") from None
        with files.lock_folder(out):
            _check_free(out)
            write_bytes(out / files.CONFIG, config.toml().encode(), inside=True)
            return _Run(job, out, shown, progress).go(None)


def resume(
    out: str | Path,
    *,
    progress: Progress | None = None,
    imports: Collection[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The result of the run in the folder `out`, continued from its checkpoint.

    changes: other values of what may still be changed, by name: how long the run is (episodes=1000), what it returns
    and how it is judged. A finished run goes on where they ask for more.

    A run without one starts again; one that is finished is not touched. imports: packages that its configuration may
    have imported; no others are, because the folder may be somebody else's.
    """
    shown, out = str(out), Path(out).absolute()
    if not (out / files.CONFIG).is_file():
        raise InputError(f"{shown}: holds no run ({files.CONFIG} is missing)")
    with files.lock_folder(out):
        config = RunConfig.read(out / files.CONFIG)
        check_trusted(config, imports)
        manifest, found = files.read_manifest(out), files.read_checkpoint(out)
        for name, checksum in (
            (files.MANIFEST, manifest.get("config")),
            (files.CHECKPOINT, found[1].config if found else None),
        ):
            if checksum is not None and checksum != config.checksum:
                raise InputError(
                    f"{shown}: {name} belongs to another configuration than {files.CONFIG}; was it edited?"
                )
        if manifest.get("status") == "finished" and not changes:
            result = manifest.get("result")
            return {**(result if isinstance(result, dict) else {}), "out": shown, "notes": manifest.get("notes", [])}
        before = config
        if changes:
            config = _changed(config, changes, shown)
        with _opened(config) as job:
            if found and found[1].environment != job.digest:
                text = f"{shown}: {config.environment.name} has changed since the checkpoint; the run cannot go on"
                raise InputError(text)
            if found and config.iterations < found[1].rows:
                if (episodes := (changes or {}).get("episodes")) is not None:
                    raise InputError(f"episodes = {episodes}: {shown} has played more already")
                raise InputError(f"iterations = {config.iterations}: {shown} has done {found[1].rows} already")
            _check_versions(shown, manifest.get("versions"))
            if config != before:
                job.lengthen(before)
                write_bytes(out / files.CONFIG, config.toml().encode(), inside=True)
            return _Run(job, out, shown, progress).go(found)


@contextmanager
def _opened(config: RunConfig, env: Any = None) -> Iterator[Job]:
    """The job of a configuration, on one thread for matrix products; an environment made for it is closed after it."""
    with on_one_blas_thread():
        job = Job.of(config, env)
        try:
            yield job
        finally:
            if env is None:
                close(job.env)


def _changed(config: RunConfig, changes: Mapping[str, Any], shown: str) -> RunConfig:
    if config.written:
        raise InputError(f"{shown}: was begun by tailrank 0.1 and goes on as it is; nothing can be changed")
    given = dict(changes)
    episodes = given.pop("episodes", None)
    config = config.with_changes(given)
    if episodes is None:
        return config
    if config.simulated:
        return with_episodes(config, episodes, None)
    env = environment(config)
    try:
        return with_episodes(config, episodes, env)
    finally:
        close(env)


def located(config: RunConfig) -> RunConfig:
    """The configuration with the whole path of its file, where it has one: a run can go on in another folder."""
    name = config.environment.name
    if config.named or not os.path.isfile(name):
        return config
    return replace(config, environment=replace(config.environment, name=str(Path(name).resolve())))


def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in PACKAGES}


def _check_versions(out: str, before: object) -> None:
    """Warn where the packages are not those that the run began with: its numbers may differ in the last bits."""
    now = _versions()
    for name, version in before.items() if isinstance(before, dict) else ():
        if now.get(name) != version:
            text = f"{out}: began with {name} {version}, goes on with {now.get(name)}; the last bits may differ"
            warnings.warn(printable(text), stacklevel=3)


def discard(out: Path) -> None:
    """Remove the run in a folder, which must be one; nothing where there is none."""
    if not out.exists():
        return
    if not files.read_manifest(out).get("status"):
        raise Taken(f"{out}: is no folder of a run, it is not overwritten")
    shutil.rmtree(out)


def _check_free(out: Path) -> None:
    if not out.is_dir():
        return
    status = files.read_manifest(out).get("status")
    if status == "finished":
        raise Taken(f"{out}: holds a finished run; choose another --out, or give --overwrite")
    if status is not None:
        other = "; or choose another --out" if status == "failed" else ""
        raise Taken(f"{out}: holds a run ({status}); continue it with: tailrank train --resume {out}{other}")
    own = {files.LOCK, files.CONFIG, f".{files.CONFIG}.tmp", f".{files.MANIFEST}.tmp"}
    if (out / files.ROWS).is_file() and not (out / files.ROWS).stat().st_size:  # killed before its first manifest
        own.add(files.ROWS)
    others = sorted(set(os.listdir(out)) - own)
    if others:
        raise Taken(f"{out}: holds other files ({others[0]}); choose an empty or a new folder")


@dataclass
class _Run:
    job: Job
    out: Path
    shown: str
    progress: Progress | None
    seconds: float = 0.0
    began: float = field(default_factory=time.perf_counter)
    stop: Stop = field(default_factory=lambda: Stop(answer=_answer, grace=GRACE))
    saved: float = field(default_factory=time.perf_counter)
    saving: float = 0.0

    def go(self, found: tuple[dict[str, np.ndarray], Mark] | None) -> dict[str, Any]:
        """Run from the checkpoint, or from the beginning, to the end."""
        mark = None
        if found:
            mark = found[1]
            self.job.regret, self.job.value, self.seconds = mark.regret, mark.cvar, mark.seconds
        rows = Rows(self.out, mark)
        with closing(rows), self.stop.heed_signals():
            self._manifest("running")
            try:
                self.job.begin(self.out, found[0] if found else None)
                return self._loop(rows)
            except KeyboardInterrupt as error:
                self._last_words("interrupted")
                if isinstance(error, Interrupted) or not self.stop.number:
                    raise
                raise Interrupted(self._cut_short(), self.stop.number) from None
            except BaseException as error:
                self._last_words("failed", error=" ".join(f"{type(error).__name__}: {error}".split()))
                raise

    def _loop(self, rows: Rows) -> dict[str, Any]:
        job, config = self.job, self.job.config
        saved = job.k
        while not job.over():
            if self.stop.number:  # between iterations, whose counts are half made
                self._interrupt(rows)
            row = {name: _finite(value) for name, value in job.advance().items()}
            rows.append(row)
            if job.k % config.run.checkpoint_every == 0 or self._due():
                self._save(rows)
                saved = job.k
            if self.progress:
                self.progress(row, config.iterations, job.star)
        if saved != job.k:
            self._save(rows)
        if self.stop.number:
            self._interrupt(rows)
        result = job.finish(self.out) | {"status": "finished", "seconds": self._elapsed(), "out": self.shown}
        self._manifest("finished", result=result)
        return result | {"notes": job.notes}

    def _due(self) -> bool:
        """Whether there was no checkpoint for long: OFTEN seconds, or more where saving itself takes long."""
        since = time.perf_counter() - self.saved
        return since >= min(SELDOM, max(OFTEN, self.saving / SHARE))

    def _save(self, rows: Rows) -> None:
        job, began = self.job, time.perf_counter()
        arrays = job.arrays(self.out)
        rows.sync()
        mark = Mark(
            rows.count,
            rows.size,
            rows.digest.hexdigest(),
            job.regret,
            job.value,
            self._elapsed(),
            job.config.checksum,
            job.digest,
        )
        files.write_checkpoint(self.out, arrays, mark)
        self.saved = time.perf_counter()
        self.saving = self.saved - began

    def _interrupt(self, rows: Rows) -> None:
        self.stop.arrived()
        self._save(rows)
        text = f"interrupted after {self.job.k} iterations; continue with: tailrank train --resume {self.shown}"
        raise Interrupted(text, self.stop.number)

    def _cut_short(self) -> str:
        """What to say where an iteration, the first episodes or the last judging did not end in time."""
        kept = "what was done since the last checkpoint is done again"
        if not (self.out / files.CHECKPOINT).exists():
            kept = "nothing was saved yet"
        return f"interrupted; {kept}; continue with: tailrank train --resume {self.shown}"

    def _elapsed(self) -> float:
        return self.seconds + time.perf_counter() - self.began

    def _last_words(self, status: str, **more: Any) -> None:
        """The manifest after an error, if it can be written: the error matters more."""
        with suppress(OSError):
            self._manifest(status, **more)

    def _manifest(self, status: str, **more: Any) -> None:
        job = self.job
        about = {
            "status": status,
            "config": job.config.checksum,
            "environment": job.digest,
            "seed": job.config.seed,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "versions": _versions(),
            "notes": job.notes,
        }
        files.write_manifest(self.out, about | more)


def _answer() -> None:
    announce("stopping: saves after this iteration, or gives it up in a few seconds (again: at once)", now=True)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
