"""Loggers get the rows of a run under the usual names, and can neither change a run nor end it."""

from __future__ import annotations

import json
import sys
import types
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from tailrank.checks import InputError
from tailrank.cli import main
from tailrank.runs import loggers
from tailrank.runs.config import RunConfig
from tailrank.runs.loggers import LOGGERS, METRICS, Logged, metrics
from tailrank.runs.run import Interrupted, resume, run

LOCK = {"horizon": 4, "n_actions": 3, "n_states": 12}
CONFIG = RunConfig.from_dict(
    {"environment": "risky-lock", "settings": LOCK, "iterations": 6, "tau": 0.2, "output_episodes": 50}
)


class Memory:
    """A logger that remembers, and fails where it is told to."""

    def __init__(self, fails=None):
        self.fails, self.calls = fails, []

    def start(self, config, out):
        self._note("start", config, out)

    def log(self, step, values):
        self._note("log", step, dict(values))
        values.clear()

    def finish(self, result):
        self._note("finish", result)

    def _note(self, name, *values):
        self.calls.append((name, *values))
        if name == self.fails:
            raise RuntimeError("the disk\nis full")

    def named(self, name):
        return [call[1:] for call in self.calls if call[0] == name]


def rows_of(out):
    return [json.loads(line) for line in (Path(out) / "rows.jsonl").read_text().splitlines()]


def logged_run(out, *sinks):
    with Logged(sinks, CONFIG.flat(), out) as log:
        result = run(CONFIG, out, progress=log)
        log.finish(result)
    return result


def test_every_row_arrives_under_its_usual_name(tmp_path):
    memory = Memory()
    result = logged_run(tmp_path / "r", memory)
    rows = rows_of(tmp_path / "r")
    assert [name for name, *_ in memory.calls] == ["start", *["log"] * 6, "finish"]
    (config, out) = memory.named("start")[0]
    assert (config["environment"], config["settings"], out) == ("risky-lock", LOCK, tmp_path / "r")
    for row, (step, values) in zip(rows, memory.named("log"), strict=True):
        assert step == row["steps"]
        assert values["eval/cvar_0.2"] == row["cvar"]
        assert values["rollout/episodes"] == row["episodes"]
        assert values["train/bonus"] == row["bonus"]
        assert values["train/log_likelihood"] == row["log_likelihood"]
        assert values["time/time_elapsed"] >= 0
        assert all(type(value) is float for value in values.values())
    assert memory.named("finish") == [(result,)]


def test_rows_of_a_simulator():
    row = {"k": 3, "episodes": 9, "return": 1.5, "cvar": None, "cvar_low": float("inf"), "method": "beta", "odd": 2}
    assert metrics(row, 0.1) == {
        "time/iterations": 3.0,
        "rollout/episodes": 9.0,
        "rollout/ep_rew_mean": 1.5,
        "train/odd": 2.0,
    }
    assert metrics({"cvar": 1.0, "cvar_low": 0.5, "cvar_high": 2.0}, 0.05) == {
        "eval/cvar_0.05": 1.0,
        "eval/cvar_0.05_low": 0.5,
        "eval/cvar_0.05_high": 2.0,
    }
    assert len(set(METRICS.values())) == len(METRICS)


def outcome(out):
    return (out / "rows.jsonl").read_bytes(), (out / "plan.safetensors").read_bytes()


@pytest.mark.parametrize("fails", [None, "start", "log", "finish"])
def test_a_run_is_the_same_whatever_a_logger_does(tmp_path, fails):
    run(CONFIG, tmp_path / "alone")
    failing, other = Memory(fails), Memory()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        logged_run(tmp_path / "logged", failing, other)
    assert outcome(tmp_path / "logged") == outcome(tmp_path / "alone")
    lines = [str(warning.message) for warning in caught]
    expected = "logging to Memory failed (RuntimeError: the disk is full); the run goes on without it"
    assert lines == ([] if fails is None else [expected])
    assert [values["eval/cvar_0.2"] for _, values in other.named("log")] == [
        r["cvar"] for r in rows_of(tmp_path / "alone")
    ]
    assert len(failing.named("log")) == {None: 6, "start": 0, "log": 1, "finish": 6}[fails]


def test_an_interrupted_run_is_closed_and_goes_on(tmp_path):
    first, second = Memory(), Memory()

    def stop(row, iterations, star):
        log(row, iterations, star)
        if row["k"] == 2:
            raise Interrupted("stop", 2)

    with pytest.raises(Interrupted), Logged([first], CONFIG.flat(), tmp_path / "r") as log:
        run(CONFIG, tmp_path / "r", progress=stop)
    assert first.named("finish") == [({"status": "interrupted"},)]
    broken = Logged([second], CONFIG.flat(), tmp_path / "r")
    broken({"k": 1}, 1, None)
    with pytest.raises(ZeroDivisionError), broken:
        1 / 0  # noqa: B018
    assert second.named("finish") == [({"status": "failed"},)]
    third = Memory()
    with Logged([third], CONFIG.flat(), tmp_path / "r") as log:
        log.finish(resume(tmp_path / "r", progress=log))
    assert third.named("finish")[0][0]["status"] == "finished"
    fourth = Memory()
    with Logged([fourth], CONFIG.flat(), tmp_path / "r") as log:
        log.finish(resume(tmp_path / "r", progress=log))
    assert fourth.calls == []


# The packages themselves, as fakes that keep what they were given


class Anything:
    """Keeps the arguments it was made with."""

    def __init__(self, *values, **named):
        self.__dict__ |= named | {"values": values}


def module(monkeypatch, name, **content):
    fake = types.ModuleType(name)
    fake.__dict__.update(content)
    monkeypatch.setitem(sys.modules, name, fake)
    return fake


@pytest.fixture
def tensorboard(monkeypatch):
    files = []

    class EventFileWriter:
        def __init__(self, logdir, flush_secs):
            Path(logdir).mkdir(parents=True)
            self.logdir, self.events, self.open = logdir, [], True
            files.append(self)

        def add_event(self, event):
            self.events.append(event)

        def close(self):
            self.open = False

    class Summary(Anything):
        Value = Anything

    module(monkeypatch, "tensorboard.summary.writer.event_file_writer", EventFileWriter=EventFileWriter)
    module(monkeypatch, "tensorboard.compat.proto.event_pb2", Event=Anything)
    module(monkeypatch, "tensorboard.compat.proto.summary_pb2", Summary=Summary)
    return files


def test_tensorboard(tensorboard, tmp_path):
    logged_run(tmp_path / "r", "tensorboard")
    (file,) = tensorboard
    assert (file.logdir, file.open) == (str(tmp_path / "r" / "tensorboard"), False)
    for event, row in zip(file.events, rows_of(tmp_path / "r"), strict=True):
        found = {value.tag: value.simple_value for value in event.summary.value}
        assert (event.step, found["eval/cvar_0.2"], found["train/bonus"]) == (row["steps"], row["cvar"], row["bonus"])


def test_wandb_stays_offline_and_in_the_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    made = []

    class Run:
        def __init__(self, **options):
            self.options, self.rows, self.summary, self.code = options, [], {}, None
            made.append(self)

        def log(self, values, step):
            self.rows.append((step, values))

        def finish(self, exit_code):
            self.code = exit_code

    module(monkeypatch, "wandb", init=Run, Settings=dict)
    result = logged_run(tmp_path / "r", "wandb")
    (one,) = made
    assert (one.options["mode"], one.options["dir"], one.options["name"]) == ("offline", str(tmp_path / "r"), "r")
    assert one.options["config"]["tau"] == 0.2
    assert one.options["settings"]["silent"]
    rows = rows_of(tmp_path / "r")
    assert [(step, values["eval/regret"]) for step, values in one.rows] == [(r["steps"], r["regret"]) for r in rows]
    assert (one.summary["cvar"], one.code) == (result["cvar"], 0)
    monkeypatch.setenv("WANDB_MODE", "online")
    logged_run(tmp_path / "q", "wandb")
    assert (made[1].options["mode"], made[1].options["resume"]) == ("online", "allow")
    assert made[1].options["id"] != made[0].options["id"]


def test_mlflow_keeps_a_database_in_the_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    stores = {}

    class MlflowClient:
        def __init__(self, tracking_uri):
            self.store = stores.setdefault(tracking_uri, {"experiments": {}, "runs": []})

        def get_experiment_by_name(self, name):
            return Anything(experiment_id="7") if name in self.store["experiments"] else None

        def create_experiment(self, name, artifact_location):
            self.store["experiments"][name] = artifact_location
            return "7"

        def search_runs(self, experiments, filter_string):
            assert experiments == ["7"]
            marks = [f"tags.tailrank = '{one.tags['tailrank']}'" for one in self.store["runs"]]
            return [one for one, mark in zip(self.store["runs"], marks) if mark == filter_string]

        def create_run(self, experiment, tags, run_name):
            one = Anything(info=Anything(run_id=len(self.store["runs"])), tags=tags, params=[], metrics=[], status=None)
            self.store["runs"].append(one)
            return one

        def update_run(self, run_id, status):
            self.store["runs"][run_id].status = status

        def log_batch(self, run_id, metrics=(), params=()):
            assert len(metrics) <= 1000
            self.store["runs"][run_id].metrics += metrics
            self.store["runs"][run_id].params += params

        def set_tag(self, run_id, key, value):
            assert isinstance(value, str)
            self.store["runs"][run_id].tags[key] = value

        def set_terminated(self, run_id, status):
            self.store["runs"][run_id].status = status

    module(monkeypatch, "mlflow", MlflowClient=MlflowClient)
    module(monkeypatch, "mlflow.entities", Metric=Anything, Param=Anything)
    out = tmp_path / "r"
    with pytest.raises(Interrupted), Logged(["mlflow"], CONFIG.flat(), out) as log:
        run(CONFIG, out, progress=lambda row, *more: log(row, *more) or (row["k"] == 3 and stop()))
    with Logged(["mlflow"], CONFIG.flat(), out) as log:
        log.finish(resume(out, progress=log))
    assert list(stores) == [f"sqlite:///{out / 'mlflow' / 'mlflow.db'}"]
    (one,) = stores[f"sqlite:///{out / 'mlflow' / 'mlflow.db'}"]["runs"]
    assert one.status == "FINISHED"
    assert ("tau", "0.2") in [p.values for p in one.params]
    found = {(m.values[3], m.values[1]) for m in one.metrics if m.values[0] == "eval/cvar_0.2"}
    assert found == {(row["steps"], row["cvar"]) for row in rows_of(out)}
    assert one.tags["result.status"] == "finished"


def stop():
    raise Interrupted("stop", 2)


@pytest.mark.parametrize("name", LOGGERS)
def test_a_missing_package_is_one_line_before_anything_is_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for known in [m for m in sys.modules if m.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, known)
    monkeypatch.setitem(sys.modules, name, None)
    result = CliRunner().invoke(main, ["train", "risky-lock", "--iterations", "2", "--out", "r", "--log-to", name])
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"tailrank: error: log-to = {name}: needs the package {name}; install it with: pip install 'tailrank[{name}]'"
    ]
    assert not Path("r").exists()


def test_the_command_line(tensorboard, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = [f"--set={name}={value}" for name, value in LOCK.items()]
    start = ["train", "risky-lock", *settings, "--iterations", "3", "--json"]
    result = CliRunner().invoke(main, [*start, "--out", "r", "--log-to", "tensorboard", "--log-to", "tensorboard"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["iterations"] == 3
    assert [len(file.events) for file in tensorboard] == [3]
    near = CliRunner().invoke(main, [*start, "--out", "q", "--log-to", "tensorbord"])
    assert "did you mean 'tensorboard'" in near.stderr

    def full(self, step, values):
        raise OSError("disk full")

    monkeypatch.setattr(loggers.TensorBoard, "log", full)
    result = CliRunner().invoke(main, [*start, "--out", "q", "--log-to", "tensorboard"])
    assert result.exit_code == 0
    assert result.stderr.count("tailrank: note: logging to TensorBoard failed (OSError: disk full)") == 1
    assert outcome(tmp_path / "q") == outcome(tmp_path / "r")


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(InputError, match="did you mean 'wandb'"):
        Logged(["wanb"], CONFIG.flat(), tmp_path)


# The real ones, where they are installed


def test_real_tensorboard(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    logged_run(tmp_path / "r", "tensorboard")
    found = accumulator.EventAccumulator(str(tmp_path / "r" / "tensorboard"))
    found.Reload()
    rows = rows_of(tmp_path / "r")
    for tag, key in (("eval/cvar_0.2", "cvar"), ("train/bonus", "bonus"), ("rollout/episodes", "episodes")):
        events = found.Scalars(tag)
        assert [event.step for event in events] == [row["steps"] for row in rows]
        assert [event.value for event in events] == pytest.approx([row[key] for row in rows], rel=1e-6)
