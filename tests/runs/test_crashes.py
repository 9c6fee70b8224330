"""Runs, sweeps and files when the process or the disk gives up in the middle: at each of their changes of a file."""

from __future__ import annotations

import json
import os
import shutil
import signal
from itertools import product
from pathlib import Path

import pytest

import crashes
import faults
from logged import frame_of, small_mdp
from tailrank.runs import folder as files

MODELS = Path(__file__).resolve().parents[2] / "examples" / "models"


pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, which no child uses


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch):
    # Threads do not survive a fork.
    monkeypatch.setenv("TAILRANK_THREADS", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("crashes")


def whole(place, name):
    """The outcome of a case that nothing disturbs, and how often it changes a file."""
    config, out = crashes.write(place, name), place / name
    # Once in this process: children inherit what it has compiled.
    crashes.call(crashes.arguments(place / f"{name}-warm", config), standalone_mode=False)
    ended = faults.run(lambda: crashes.call(crashes.arguments(out, config)), place)
    assert ended.code == 0, ended.stderr
    return config, crashes.outcome(out), len(ended.calls)


def disturbed(place, name, at, kind, config, expected):
    """A case with a fault at a call; what is left is whole, and it goes on to what was expected."""
    out = place / f"{name}-{kind}-{at}"
    ended = faults.run(lambda: crashes.call(crashes.arguments(out, config)), place, at, kind)
    if kind in ("kill", "tear"):
        assert ended.code == -signal.SIGKILL
    elif ended.code:
        crashes.one_line(ended, out)
    crashes.whole_so_far(out, expected[files.ROWS])
    again = faults.run(lambda: crashes.call(crashes.arguments(out, config)), place)
    assert (again.code, again.stderr) == (0, ""), again.stderr
    assert crashes.outcome(out) == expected
    shutil.rmtree(out)


@pytest.mark.parametrize(
    ("name", "first"), [("ela", 0), ("simulator", 1), ("bins", 2), ("budget-ppo", 0), ("shortfall-dqn", 1), ("auto", 9)]
)
def test_a_run_at_a_sixth_of_its_changes_of_files(place, name, first):
    # All of them, with every kind of fault: studies/crash.py.
    config, expected, calls = whole(place, name)
    every = 24 if name == "auto" else 6  # which takes seconds
    for at in range(first, calls, every):
        disturbed(place, name, at, faults.KINDS[at // every % len(faults.KINDS)], config, expected)


def swept(place, out, *fault):
    """A sweep of two runs in this process, with a fault."""
    given = ["sweep", place / "s.toml", "--out", out, "--backend", "serial", "--quiet"]
    return faults.run(lambda: crashes.call(given), place, *fault)


def whole_sweep(place):
    """The outcome of a sweep that nothing disturbs, and how often it changes a file."""
    path = place / "s.toml"
    path.write_text(crashes.SWEEP)
    crashes.call(["sweep", path, "--out", place / "warm", "--backend", "serial"], standalone_mode=False)
    ended = swept(place, place / "sweep")
    assert ended.code == 0, ended.stderr
    return crashes.outcome_of_sweep(place / "sweep"), len(ended.calls)


def disturbed_sweep(place, at, kind, expected):
    """The sweep with a fault at a call; the same command goes on to what was expected."""
    out = place / f"sweep-{kind}-{at}"
    broken = swept(place, out, at, kind)
    assert broken.code == -signal.SIGKILL if kind in ("kill", "tear") else broken.code in (0, 1, 2), broken.stderr
    assert "Traceback" not in broken.stderr
    again = swept(place, out)
    assert (again.code, again.stderr) == (0, "")
    assert crashes.outcome_of_sweep(out) == expected
    shutil.rmtree(out)


def test_a_sweep_at_some_of_its_changes_of_files(place):
    expected, calls = whole_sweep(place)
    for at in range(0, calls, 13):
        disturbed_sweep(place, at, faults.KINDS[at // 13 % len(faults.KINDS)], expected)


def from_logs(place, out, *fault):
    """A plan from records, with a fault."""
    given = ["learn-logs", place / "log.csv", "--out", out, "--budgets", 8, "--quiet"]
    return faults.run(lambda: crashes.call(given), place, *fault)


def whole_logs(place):
    """The files of a plan from records that nothing disturbs, and how often a file is changed for it."""
    frame = frame_of(small_mdp(), 40, seed=0)
    rows = zip(*(column.tolist() for column in frame.values()), strict=True)
    (place / "log.csv").write_text("\n".join(",".join(map(str, row)) for row in (frame, *rows)) + "\n")
    given = ["learn-logs", place / "log.csv", "--out", place / "warm-logs", "--budgets", 8, "--quiet"]
    crashes.call(given, standalone_mode=False)  # children inherit what this process has compiled
    ended = from_logs(place, place / "from-logs")
    assert ended.code == 0, ended.stderr
    return files_of(place / "from-logs"), len(ended.calls)


def files_of(folder):
    """Names and bytes of all files, but for the place and the time that are told."""
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    about = json.loads(found.pop("logs.json"))
    about["result"] = {key: value for key, value in about["result"].items() if key not in ("out", "seconds")}
    return found | {"logs.json": about}


def disturbed_logs(place, at, kind, expected):
    """Records with a fault at a call; the same command goes on to what was expected."""
    out = place / f"from-logs-{kind}-{at}"
    broken = from_logs(place, out, at, kind)
    assert broken.code == -signal.SIGKILL if kind in ("kill", "tear") else broken.code in (0, 2), broken.stderr
    again = from_logs(place, out)
    assert (again.code, again.stderr) == (0, "")
    assert files_of(out) == expected
    shutil.rmtree(out)


def test_a_plan_from_records_at_some_of_its_changes_of_files(place):
    expected, calls = whole_logs(place)
    for at in range(calls - 1, -1, -5):  # the last ones write the plan and what was found about it
        disturbed_logs(place, at, faults.KINDS[at % 2], expected)


COMMANDS = {
    "solve": ["solve", "{model}", "--tau", "0.5", "--save", "{out}"],
    "export": ["export", "{model}", "{out}.json"],
    "report": ["report", "{run}", "-o", "{out}"],
    "plot": ["plot", "{run}", "-o", "{out}.svg"],
    "compare": ["compare", "{run}", "--csv", "{out}"],
    "objective": ["solve", "{model}", "--objective", "worst", "--save", "{out}"],
    "efficient": ["solve", "{model}", "--tau", "0.5", "--efficient", "--csv", "{out}"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_is_the_old_one_or_the_new_one(place, command):
    run, folder = place / "for-commands", place / command
    if not run.exists():
        crashes.call(["train", "--config", crashes.write(place, "ela"), "--out", run, "--quiet"], standalone_mode=False)
    folder.mkdir()
    names = {"model": MODELS / "counter_example.json", "run": run, "out": folder / "file"}
    given = [word.format(**names) for word in COMMANDS[command]]
    path = Path(next(word for word in given if word.startswith(str(folder))))
    crashes.call(given, standalone_mode=False)
    new, old = path.read_bytes(), b"what was there before"
    calls = faults.run(lambda: crashes.call(given), place).calls
    assert calls == ("open", "ftruncate", "write", "fsync", "replace", "fsync")
    for at, kind in product(range(len(calls)), faults.KINDS):
        if command != "solve" and kind != faults.KINDS[at % len(faults.KINDS)]:
            continue  # they all write in the same way
        path.write_bytes(old)
        ended = faults.run(lambda: crashes.call(given), place, at, kind)
        assert path.read_bytes() in (old, new)
        if kind in ("kill", "tear"):
            assert ended.code == -signal.SIGKILL
        elif ended.code:
            crashes.one_line(ended, path)
        assert kind in ("kill", "tear", "frozen") or os.listdir(folder) == [path.name]
        assert faults.run(lambda: crashes.call(given), place).code == 0
        assert path.read_bytes() == new
        assert os.listdir(folder) == [path.name]
