"""`tailrank evaluate` for policy files and for runs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tailrank.runs.build
import tailrank.runs.policy_files.storage
from command import cli, fails
from tailrank.episodes.streams import Streams

LOCK = ["risky-lock", "--set", "horizon=4", "--set", "n_actions=3", "--set", "n_states=12"]


def results(*arguments):
    done = cli("evaluate", *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        common = ["--quiet", "--output", "greedy"]
        done = cli("train", *LOCK, "--tau", "0.2", "--iterations", "3", "--out", "class", *common)
        assert done.exit_code == 0, done.output
        counts = ["--model", "counts", "--tau", "0.2", "--iterations", "2", "--out", "counts"]
        assert cli("train", *LOCK, *counts, *common).exit_code == 0
        rounded = ["random-lowrank", "--set", "reward=uniform", "--set", "upsilon=0.25", "--out", "rounded"]
        assert cli("train", *rounded, "--iterations", "1", *common).exit_code == 0
    return folder


@pytest.fixture(autouse=True)
def here(runs, monkeypatch):
    monkeypatch.chdir(runs)


@pytest.mark.parametrize("name", ["class", "counts"])
def test_episodes_of_a_run_agree_with_its_exact_value(name):
    """Also for a model of groups, whose plan does not see states."""
    (exact,) = results(name)["results"]
    learned = json.loads(Path(name, "manifest.json").read_text())["result"]["cvar"]
    assert (exact["tau"], exact["method"], exact["cvar"]) == (0.2, "exact", pytest.approx(learned))
    played = results(name, "--episodes", "3000", "--tau", "0.2", "--tau", "1")["results"]
    assert [row["tau"] for row in played] == [0.2, 1.0]
    for row in played:
        assert row["mean_lower"] <= exact["mean"] <= row["mean_upper"]
        assert (row["episodes"], row["status"], row["method"], row["var_method"]) == (3000, "played", "beta", "order")
    assert played[0]["lower"] <= exact["cvar"] <= played[0]["upper"]
    assert played[0]["var_lower"] <= exact["var"] <= played[0]["var_upper"]


def test_a_run_is_judged_on_numbers_of_its_own_seed_and_the_one_given():
    first, again = (results("counts", "--episodes", "200") for _ in range(2))
    assert first == again
    assert results("counts", "--episodes", "200", "--seed", "1") != first
    # Keys of the evaluation are longer than those of training: they begin other streams.
    streams = Streams(0)
    draws = [streams.evaluation(*key).integers(2**62) for key in ((0,), (0, 0), (0, 0, 0))]
    assert len(set(draws)) == 3


def test_rewards_that_are_not_on_the_grid_are_played_as_they_are():
    refused = cli("evaluate", "rounded")
    assert refused.exit_code == 2
    assert "--episodes or --width: must be given, random-lowrank has rewards that no grid holds" in refused.output
    played = results("rounded", "--episodes", "500")["results"][0]
    known = json.loads(Path("rounded", "manifest.json").read_text())["result"]
    assert played["lower"] <= known["cvar_upper"]
    assert known["cvar"] <= played["upper"]


def test_text_and_options():
    text = cli("evaluate", "class", "--episodes", "500", "--confidence", "0.9", "--method", "thomas").stdout
    for word in ("CVaR", "VaR", "mean", "interval", "thomas", "anderson", "500 episodes", "confidence 0.9"):
        assert word in text
    narrow = results("class", "--width", "0.4", "--max-episodes", "5000")["results"][0]
    assert narrow["status"] in ("narrow enough", "out of episodes")
    wider = results("class", "--episodes", "500", "--bounds", "-9", "9")["results"][0]
    assert wider["lower"] < results("class", "--episodes", "500")["results"][0]["lower"]
    bootstrap = results("class", "--episodes", "50", "--method", "percentile")
    assert any("approximate" in note for note in bootstrap["notes"])
    assert any("only 10 episodes in the tail" in note for note in bootstrap["notes"])


class Coin:
    """A simulator: one step, which pays 1 with probability 0.75."""

    name, horizon, n_actions, n_features, width = "coin", 1, 1, 1, 16

    def reset(self, seeds):
        assert all(seed % 2 == 1 for seed in seeds)
        self.rewards = np.array([np.random.default_rng(seed).random() < 0.75 for seed in seeds]) * 1.0
        return np.zeros((len(seeds), 1))

    def step(self, actions):
        return self.rewards, np.zeros((len(actions), 1)), np.ones(len(actions), dtype=bool)


class Only:
    """Plays the only action."""

    def start(self, n):
        return np.zeros(n)

    def act(self, h, features, memory):
        return np.zeros(len(features), dtype=np.int64)

    def update(self, h, moved, memory):
        return memory


def test_a_run_in_a_simulator(monkeypatch):
    monkeypatch.setattr(tailrank.runs.build, "environment", lambda config: Coin())
    monkeypatch.setattr(tailrank.runs.policy_files.storage, "load", lambda path: SimpleNamespace(policy=Only()))
    fails(cli("evaluate", "class"), "--episodes or --width", "coin is only known by playing")
    unknown = results("class", "--episodes", "300", "--tau", "1")
    assert unknown["results"][0]["method"] == "bca"
    assert any("--bounds LOW HIGH" in note for note in unknown["notes"])
    assert unknown["results"][0]["var_upper"] is None
    assert " .. ..." in cli("evaluate", "class", "--episodes", "300", "--tau", "1").stdout
    (known,) = results("class", "--episodes", "300", "--tau", "1", "--bounds", "0", "1")["results"]
    assert known["method"] == "beta"
    assert known["lower"] <= 0.75 <= known["upper"]
    (narrow,) = results("class", "--width", "0.3", "--tau", "1", "--bounds", "0", "1")["results"]
    assert narrow["status"] == "narrow enough"
    fails(cli("evaluate", "class", "--width", "0.3"), "width: needs bounds")


def test_what_it_refuses(runs):
    (runs / "empty").mkdir(exist_ok=True)
    (runs / "begun").mkdir(exist_ok=True)
    (runs / "begun" / "config.toml").write_text((runs / "class" / "config.toml").read_text())
    fails(cli("evaluate", "empty"), "empty: holds no run")
    fails(cli("evaluate", "begun"), "begun: holds no plan yet", "--resume begun")
    fails(cli("evaluate", "class", "model.csv"), "class: is a run, which has its own environment")
    fails(cli("evaluate", "class", "--horizon", "3"), "class: is a run, which has its own environment")
    fails(cli("evaluate", "class/plan.safetensors"), "SOURCE: must be given")
    fails(cli("evaluate", "class", "--max-episodes", "9"), "--max-episodes: is for --width")
    fails(cli("evaluate", "class", "--method", "betta"), "did you mean 'beta'")
    fails(cli("evaluate", "class", "--episodes", "9", "--confidence", "1"), "confidence = 1.0: must lie in (0, 1)")
    fails(cli("evaluate", "class", "--episodes", "9", "--width", "1"), "episodes, width: give one of them")
    fails(cli("evaluate", "class", "--episodes", "9", "--seed", "-1"), "seed = -1")
    fails(cli("evaluate", "class", "--tau", "2"), "tau = 2.0")


def test_an_environment_that_has_changed_is_said(runs):
    text = (runs / "class" / "manifest.json").read_text()
    changed = json.loads(text) | {"environment": "another"}
    (runs / "class" / "manifest.json").write_text(json.dumps(changed))
    fails(cli("evaluate", "class"), "risky-lock has changed since the run")
    (runs / "class" / "manifest.json").write_text(text)
