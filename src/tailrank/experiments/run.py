"""Run a learner in a folder of its own, and resume it: the same rows and the same plan, bit for bit.

The random numbers of an iteration depend on the seed and its number alone, so a checkpoint needs no
generator: the counts, the last plan and model, and the plans kept for the output rule are everything.
"""

from __future__ import annotations

import math
import os
import platform
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from tailrank import storage
from tailrank.atomic import write_bytes
from tailrank.checks import InputError
from tailrank.envs import Episodic
from tailrank.experiments import folder as files
from tailrank.experiments.build import Setup, setup
from tailrank.experiments.config import RunConfig
from tailrank.experiments.folder import Mark, Rows
from tailrank.learners.ela import State
from tailrank.lowrank import LowRankModel, StepModel
from tailrank.planners.latent import LatentPlan
from tailrank.training import Judge, train

Progress = Callable[[dict[str, Any], int, float], None]
"""Called after every iteration with its row, the number of iterations and CVaR*."""
PACKAGES = ("tailrank", "numpy", "numba", "scipy", "safetensors")


class Interrupted(KeyboardInterrupt):
    """The run was stopped by a signal after it had saved a checkpoint; the message says how to go on."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.signal = number


def run(
    config: RunConfig, out: str | Path, *, progress: Progress | None = None, env: Episodic | None = None
) -> dict[str, Any]:
    """The result of a new run in the folder `out`, which must not hold one yet."""
    out = Path(out)
    if not config.named and os.path.isfile(config.environment):
        config = replace(config, environment=str(Path(config.environment).resolve()))
    _check_free(out)
    parts = setup(config, env)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputError(f"{out}: must be a folder") from None
    with files.locked(out):
        _check_free(out)
        write_bytes(out / files.CONFIG, config.toml().encode())
        return _Run(parts, out, progress).go(None)


def resume(out: str | Path, *, progress: Progress | None = None) -> dict[str, Any]:
    """The result of the run in the folder `out`, continued from its checkpoint.

    A run without one starts again; one that is finished is not touched.
    """
    out = Path(out)
    if not (out / files.CONFIG).is_file():
        raise InputError(f"{out}: holds no run ({files.CONFIG} is missing)")
    with files.locked(out):
        config = RunConfig.read(out / files.CONFIG)
        manifest, found = files.read_manifest(out), files.read_checkpoint(out)
        for name, checksum in (
            (files.MANIFEST, manifest.get("config")),
            (files.CHECKPOINT, found[1].config if found else None),
        ):
            if checksum is not None and checksum != config.checksum:
                raise InputError(f"{out}: {name} belongs to another configuration than {files.CONFIG}; was it edited?")
        if manifest.get("status") == "finished":
            return {**manifest["result"], "out": str(out)}
        parts = setup(config)
        if found and found[1].environment != parts.digest:
            raise InputError(f"{out}: {config.environment} has changed since the checkpoint; the run cannot go on")
        _check_versions(out, manifest.get("versions"))
        return _Run(parts, out, progress).go(found)


def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in PACKAGES}


def _check_versions(out: Path, before: object) -> None:
    """Warn where the packages are not those that the run began with: its numbers may differ in the last bits."""
    now = _versions()
    for name, version in before.items() if isinstance(before, dict) else ():
        if now.get(name) != version:
            text = f"{out}: began with {name} {version}, goes on with {now.get(name)}; the last bits may differ"
            warnings.warn(text, stacklevel=3)


def _check_free(out: Path) -> None:
    if not out.is_dir():
        return
    status = files.read_manifest(out).get("status")
    if status == "finished":
        raise InputError(f"{out}: holds a finished run; choose another --out, or remove the folder")
    if status is not None:
        other = "; or choose another --out" if status == "failed" else ""
        raise InputError(f"{out}: holds a run ({status}); continue it with: tailrank train --resume {out}{other}")
    own = {files.LOCK, files.CONFIG, f".{files.CONFIG}.tmp", f".{files.MANIFEST}.tmp"}
    others = sorted(set(os.listdir(out)) - own)
    if others:
        raise InputError(f"{out}: holds other files ({others[0]}); choose an empty or a new folder")


@dataclass
class _Run:
    parts: Setup
    out: Path
    progress: Progress | None
    regret: float = 0.0
    cvar: float | None = None
    seconds: float = 0.0
    began: float = field(default_factory=time.perf_counter)
    kept: dict[int, LatentPlan] = field(default_factory=dict)
    best: tuple[float, LatentPlan] | None = None
    stopped: int = 0

    def go(self, found: tuple[dict[str, np.ndarray], Mark] | None) -> dict[str, Any]:
        """Run from the checkpoint, or from the beginning, to the end."""
        state, mark = self.parts.fresh, None
        if found:
            arrays, mark = found
            state, self.regret, self.cvar, self.seconds = (
                state.from_arrays(arrays),
                mark.regret,
                mark.cvar,
                mark.seconds,
            )
            kept = {int(key.split(".")[1]) for key in arrays if key.startswith("kept.")}
            self.kept = {k: LatentPlan.from_arrays(arrays, f"kept.{k}") for k in sorted(kept)}
            if "best.cvar" in arrays:
                self.best = float(arrays["best.cvar"][0]), LatentPlan.from_arrays(arrays, "best")
        rows = Rows(self.out, mark)
        with closing(rows), self._signals():
            self._manifest("running")
            try:
                return self._loop(state, rows)
            except KeyboardInterrupt:
                self._manifest("interrupted")
                raise
            except BaseException as error:
                self._manifest("failed", error=" ".join(f"{type(error).__name__}: {error}".split()))
                raise

    def _loop(self, state: State, rows: Rows) -> dict[str, Any]:
        config, parts = self.parts.config, self.parts
        judge = parts.judge()
        drawn = set(parts.rule.drawn(config.iterations, parts.streams))
        saved = state.k
        while state.k < config.iterations and not self._reached():
            if self.stopped:
                self._interrupt(state, rows)
            steps = train(parts.learner, parts.env, iterations=state.k + 1, seed=config.seed, state=state, judge=judge)
            state, measured = next(steps)
            state = _contiguous(state)
            self.cvar = float(measured["cvar"] or 0.0)
            self.regret += judge.star - self.cvar
            row = {name: _finite(value) for name, value in (measured | {"regret": self.regret}).items()}
            rows.append(row)
            if state.plan is not None:
                if state.k in drawn:
                    self.kept[state.k] = state.plan
                if self.best is None or self.cvar > self.best[0]:
                    self.best = self.cvar, state.plan
            if state.k % config.checkpoint_every == 0:
                self._save(state, rows)
                saved = state.k
            if self.progress:
                self.progress(row, config.iterations, judge.star)
        if saved != state.k:
            self._save(state, rows)
        if self.stopped:
            self._interrupt(state, rows)
        return self._finish(state, judge)

    def _reached(self) -> bool:
        goal = self.parts.config.stop_cvar
        return goal is not None and self.cvar is not None and self.cvar >= goal - 1e-12 * max(1.0, abs(goal))

    def _finish(self, state: State, judge: Judge) -> dict[str, Any]:
        config, parts = self.parts.config, self.parts
        if self._reached() and state.plan is not None:
            plan, where, why = state.plan, f"iterate {state.k}", f"its CVaR reached {config.stop_cvar:g}"
        else:
            plan, where = parts.rule.choose(parts.learner, parts.env, state, self.kept, parts.streams)
            why = WHY[config.output]
        law = judge.law(plan)
        about: dict[str, Any] = {
            "algorithm": config.algorithm, "tau": config.tau, "iterations": state.k, "episodes": state.episodes,
            "steps": state.steps, "cvar": law.cvar(config.tau), "cvar_star": judge.star, "regret": self.regret,
            "returned": where, "why": why,
        }  # fmt: skip
        names = {"states": judge.truth.labels, "actions": judge.truth.action_labels}
        source = {"source": parts.env.name, "seed": config.seed, "config": config.checksum}
        if self.best is not None:
            best = {"tau": config.tau, "cvar": self.best[0], "returned": "the iterate with the best exact CVaR"}
            storage.save(judge.policy(self.best[1]), self.out / files.BEST, info=best | source | names)
        storage.save(judge.policy(plan), self.out / files.PLAN, info=about | source | names)
        result = about | {"status": "finished", "seconds": self._elapsed(), "out": str(self.out)}
        self._manifest("finished", result=result)
        return result

    def _save(self, state: State, rows: Rows) -> None:
        arrays = state.to_arrays()
        for k, plan in self.kept.items():
            arrays |= plan.to_arrays(f"kept.{k}")
        if self.best is not None:
            arrays |= {"best.cvar": np.array([self.best[0]])} | self.best[1].to_arrays("best")
        rows.sync()
        mark = Mark(
            rows.count, rows.size, rows.digest.hexdigest(), self.regret, self.cvar, self._elapsed(),
            self.parts.config.checksum, self.parts.digest,
        )  # fmt: skip
        files.write_checkpoint(self.out, arrays, mark)

    def _interrupt(self, state: State, rows: Rows) -> None:
        self._save(state, rows)
        raise Interrupted(
            f"interrupted after {state.k} iterations; continue with: tailrank train --resume {self.out}", self.stopped
        )

    def _elapsed(self) -> float:
        return self.seconds + time.perf_counter() - self.began

    def _manifest(self, status: str, **more: Any) -> None:
        config = self.parts.config
        about = {
            "status": status, "config": config.checksum, "environment": self.parts.digest, "seed": config.seed,
            "python": platform.python_version(), "platform": platform.platform(),
            "versions": _versions(), "notes": list(self.parts.env.notes),
        }  # fmt: skip
        files.write_manifest(self.out, about | more)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """A first signal ends the run after the iteration, whose counts are half made; a second one at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            if self.stopped:
                raise KeyboardInterrupt
            self.stopped = number

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


WHY = {
    "best": "the highest CVaR in fresh episodes",
    "uniform": "drawn uniformly among the iterates",
    "greedy": "the last model's plan without bonus",
}


def _contiguous(state: State) -> State:
    """The state as a checkpoint gives it back: the layout of arrays can decide how sums are rounded."""
    if state.model is None:
        return state
    steps = (StepModel(np.ascontiguousarray(s.phi), np.ascontiguousarray(s.psi)) for s in state.model.steps)
    return replace(state, model=LowRankModel(tuple(steps), state.model.group))


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
