"""Runs: stopped anywhere and resumed, they give the same bytes; what was changed in between is refused."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tailrank.checks import InputError
from tailrank.runs import folder as files
from tailrank.runs.config import RunConfig
from tailrank.runs.policy_files import storage
from tailrank.runs.run import Interrupted, resume, run

LOCK = {"horizon": 4, "n_actions": 3, "n_states": 12}
SLOWLY = """
import time
from tailrank.cli import main
from tailrank.runs.folder import Rows
append = Rows.append
Rows.append = lambda self, row: (append(self, row), time.sleep(0.01))  # so that whoever watches is in time
main()
"""


def config(**values):
    base = {"environment": "risky-lock", "settings": LOCK, "iterations": 12, "checkpoint_every": 3}
    return RunConfig.from_dict(base | {"output_episodes": 50} | values)


def interrupt_after(k, number=signal.SIGINT):
    def progress(row, iterations, star):
        if row["k"] == k:
            os.kill(os.getpid(), number)

    return progress


def crash_after(k):
    def progress(row, iterations, star):
        if row["k"] == k:
            raise RuntimeError("crash")

    return progress


def outcome(out):
    return (out / "rows.jsonl").read_bytes(), (out / "plan.safetensors").read_bytes()


CHOICES = [
    {},
    {"output": "uniform"},
    {"output": "greedy"},
    {"model": "counts"},
    {"model": "em", "rank": 3},
    {"model": "block", "rank": 3, "iterations": 5},
    {"collect": "episode", "batch": 2},
    {"environment": "risky-shortcut", "settings": {}, "tau": 0.3, "share": True},
    {"algorithm": "ella", "planner": {"iterations": 5, "evaluations": 5}, "iterations": 5},
]


@pytest.mark.filterwarnings("ignore::tailrank.checks.NotConverged")
@pytest.mark.parametrize("values", CHOICES, ids=str)
def test_resumed_is_uninterrupted_bit_for_bit(values, tmp_path):
    settings = config(**values)
    whole = run(settings, tmp_path / "whole")
    with pytest.raises(Interrupted, match=r"after 2 iterations.*--resume"):
        run(settings, tmp_path / "parts", progress=interrupt_after(2))
    assert files.read_manifest(tmp_path / "parts")["status"] == "interrupted"
    with pytest.raises(RuntimeError):
        resume(tmp_path / "parts", progress=crash_after(4))
    assert files.read_manifest(tmp_path / "parts")["status"] == "failed"
    again = resume(tmp_path / "parts")
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    for name in set(whole) - {"out", "seconds"}:
        assert again[name] == whole[name]
    assert resume(tmp_path / "parts") == again


def test_rows_and_plan_say_the_truth(tmp_path):
    result = run(config(iterations=30), tmp_path / "r")
    rows = [json.loads(line) for line in (tmp_path / "r" / "rows.jsonl").read_text().splitlines()]
    assert [row["k"] for row in rows] == list(range(1, 31))
    assert rows[-1]["regret"] == pytest.approx(sum(0.8 - row["cvar"] for row in rows))
    assert rows[-1]["regret"] == result["regret"]
    assert result["cvar_star"] == pytest.approx(0.8)
    stored = storage.load(tmp_path / "r" / "plan.safetensors")
    assert stored.info["cvar"] == result["cvar"]
    manifest = files.read_manifest(tmp_path / "r")
    assert manifest["status"] == "finished"
    assert set(manifest["versions"]) >= {"numpy", "tailrank"}


def test_stops_when_the_cvar_is_reached(tmp_path):
    settings = config(iterations=200, stop_cvar=0.8)
    result = run(settings, tmp_path / "a")
    assert result["iterations"] < 200
    assert result["cvar"] == pytest.approx(0.8)
    assert result["returned"] == f"iterate {result['iterations']}"
    with pytest.raises(Interrupted):
        run(settings, tmp_path / "b", progress=interrupt_after(result["iterations"]))
    assert resume(tmp_path / "b")["iterations"] == result["iterations"]
    assert outcome(tmp_path / "a") == outcome(tmp_path / "b")


def test_sigterm_and_threads(tmp_path):
    with pytest.raises(Interrupted) as error:
        run(config(), tmp_path / "a", progress=interrupt_after(3, signal.SIGTERM))
    assert error.value.signal == signal.SIGTERM
    done = []
    thread = threading.Thread(target=lambda: done.append(resume(tmp_path / "a")))
    thread.start()
    thread.join()
    assert done[0]["iterations"] == 12


def test_killed_at_any_moment(tmp_path):
    settings = config(iterations=60, checkpoint_every=2)
    run(settings, tmp_path / "whole")
    (tmp_path / "c.toml").write_text(settings.toml())
    out, moments, kills = tmp_path / "killed", random.Random(1), 0
    for _ in range(6):
        start = ["--resume", out] if (out / "config.toml").exists() else ["--config", tmp_path / "c.toml", "--out", out]
        before = (out / "rows.jsonl").stat().st_mtime_ns if (out / "rows.jsonl").exists() else 0
        command = [sys.executable, "-c", SLOWLY, "train", *map(str, start), "--quiet"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
            try:
                while child.poll() is None:
                    if (out / "rows.jsonl").exists() and (out / "rows.jsonl").stat().st_mtime_ns > before:
                        break
                    time.sleep(0.005)
                time.sleep(moments.uniform(0, 0.08))
            finally:
                child.kill()
        kills += child.wait() == -signal.SIGKILL
    assert kills >= 3
    resume(out)
    assert outcome(out) == outcome(tmp_path / "whole")


@pytest.fixture
def stopped(tmp_path):
    with pytest.raises(Interrupted):
        run(config(), tmp_path / "r", progress=interrupt_after(5))
    return tmp_path / "r"


def refused(out, words):
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(InputError, match=words) as error:
        resume(out)
    assert "\n" not in str(error.value)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize("size", [0, 5, 200, -1])
def test_truncated_checkpoint(stopped, size):
    path = stopped / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    refused(stopped, "checkpoint.safetensors: is damaged")


def test_every_edit_of_a_checkpoint_is_seen(stopped):
    path = stopped / "checkpoint.safetensors"
    data = path.read_bytes()
    places = random.Random(0).sample(range(8, len(data)), 60)
    for place in places:
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(InputError):
            resume(stopped)
    path.write_bytes(data)
    arrays = load_file(path)
    save_file(arrays, path)
    refused(stopped, "not a checkpoint")


def test_other_schema_and_other_arrays(stopped):
    found = files.read_checkpoint(stopped)
    arrays, mark = found
    arrays["counts.0"] = arrays["counts.0"] + 1
    save_file(arrays, stopped / "checkpoint.safetensors", {"format": "tailrank-checkpoint", "schema": "2"})
    refused(stopped, "has schema 2")
    files.write_checkpoint(stopped, arrays, replace(mark, environment="0"))
    refused(stopped, "has changed since")
    assert np.array_equal(files.read_checkpoint(stopped)[0]["counts.0"], arrays["counts.0"])


def test_checkpoints_keep_shapes_and_values(stopped):
    mark = files.read_checkpoint(stopped)[1]
    arrays = {"number": np.array(0.5), "flag": np.array(True), "empty": np.zeros((0, 3)), "turned": np.ones((2, 3)).T}
    files.write_checkpoint(stopped, arrays, mark)
    found, again = files.read_checkpoint(stopped)
    assert again == mark
    assert {name: (array.shape, array.dtype) for name, array in found.items()} == {
        name: (array.shape, array.dtype) for name, array in arrays.items()
    }
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


def test_other_configuration(stopped):
    text = (stopped / "config.toml").read_text()
    (stopped / "config.toml").write_text(text.replace("tau = 0.1", "tau = 0.2"))
    refused(stopped, "another configuration")
    (stopped / "manifest.json").unlink()
    refused(stopped, "checkpoint.safetensors belongs to another configuration")
    (stopped / "config.toml").write_text(text.replace("tau", "taw"))
    refused(stopped, "did you mean 'tau'")


def test_changed_rows(stopped):
    path = stopped / "rows.jsonl"
    data = path.read_bytes()
    for other in (data[:-9], data.replace(b'"k": 1,', b'"k": 7,'), b""):
        path.write_bytes(other)
        refused(stopped, "rows.jsonl: its first 5 rows")


def test_damaged_manifest(stopped):
    (stopped / "manifest.json").write_text("{")
    refused(stopped, "manifest.json: is damaged")
    (stopped / "manifest.json").unlink()
    assert resume(stopped)["iterations"] == 12


def test_other_versions_are_said(stopped):
    manifest = files.read_manifest(stopped)
    manifest["versions"]["numpy"] = "0.1"
    files.write_manifest(stopped, manifest)
    with pytest.warns(UserWarning, match=r"began with numpy 0\.1"):
        resume(stopped)


def test_without_a_checkpoint_it_starts_again(tmp_path):
    whole = run(config(), tmp_path / "whole")
    with pytest.raises(RuntimeError):
        run(config(), tmp_path / "r", progress=crash_after(2))
    assert not (tmp_path / "r" / "checkpoint.safetensors").exists()
    assert resume(tmp_path / "r")["cvar"] == whole["cvar"]
    assert outcome(tmp_path / "r") == outcome(tmp_path / "whole")


def test_a_folder_in_use_is_refused(stopped, tmp_path):
    with files.lock_folder(stopped):
        refused(stopped, "in use by another process")
        (tmp_path / "new").mkdir()
        with files.lock_folder(tmp_path / "new"), pytest.raises(InputError, match="in use"):
            run(config(), tmp_path / "new")


def test_folders_that_are_taken(stopped, tmp_path):
    with pytest.raises(InputError, match=r"\(interrupted\); continue it with: tailrank train --resume"):
        run(config(), stopped)
    resume(stopped)
    with pytest.raises(InputError, match="finished run; choose another"):
        run(config(), stopped)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        run(config(), tmp_path / "other")
    with pytest.raises(InputError, match="must be a folder"):
        run(config(), tmp_path / "other" / "thesis.tex")
    with pytest.raises(InputError, match="holds no run"):
        resume(tmp_path / "other")
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.tex"]


def test_a_file_that_changed_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "state,action,next_state,probability,reward\n0,0,0,1,1\n0,1,0,0.9,2\n0,1,0,0.1,0\n"
    (tmp_path / "m.csv").write_text(rows)
    settings = RunConfig.from_dict({"environment": "m.csv", "horizon": 2, "iterations": 4})
    with pytest.raises(Interrupted):
        run(settings, "r", progress=interrupt_after(2))
    (tmp_path / "m.csv").write_text(rows.replace("0.9,2", "0.9,3"))
    refused(tmp_path / "r", "has changed")
    (tmp_path / "m.csv").write_text(rows)
    monkeypatch.chdir("/")
    assert resume(tmp_path / "r")["iterations"] == 4
