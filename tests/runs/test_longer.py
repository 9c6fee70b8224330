"""Runs that go on with more than they began with, and signals that come in the middle of an iteration."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner

import crashes
from tailrank.checks import InputError
from tailrank.cli import main
from tailrank.episodes.streams import Streams
from tailrank.learning.output import OutputRule
from tailrank.runs import folder as files
from tailrank.runs import run as runs
from tailrank.runs.config import RunConfig
from tailrank.runs.job import Job
from tailrank.runs.run import Interrupted, resume, run

LOCK = crashes.LOCK
SLOW = """
import time, gymnasium
class Slow(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(1, dtype="float32"), {}
    def step(self, action):
        time.sleep(0.05)
        return self.np_random.random(1, dtype="float32"), float(action), False, False, {}
gymnasium.register("Slow-v0", Slow, max_episode_steps=400)
"""


@pytest.mark.parametrize("algorithm", ["ela", "cvar-ucbvi", "cvar-q"])
@pytest.mark.parametrize("finished", [True, False])
def test_a_longer_run_is_the_same_as_one_that_was_long_from_the_beginning(algorithm, finished, tmp_path, monkeypatch):
    config = RunConfig.from_dict(LOCK | {"algorithm": algorithm, "iterations": 40, "checkpoint_every": 7})
    long = config.with_changes({"iterations": 60})
    run(long, tmp_path / "whole")
    if finished:
        run(config, tmp_path / "parts")
    else:
        stop_after(monkeypatch, 10)
        with pytest.raises(Interrupted):
            run(config, tmp_path / "parts")
        monkeypatch.undo()
    result = resume(tmp_path / "parts", changes={"iterations": 60})
    assert result["iterations"] == 60
    assert not any("ahead" in note for note in result["notes"])
    assert crashes.outcome(tmp_path / "parts") == crashes.outcome(tmp_path / "whole")
    assert RunConfig.read(tmp_path / "parts" / files.CONFIG) == long


def stop_after(monkeypatch, k):
    advance = Job.advance

    def stopping(self):
        row = advance(self)
        if self.k == k:
            os.kill(os.getpid(), signal.SIGTERM)
        return row

    monkeypatch.setattr(Job, "advance", stopping)


def test_iterates_are_drawn_uniformly_however_long_the_run():
    rule, K, seeds = OutputRule("uniform"), 8, 4000
    short = [rule.drawn(5, Streams(seed)) for seed in range(seeds)]
    long = [rule.drawn(K, Streams(seed)) for seed in range(seeds)]
    counts = np.bincount([k for (k,) in long], minlength=K + 1)[1:]
    assert ((counts - seeds / K) ** 2 / (seeds / K)).sum() < 24.3  # chi-square with 7 degrees, 0.999
    assert all(b == a or b[0] > 5 for a, b in zip(short, long, strict=True))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 2}, "seed: cannot be changed any more"),
        ({"iterations": 3}, "iterations = 3: .* has done 20 already"),
        ({"episodes": 3}, "episodes = 3: .* has played more already"),
        ({"iterations": 0}, "iterations = 0"),
        ({"output": "uniform"}, "output = 'uniform': the iterate that it draws was not kept"),
    ],
)
def test_what_cannot_be_changed(changes, words, tmp_path):
    out = tmp_path / "out"
    run(RunConfig.from_dict(LOCK | {"iterations": 20, "output": "greedy"}), out)
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.name != files.MANIFEST}
    with pytest.raises(InputError, match=words):
        resume(out, changes=changes)
    if "output" not in changes:
        assert {path.name: path.read_bytes() for path in out.iterdir() if path.name != files.MANIFEST} == before


def test_a_learner_that_plans_ahead_says_that_a_longer_run_is_another_one(tmp_path):
    out = tmp_path / "out"
    values = {"environment": "rich-lock", "settings": {"horizon": 3}, "algorithm": "kernel", "evaluation_episodes": 20}
    run(RunConfig.from_dict(values | {"iterations": 40, "episodes": 40}), out)
    again = CliRunner().invoke(main, ["train", "--resume", str(out), "--episodes", "80", "--json"])
    assert again.exit_code == 0, again.output
    printed = json.loads(again.stdout.splitlines()[-1])
    assert printed["episodes"] == 80
    assert "kernel plans its episodes ahead" in again.output
    rows = [json.loads(line) for line in (out / files.ROWS).read_text().splitlines()]
    assert [row["k"] for row in rows] == list(range(1, len(rows) + 1))
    refused = CliRunner().invoke(main, ["train", "--resume", str(out), "--tau", "0.5"])
    assert refused.exit_code == 2
    assert "--resume: takes all from the folder but " in refused.output


def test_checkpoints_do_not_wait_for_a_number_of_iterations(tmp_path, monkeypatch):
    clock = itertools.count(time.perf_counter(), 9.0)  # 9 s a look
    monkeypatch.setattr(runs.time, "perf_counter", lambda: next(clock))
    saved, save = [], runs._Run._save
    monkeypatch.setattr(runs._Run, "_save", lambda self, rows: (saved.append(self.job.k), save(self, rows)))
    run(RunConfig.from_dict(LOCK | {"iterations": 20, "checkpoint_every": 1000}), tmp_path / "out")
    assert np.diff([0, *saved]).max() <= 7


def test_a_signal_in_a_long_iteration(tmp_path):
    """The first iteration plays for minutes; a signal is answered at once and obeyed within seconds."""
    (tmp_path / "slow_env.py").write_text(SLOW)
    command = [sys.executable, "-m", "tailrank", "train", "slow_env:Slow-v0", "--episodes", "100", "--out", "out"]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    settings = {"cwd": tmp_path, "env": environ, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--progress", "plain"], **settings) as child:
        try:
            while not (tmp_path / "out" / files.MANIFEST).exists():
                time.sleep(0.05)
                assert child.poll() is None, child.stderr.read()
            time.sleep(0.3)
            child.send_signal(signal.SIGTERM)
            said = child.communicate(timeout=120)[1]
        finally:
            child.kill()
    assert child.returncode == 128 + signal.SIGTERM
    assert "stopping: " in said
    assert "nothing was saved yet; continue with: tailrank train --resume out" in said
    assert files.read_manifest(tmp_path / "out")["status"] == "interrupted"
