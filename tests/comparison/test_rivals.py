"""Rivals by equal steps: what is said without the deep ones, what is kept, what is refused."""

from __future__ import annotations

import json

import pytest

from command import cli, fails
from tailrank import cvar
from tailrank.envs import open_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.rivals.observations.equal_steps import missing_packages
from tailrank.policies.tables import UniformPolicy


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rivals") / "pole"
    about = ("--horizon", 12, "--episodes", 30, "--algorithm", "kernel", "--evaluation-episodes", 60)
    done = cli("train", "CartPole-v1", *about, "--out", folder, "--quiet")
    assert done.exit_code == 0, done.stderr
    return folder


def test_a_run_beside_random_actions(run, monkeypatch):
    done = cli("compare", run, "--rivals", "--json")
    assert done.exit_code == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)[str(run)]}
    result = json.loads((run / "manifest.json").read_text())["result"]
    assert rows["kernel"]["cvar"] == result["cvar"]
    streams = Streams(0)
    with open_simulator("CartPole-v1", horizon=12) as env:
        policy = UniformPolicy(2, 12, streams.planner(0))
        returns = play_simulator(policy, env, streams.evaluation_seeds(0, 60)).returns
    assert rows["uniform"]["cvar"] == pytest.approx(cvar(returns, 0.1))
    assert rows["uniform"]["cvar_low"] <= rows["uniform"]["cvar"] <= rows["uniform"]["cvar_high"]
    if missing_packages("ppo"):
        assert "install stable-baselines3 and sb3-contrib (tailrank[deep])" in done.stderr
    else:
        assert rows["ppo"]["steps"] >= result["steps"]
    monkeypatch.setattr("tailrank.comparison.rivals.trained_rival", None)  # it is read, not trained again
    again = cli("compare", run, "--rivals")
    assert again.exit_code == 0, again.stderr
    assert "uniform" in again.stdout


def test_what_cannot_be_compared(run, tmp_path):
    cli("train", "risky-lock", "--iterations", 2, "--out", tmp_path / "lock", "--quiet")
    fails(cli("compare", tmp_path / "lock", "--rivals"), "is no run on a simulator")
    (run / "rivals.json").write_text("[1]")
    fails(cli("compare", run, "--rivals"), "is no file of rivals")
