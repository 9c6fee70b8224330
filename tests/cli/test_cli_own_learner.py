"""A learner in a package of somebody else runs by its name: one file, no row anywhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from command import cli, fails

LOCK = ["risky-lock", "--set", "horizon=3", "--set", "n_actions=2", "--set", "n_states=6"]
PACKAGE = '''
from dataclasses import dataclass, field, replace

import numpy as np

from tailrank._system.settings import setting
from tailrank.episodes.rollout import play_simulator
from tailrank.learning.ela.ela import ELA
from tailrank.learning.protocol import PlayedInfo, SimulatorLearner
from tailrank.policies.tables import UniformPolicy


def no_bonus(problem, schedule):
    return problem.no_bonus


@dataclass(frozen=True)
class Careless(ELA):
    """ELA that never explores."""

    bonus: object = no_bonus
    shout: int = setting(1, kind=int, kw_only=True, help="How loud.")


@dataclass(frozen=True)
class Seen:
    k: int = 0
    episodes: int = 0
    steps: int = 0

    def to_arrays(self):
        return {"job.k": np.array([self.k]), "counters": np.array([self.episodes, self.steps])}


@dataclass(frozen=True)
class Dice(SimulatorLearner):
    """Throws dice and learns nothing."""

    each: int = setting(5, kind=int, help="Episodes an iteration.")

    def episodes_each(self, horizon):
        return self.each

    def init(self, env, streams):
        return Seen()

    def step(self, state, env, streams):
        policy = UniformPolicy(env.n_actions, env.horizon, streams.environment(state.k, 1))
        played = play_simulator(policy, env, streams.train_seeds(state.k, self.each))
        steps = state.steps + int(played.lengths.sum())
        return Seen(state.k + 1, state.episodes + self.each, steps), PlayedInfo.of(played.returns, self.tau)

    def policy(self, state, env, streams):
        from tailrank.policies.softmax import Network, SoftmaxPolicy

        return SoftmaxPolicy(Network.fresh(env.n_features, env.horizon, env.n_actions, (), streams.oracle(0)))

    def restored(self, arrays, env, streams):
        return Seen(int(arrays["job.k"][0]), *(int(x) for x in arrays["counters"]))


class NoLearner:
    pass
'''


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(PACKAGE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("mine", None)


def test_where_states_are_counted():
    words = ["train", *LOCK, "--algorithm", "mine:Careless", "--iterations", "4", "--seed", "2", "--quiet"]
    done = cli(*words, "--planner", "shout=3", "--batch", "2", "--out", "a", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["algorithm"] == "mine:Careless"
    cli("train", *LOCK, "--algorithm", "greedy", "--iterations", "4", "--seed", "2", "--batch", "2", "--out", "b")
    assert Path("a/rows.jsonl").read_bytes() == Path("b/rows.jsonl").read_bytes()
    assert cli("compare", "a", "b").exit_code == 0
    fails(cli(*words, "--planner", "shuot=3"), "shuot: is no setting of mine:Careless", "did you mean 'shout'")
    fails(cli(*words, "--planner", "shout=0"), "shout = 0")


def test_on_a_simulator_it_is_resumed_where_it_is_trusted():
    words = ["train", "rich-lock", "--set", "horizon=2", "--set", "n_actions=2", "--algorithm", "mine:Dice"]
    done = cli(*words, "--iterations", "3", "--evaluation-episodes", "20", "--out", "a", "--json", "--quiet")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["episodes"] == 15
    fails(cli("train", "--resume", "a"), "would import the package 'mine'", "--import mine")
    assert cli("train", "--resume", "a", "--import", "mine").exit_code == 0


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("mine:Nobody", "mine has no learner 'Nobody'"),
        ("mine:NoLearner", "has no learner"),
        ("no_such_package:X", "no_such_package"),
        ("mine:Dice", "is for a simulator environment"),
    ],
)
def test_what_is_no_learner_here(name, word):
    fails(cli("train", *LOCK, "--iterations", "3", "--algorithm", name), word)
    assert not Path("runs").exists()
