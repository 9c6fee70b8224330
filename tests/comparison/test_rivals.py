"""Rivals by equal steps: what is said without the deep ones, what is kept, what is refused."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest

from command import cli, fails
from tailrank import cvar
from tailrank.envs import open_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.rivals.observations.equal_steps import missing_packages, trained_rival
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


class Wager(gymnasium.Env):
    """One step: action 0 pays 1, action 1 pays 3 or, one time in ten, -9 (mean 1.8, CVaR.2 -3)."""

    observation_space, action_space = gymnasium.spaces.Box(0.0, 1.0, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action):
        reward = 1.0 if action == 0 else -9.0 if self.np_random.random() < 0.1 else 3.0
        return np.zeros(1, dtype=np.float32), reward, True, False, {}


@pytest.mark.parametrize(("tau", "best"), [(0.2, 0), (1.0, 1)])
def test_the_gradient_climbs_what_tau_asks_for(tau, best):
    with open_simulator(Wager, horizon=1, width=50) as env:
        policy, steps = trained_rival("cvar gradient", env, 6000, tau, Streams(3))
    assert policy.act(0, np.zeros((1, 1)), policy.start(1)).tolist() == [best]
    assert 6000 <= steps <= 6050


def test_what_cannot_be_compared(run, tmp_path):
    cli("train", "risky-lock", "--iterations", 2, "--out", tmp_path / "lock", "--quiet")
    fails(cli("compare", tmp_path / "lock", "--rivals"), "is no run on a simulator")
    (run / "rivals.json").write_text("[1]")
    fails(cli("compare", run, "--rivals"), "is no file of rivals")
