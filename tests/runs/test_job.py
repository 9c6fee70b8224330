"""Rivals on simulators by name: run folders, resumed to the same bytes, judged by fresh episodes, one-line errors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file

from tailrank import load
from tailrank._system.settings import settings_of
from tailrank.checks import InputError
from tailrank.cli import main
from tailrank.envs import make_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.learning import registry
from tailrank.learning.registry import learner_class
from tailrank.learning.rivals.observations.bins import Bins
from tailrank.risk.law import cvar
from tailrank.runs import run as runs
from tailrank.runs.config import RunConfig
from tailrank.runs.job import AGAIN, Job

LOCK = {"environment": "rich-lock", "settings": {"horizon": 3, "n_actions": 3}, "evaluation_episodes": 100}
SMALL = {
    "policy-gradient": {"episodes": 300, "iterations": 300, "planner": {"batch": 40, "soft": True, "hidden": [4]}},
    "bins": {"episodes": 120, "iterations": 120, "planner": {"batch": 20, "projections": 4}},
}
EACH = pytest.mark.parametrize("name", SMALL)


def config(name, **more):
    return RunConfig.from_dict(LOCK | SMALL[name] | {"algorithm": name, "checkpoint_every": 2} | more)


class Stop(Exception):
    pass


@EACH
def test_rows_result_and_policy(name, tmp_path):
    result = runs.run(config(name, evaluate_every=2), tmp_path / "a")
    rows = [json.loads(line) for line in (tmp_path / "a" / "rows.jsonl").read_text().splitlines()]
    assert rows[-1]["episodes"] == SMALL[name]["episodes"] == result["episodes"]
    assert [row["k"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["cvar"] is not None for row in rows] == [row["k"] % 2 == 0 for row in rows]
    assert rows[-1]["steps"] == 3 * rows[-1]["episodes"]
    assert result["cvar_star"] == pytest.approx(0.8)
    returns = load_file(tmp_path / "a" / "evaluation.safetensors")["returns"]
    assert cvar(returns, 0.1) == result["cvar"]
    lock = make_simulator("rich-lock", horizon=3, n_actions=3)
    played = play_simulator(load(tmp_path / "a" / "plan.safetensors").policy, lock, 2 * np.arange(400) + 1)
    assert abs(played.returns.mean() - result["mean"]) < 0.15


@EACH
@pytest.mark.parametrize("at", [1, 3])
def test_resumes_to_the_same_bytes(name, tmp_path, at):
    def stop(row, iterations, star):
        if row["k"] == at:
            raise Stop

    runs.run(config(name), tmp_path / "whole")
    with pytest.raises(Stop):
        runs.run(config(name), tmp_path / "cut", progress=stop)
    runs.resume(tmp_path / "cut")
    for file in ("rows.jsonl", "evaluation.safetensors", "plan.safetensors"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_iterations_say_how_many_episodes():
    given = LOCK | {"algorithm": "bins", "iterations": 7, "planner": {"batch": 5}}
    assert Job.of(RunConfig.from_dict(given)).total == 35


@dataclass(frozen=True)
class Forgetful(Bins):
    stored: ClassVar[bool] = False
    batch: int = 10

    def restored(self, arrays, env, streams):
        state = self.init(env, streams)
        for _ in range(int(arrays["job.k"][0])):
            state, _ = self.step(state, env, streams)
        return state


def test_what_keeps_no_state_plays_again(tmp_path, monkeypatch):
    """A rival that cannot be stored is told how many rows there were, and the run says so."""

    monkeypatch.setitem(registry.SIMULATED, "qr-dqn", f"{__name__}:Forgetful")
    given = RunConfig.from_dict(LOCK | {"algorithm": "qr-dqn", "iterations": 5, "checkpoint_every": 1})

    def stop(row, iterations, star):
        if row["k"] == 3:
            raise Stop

    runs.run(given, tmp_path / "whole")
    with pytest.raises(Stop):
        runs.run(given, tmp_path / "cut", progress=stop)
    runs.resume(tmp_path / "cut")
    assert (tmp_path / "cut" / "rows.jsonl").read_bytes() == (tmp_path / "whole" / "rows.jsonl").read_bytes()
    notes = json.loads((tmp_path / "cut" / "manifest.json").read_text())["notes"]
    assert AGAIN.format(name="qr-dqn", rows=3) in notes


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"algorithm": "bins", "rank": 3}, "rank: is no setting of bins"),
        ({"algorithm": "bins", "alpha_scale": 0.5}, "alpha_scale: is no setting of bins"),
        ({"algorithm": "bins", "output": "greedy"}, "output: is no setting of bins"),
        ({"algorithm": "bins", "stop_cvar": 0.5}, "stop_cvar: needs evaluate_every"),
        (
            {"algorithm": "bins", "planner": {"soft": True}},
            "planner.soft: is no setting of bins, which has projections",
        ),
        ({"algorithm": "c51", "planner": {"head": "x"}}, "planner.head: is no setting of c51"),
        ({"algorithm": "bins", "environment": "risky-lock", "settings": {}}, "risky-lock has states; use rich-lock"),
        ({"algorithm": "pcid"}, "from observations learn ela.* and policy-gradient, qr-dqn, c51, bins"),
    ],
)
def test_refused(given, message):
    with pytest.raises(InputError, match=message):
        RunConfig.from_dict(LOCK | {"iterations": 5} | given)


def test_bad_values_are_refused_before_anything_is_run():
    with pytest.raises(InputError, match="cells = 1"):
        RunConfig.from_dict(LOCK | {"algorithm": "bins", "iterations": 5, "planner": {"cells": 1}})


def test_on_a_gymnasium_environment(tmp_path):
    out = tmp_path / "a"
    words = "CartPole-v1 --algorithm bins --horizon 5 --episodes 40 --planner most=5 --quiet --json"
    done = CliRunner().invoke(main, ["train", *words.split(), "--evaluation-episodes", "20", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["episodes"] == 40
    policy = load(out / "plan.safetensors")
    action, _ = policy.predict(np.zeros(4, dtype=np.float32))
    assert action in (0, 1)


def test_settings_by_name():
    assert list(settings_of(learner_class("bins", "simulator")))[:3] == ["tau", "projections", "cells"]
    assert "head" in settings_of(learner_class("qr-dqn", "simulator"))
    assert "head" not in settings_of(learner_class("c51", "simulator"))
