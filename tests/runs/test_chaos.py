"""Environments that misbehave at a random point: one line that says where, and the run goes on once they behave."""

from __future__ import annotations

import json
import re
import signal
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import crashes
import faults
from tailrank.runs import folder as files
from tailrank.runs.build import simulator
from tailrank.runs.config import RunConfig
from tailrank.runs.run import run
from tailrank.runs.sweeps._worker import work

sys.path.append(str(Path(__file__).resolve().parents[1] / "envs"))
import chaos

BASE = {"environment": chaos.NAME, "imports": ["chaos"], "action_levels": 2, "width": 3, "evaluate_every": 2}
BASE |= {"iterations": 4, "checkpoint_every": 1, "evaluation_episodes": 12}
CASES = {
    "ela": BASE | {"model": "mixture", "rank": 4, "batch": 3, "output_episodes": 10, "reward_range": [-1.0, 1.0]},
    "bins": BASE | {"algorithm": "bins", "planner": {"batch": 9}},
    "policy-gradient": BASE | {"algorithm": "policy-gradient", "planner": {"batch": 9}, "rewards": "learned"},
    "kernel": BASE | {"algorithm": "kernel", "planner": {"representatives": 20}},
}
FEW = {
    "bins": ["nan reward", "ragged observation", "exits", "reset raises"],
    "policy-gradient": ["nan observation"],
    "kernel": ["nan reward", "exits"],
}


pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, which no child uses


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch):
    # Threads do not survive a fork.
    monkeypatch.setenv("TAILRANK_THREADS", "1")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All cases."""
    place = tmp_path_factory.mktemp("chaos")
    return {name: undisturbed(place, name) for name in CASES}


def undisturbed(place, name):
    """The configuration of a case, what it gives, and how often it steps and resets."""
    config = place / f"{name}.toml"
    config.write_text(RunConfig.from_dict(CASES[name]).toml())
    before = dict(chaos.CALLS)
    crashes.call(crashes.arguments(place / name, config), standalone_mode=False)
    return config, crashes.outcome(place / name), {call: chaos.CALLS[call] - before[call] for call in before}


def train(config, out, plan=None, *more, fault=()):
    def command():
        chaos.PLAN, chaos.CALLS = plan, dict.fromkeys(chaos.CALLS, 0)
        crashes.call([*crashes.arguments(out, config), *more])

    return faults.run(command, out, *fault)


def points(kind, calls):
    """At how many calls a fault can happen."""
    if kind == "reward outside its range":
        return 60  # of the pilot: there is no range for fresh episodes
    return calls["reset" if kind.startswith("reset") else "step"]


def misbehaved(config, outcome, out, plan):
    """A run whose environment misbehaves once says where in one line, and goes on to the outcome when it behaves."""
    ended, kind = train(config, out, plan), plan.kind
    seed, place = json.loads(plan.log.read_text())
    if kind in ("leaves", "dies"):
        assert ended.code == (0 if kind == "leaves" else -signal.SIGKILL)
    elif kind == "interrupts" or kind.startswith("hangs"):
        assert ended.code == 128 + (signal.SIGTERM if "SIGTERM" in kind else signal.SIGINT)
        assert re.fullmatch(r"tailrank: error: interrupted(; .*--resume .*)?\n", ended.stderr), ended.stderr
        assert files.read_manifest(out)["status"] == "interrupted"
    else:
        assert ended.code == 2, ended.stderr
        assert ended.stderr.count("\n") == 1
        assert re.search(rf"^tailrank: error: {chaos.NAME}, seed {seed}\b.*\b{place}: ", ended.stderr), ended.stderr
        assert files.read_manifest(out)["status"] == "failed"
        assert place in files.read_manifest(out)["error"]
    again = train(config, out)
    assert (again.code, again.stderr) == (0, "")
    assert crashes.outcome(out) == outcome


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in CASES for kind in FEW.get(name, chaos.FAULTS)])
def test_a_fault_is_one_line_and_the_run_goes_on(name, kind, whole, tmp_path):
    config, outcome, calls = whole[name]
    at = int(np.random.default_rng(zlib.crc32(f"{name} {kind}".encode())).integers(points(kind, calls)))
    misbehaved(config, outcome, tmp_path / "out", chaos.Plan(kind, at, tmp_path / "log"))


@pytest.mark.parametrize("kind", chaos.ALWAYS)
def test_what_must_not_matter(kind, whole, tmp_path, monkeypatch):
    (config, outcome, _), out = whole["ela"], tmp_path / "out"
    monkeypatch.chdir(tmp_path)
    ended = train(config, Path("out"), chaos.Plan(kind, 0), "--json")
    assert ended.code == 0, ended.stderr
    assert json.loads(ended.stdout)["status"] == "finished"
    assert crashes.outcome(out) == outcome


@pytest.mark.parametrize("kind", chaos.ODD)
def test_odd_episodes_are_episodes(kind, whole, tmp_path):
    """Also where a seed does not fix them: what was learned before a crash is kept as it is."""
    config, out, plan = whole["ela"][0], tmp_path / "out", chaos.Plan(kind, 0)
    assert train(config, out, plan, fault=(50, "kill")).code == -signal.SIGKILL
    rows = (out / files.ROWS).read_bytes()
    assert rows.count(b"\n") >= 2
    ended = train(config, out, plan)
    assert (ended.code, ended.stderr) == (0, "")
    kept = files.read_checkpoint(out)[1].rows
    assert kept == 4
    assert (out / files.ROWS).read_bytes().startswith(rows[: rows.index(b"\n")])


def test_environments_are_closed_by_who_made_them(tmp_path, monkeypatch):
    config = RunConfig.from_dict(CASES["bins"])
    before = chaos.CALLS["close"]
    run(config, tmp_path / "a")
    assert chaos.CALLS["close"] == before + 3
    env = simulator(config)
    run(config, tmp_path / "b", env=env)
    assert chaos.CALLS["close"] == before + 3
    env.close()
    monkeypatch.setattr(chaos, "PLAN", chaos.Plan("close raises", 0))
    with pytest.warns(UserWarning, match="Lock-v0, close: failed with RuntimeError: cannot close"):
        run(config, tmp_path / "c")
    assert files.read_manifest(tmp_path / "c")["status"] == "finished"


@pytest.mark.parametrize("kind", ["exits", "nan observation", "reset raises"])
def test_evaluation_and_sweeps_say_where_too(kind, whole, tmp_path):
    config = whole["bins"][0]
    plan = chaos.Plan(kind, 7, tmp_path / "log")

    def evaluate():
        chaos.PLAN, chaos.CALLS = plan, dict.fromkeys(chaos.CALLS, 0)
        crashes.call(["evaluate", config.parent / "bins", "--episodes", "20", "--import", "chaos"])

    def work_on():
        chaos.PLAN, chaos.CALLS = plan, dict.fromkeys(chaos.CALLS, 0)
        print(json.dumps(work(RunConfig.read(config).tables(), str(tmp_path / "run"))))

    for command in (evaluate, work_on):
        ended = faults.run(command, tmp_path)
        seed, place = json.loads(plan.log.read_text())
        where = rf"{chaos.NAME}, seed {seed}, {place}: "
        if command is evaluate:
            assert ended.code == 2
            assert re.fullmatch(f"tailrank: error: {where}.*\n", ended.stderr), ended.stderr
        else:
            answer = json.loads(ended.stdout)
            assert answer["status"] == "failed"
            assert re.match(where, answer["error"])
