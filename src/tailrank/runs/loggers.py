"""The rows of a run for TensorBoard, Weights & Biases and MLflow, under the names that others use.

A run always writes rows.jsonl. A `Logger` gets the same rows as they come: it sees copies, so it cannot change the
run, and if it fails the run goes on without it, with one warning. Nothing here needs a network: all of them write
into the folder of the run.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from tailrank import checks
from tailrank.checks import InputError

METRICS = {
    "k": "time/iterations",
    "episodes": "rollout/episodes",
    "steps": "time/total_timesteps",
    "return": "rollout/ep_rew_mean",
    "cvar": "eval/cvar_{tau}",
    "cvar_low": "eval/cvar_{tau}_low",
    "cvar_high": "eval/cvar_{tau}_high",
    "mean": "eval/mean_reward",
    "regret": "eval/regret",
    "objective": "train/objective",
    "bonus": "train/bonus",
    "saturated": "train/bonus_saturated",
    "log_likelihood": "train/log_likelihood",
    "converged": "train/converged",
    "latents": "train/latents",
    "refitted": "train/refitted",
    "support_error": "train/support_error",
}
"""Names of what rows hold; others become train/KEY. Beside them there are time/time_elapsed and time/fps."""
BATCH = 900
EVERY = 2.0
"""Metrics that MLflow takes at once, and seconds that they may wait."""


class Logger(Protocol):
    """Where the numbers of a run go."""

    def start(self, config: dict[str, Any], out: Path) -> None:
        """Before the first row: the configuration and the folder of the run."""
        ...

    def log(self, step: int, values: dict[str, float]) -> None:
        """The numbers of an iteration by name; `step` counts steps in the environment."""
        ...

    def finish(self, result: dict[str, Any]) -> None:
        """After the last row: what the run returned, or {"status": "interrupted"}."""
        ...


def metrics(row: Mapping[str, Any], tau: float) -> dict[str, float]:
    """The numbers of a row under their usual names; what is no finite number is left out."""
    found = {}
    for key, value in row.items():
        if isinstance(value, int | float) and math.isfinite(value):
            found[METRICS.get(key, f"train/{key}").format(tau=f"{tau:g}")] = float(value)
    return found


def make_logger(name: str) -> Logger:
    """The logger with this name: tensorboard, wandb or mlflow."""
    return LOGGERS[checks.one_of(name, "log-to", LOGGERS)]()


def _package(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and str(error.name).split(".")[0] == extra
        why = "" if missing else f" ({error})"
        text = f"log-to = {extra}: needs the package {extra}{why}; install it with: pip install 'tailrank[{extra}]'"
        raise InputError(text) from None


class TensorBoard:
    """Event files in the folder `tensorboard` of the run: `tensorboard --logdir runs` shows all runs."""

    def __init__(self) -> None:
        self._files = _package("tensorboard.summary.writer.event_file_writer", "tensorboard")
        self._events = _package("tensorboard.compat.proto.event_pb2", "tensorboard")
        self._summaries = _package("tensorboard.compat.proto.summary_pb2", "tensorboard")

    def start(self, config: dict[str, Any], out: Path) -> None:
        """Open a file."""
        self._writer = self._files.EventFileWriter(str(out / "tensorboard"), flush_secs=10)

    def log(self, step: int, values: dict[str, float]) -> None:
        """Write scalars."""
        scalars = [self._summaries.Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        summary = self._summaries.Summary(value=scalars)
        self._writer.add_event(self._events.Event(step=step, summary=summary, wall_time=time.time()))

    def finish(self, result: dict[str, Any]) -> None:
        """Close the file."""
        self._writer.close()


class WandB:
    """A run of Weights & Biases in the folder `wandb` of the run, offline unless WANDB_MODE says otherwise."""

    def __init__(self) -> None:
        self._wandb = _package("wandb", "wandb")

    def start(self, config: dict[str, Any], out: Path) -> None:
        """Begin the run; what was interrupted goes on under the same id."""
        mode = os.environ.get("WANDB_MODE", "offline")
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", "tailrank"),
            name=out.name,
            dir=str(out),
            mode=mode,
            id=_run_id(config, out),
            resume=None if mode == "offline" else "allow",
            config=config,
            settings=self._wandb.Settings(console="off", silent=True),
        )

    def log(self, step: int, values: dict[str, float]) -> None:
        """Send the numbers."""
        self._run.log(values, step=step)

    def finish(self, result: dict[str, Any]) -> None:
        """Send the result."""
        self._run.summary.update(result)
        self._run.finish(exit_code=0 if result.get("status") == "finished" else 1)


class MLflow:
    """A run of MLflow in the database `mlflow/mlflow.db` of the run, or where MLFLOW_TRACKING_URI says."""

    def __init__(self) -> None:
        self._mlflow = _package("mlflow", "mlflow")
        self._entities = _package("mlflow.entities", "mlflow")
        self._waiting: list[Any] = []
        self._sent = time.monotonic()

    def start(self, config: dict[str, Any], out: Path) -> None:
        """Begin the run, or go on with the one that is there."""
        place = os.environ.get("MLFLOW_TRACKING_URI")
        if place is None:
            folder = (out / "mlflow").resolve()
            folder.mkdir(exist_ok=True)
            _quiet("mlflow", "alembic")
            place = f"sqlite:///{folder / 'mlflow.db'}"
        self._client = self._mlflow.MlflowClient(tracking_uri=place)
        found = self._client.get_experiment_by_name("tailrank")
        where = {} if os.environ.get("MLFLOW_TRACKING_URI") else {"artifact_location": (folder / "files").as_uri()}
        experiment = found.experiment_id if found else self._client.create_experiment("tailrank", **where)
        mark = f"tags.tailrank = '{_run_id(config, out)}'"
        before = self._client.search_runs([experiment], filter_string=mark) if found else []
        if before:
            self._id = before[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
            return
        tags = {"tailrank": _run_id(config, out)}
        self._id = self._client.create_run(experiment, tags=tags, run_name=out.name).info.run_id
        params = [self._entities.Param(name, _text(value)) for name, value in config.items()]
        self._client.log_batch(self._id, params=params)

    def log(self, step: int, values: dict[str, float]) -> None:
        """Keep the numbers, and send them every few seconds: a database takes its time."""
        now = round(1000 * time.time())
        self._waiting += [self._entities.Metric(name, value, now, step) for name, value in values.items()]
        if len(self._waiting) >= BATCH // 2 or time.monotonic() - self._sent >= EVERY:
            self._send()

    def _send(self) -> None:
        for begin in range(0, len(self._waiting), BATCH):
            self._client.log_batch(self._id, metrics=self._waiting[begin : begin + BATCH])
        self._waiting, self._sent = [], time.monotonic()

    def finish(self, result: dict[str, Any]) -> None:
        """Send the rest and the result."""
        self._send()
        for name, value in result.items():
            self._client.set_tag(self._id, f"result.{name}", _text(value))
        self._client.set_terminated(self._id, "FINISHED" if result.get("status") == "finished" else "KILLED")


LOGGERS: dict[str, type[TensorBoard] | type[WandB] | type[MLflow]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "mlflow": MLflow,
}


class Logged:
    """Loggers around a run: hand it over as `progress`, and it starts, feeds and finishes them.

        with Logged(["tensorboard"], config.flat(), "runs/a") as log:
            log.finish(run(config, "runs/a", progress=log))

    loggers: names, or loggers of your own. They start with the first row, when the folder of the run is there.
    """

    def __init__(self, loggers: Sequence[str | Logger], config: Mapping[str, Any], out: str | Path) -> None:
        names = dict.fromkeys(one for one in loggers if isinstance(one, str))
        self._loggers = [make_logger(name) for name in names] + [one for one in loggers if not isinstance(one, str)]
        self._config, self._out = dict(config), Path(out)
        self._tau = checks.tail_level(self._config.get("tau", 0.1))
        self._started = False
        self._begun = (0.0, 0.0)

    def __call__(self, row: Mapping[str, Any], iterations: int, star: float | None) -> None:
        """Log a row."""
        if not self._loggers:
            return
        now, steps = time.perf_counter(), float(row.get("steps") or 0)
        if not self._started:
            self._started, self._begun = True, (now, steps)
            self._each("start", json.loads(json.dumps(self._config, default=str)), self._out)
        values = metrics(row, self._tau)
        passed = now - self._begun[0]
        values["time/time_elapsed"] = passed
        if passed > 0:
            values["time/fps"] = (steps - self._begun[1]) / passed
        self._each("log", int(row.get("steps") or row.get("episodes") or row.get("k") or 0), values)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Say what the run returned; only the first time counts."""
        if self._started:
            self._each("finish", dict(result))
        self._loggers = []

    def _each(self, what: str, *values: Any) -> None:
        for logger in list(self._loggers):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    getattr(logger, what)(*(dict(v) if isinstance(v, dict) else v for v in values))
            # Code of other packages may raise anything, and a run is worth more than its log.
            except Exception as error:
                self._loggers.remove(logger)
                reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
                text = f"logging to {type(logger).__name__} failed ({reason}); the run goes on without it"
                warnings.warn(text, stacklevel=3)

    def __enter__(self) -> Self:
        """The loggers."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what is still open: the run did not come to its end."""
        self.finish({"status": "interrupted" if kind is None or issubclass(kind, KeyboardInterrupt) else "failed"})


def _run_id(config: Mapping[str, Any], out: Path) -> str:
    """The same for a run that is resumed, another one for every folder and configuration."""
    import hashlib

    text = json.dumps([str(out.resolve()), config], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text[:500]


def _quiet(*names: str) -> None:
    import logging

    for name in names:
        logging.getLogger(name).setLevel(logging.WARNING)
