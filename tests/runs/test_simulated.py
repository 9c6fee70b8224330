"""Runs on simulators: resumed to the same bytes, judged by fresh episodes, refused in one line."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file

import crashes
from tailrank import load
from tailrank.checks import InputError
from tailrank.cli import main
from tailrank.envs import make_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.risk.law import cvar
from tailrank.runs import run as runs
from tailrank.runs.config import RunConfig

SMALL = {
    "environment": "rich-lock",
    "settings": {"horizon": 4, "n_actions": 3},
    "model": "mixture",
    "iterations": 60,
    "episodes": 70,
    "checkpoint_every": 7,
    "evaluate_every": 20,
    "evaluation_episodes": 200,
    "output_episodes": 100,
}


class Stop(Exception):
    pass


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "a"
    return out, runs.run(RunConfig.from_dict(SMALL), out)


def test_learns_and_is_judged_by_fresh_episodes(finished):
    out, result = finished
    assert result["cvar"] == pytest.approx(0.8)
    assert result["cvar_low"] <= 0.8 <= result["cvar_high"]
    assert result["method"] == "beta"
    returns = load_file(out / "evaluation.safetensors")["returns"]
    assert returns.size == 200
    assert cvar(returns, 0.1) == result["cvar"]


def test_the_saved_policy_plays_what_was_judged(finished):
    out, _ = finished
    policy = load(out / "plan.safetensors").policy
    lock = make_simulator("rich-lock", horizon=4, n_actions=3)
    again = play_simulator(policy, lock, np.arange(1, 401, 2)).returns
    assert cvar(again, 0.1) == pytest.approx(0.8)


def test_rows_say_when_they_were_judged(finished):
    out, _ = finished
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    judged = [row["k"] for row in rows if row["cvar"] is not None]
    assert judged == [k for k in range(1, len(rows) + 1) if k % 20 == 0]
    assert all(row["cvar_low"] <= row["cvar"] <= row["cvar_high"] for row in rows if row["cvar"] is not None)
    assert rows[-1]["episodes"] >= 70


@pytest.mark.parametrize("at", [1, 7, 10, 22])
def test_resumes_to_the_same_bytes(finished, tmp_path, at):
    whole, _ = finished

    def stop(row, iterations, star):
        if row["k"] == at:
            raise Stop

    with pytest.raises(Stop):
        runs.run(RunConfig.from_dict(SMALL), tmp_path / "b", progress=stop)
    runs.resume(tmp_path / "b")
    for name in ("rows.jsonl", "plan.safetensors", "evaluation.safetensors"):
        assert (tmp_path / "b" / name).read_bytes() == (whole / name).read_bytes(), name


NOISY = {"settings": {"horizon": 3, "n_actions": 2, "noise": 0.4}, "share": True, "iterations": 6, "episodes": None}


@pytest.mark.parametrize("at", [1, 6])
def test_resumes_where_latents_are_unsure(at, tmp_path):
    """Sums over many floats, which depend on the layout of arrays."""
    config = RunConfig.from_dict(SMALL | NOISY | {"checkpoint_every": 1, "evaluate_every": 1})

    def stop(row, iterations, star):
        if row["k"] == at:
            raise Stop

    runs.run(config, tmp_path / "whole")
    with pytest.raises(Stop):
        runs.run(config, tmp_path / "b", progress=stop)
    runs.resume(tmp_path / "b")
    assert crashes.outcome(tmp_path / "b") == crashes.outcome(tmp_path / "whole")


def test_a_damaged_file_of_episodes_is_refused(tmp_path):
    def stop(row, iterations, star):
        if row["k"] == 15:
            raise Stop

    with pytest.raises(Stop):
        runs.run(RunConfig.from_dict(SMALL), tmp_path / "b", progress=stop)
    shard = sorted((tmp_path / "b").glob("episodes-*"))[0]
    data = bytearray(shard.read_bytes())
    data[-5] ^= 1
    shard.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"episodes-00000000.safetensors: is damaged"):
        runs.resume(tmp_path / "b")
    shard.unlink()
    with pytest.raises(InputError, match=r"is missing or damaged"):
        runs.resume(tmp_path / "b")


def test_evaluation_changes_nothing_in_training(tmp_path, finished):
    whole, _ = finished
    runs.run(RunConfig.from_dict(SMALL | {"evaluate_every": 0}), tmp_path / "b")
    trained = [json.loads(line)["return"] for line in (tmp_path / "b" / "rows.jsonl").read_text().splitlines()]
    expected = [json.loads(line)["return"] for line in (whole / "rows.jsonl").read_text().splitlines()]
    assert trained == expected
    assert load_file(tmp_path / "b" / "plan.safetensors").keys() == load_file(whole / "plan.safetensors").keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithm": "rep-ucb"}, "algorithm = 'rep-ucb': from observations"),
        ({"model": "counts"}, "model = 'counts': is for finite environments"),
        ({"collect": "printed"}, "collect = 'printed': is for model = 'lowrank'"),
        ({"output": "uniform"}, "output = 'uniform': is for finite environments"),
        ({"stop_cvar": 0.5, "evaluate_every": 0}, "stop_cvar: needs evaluate_every"),
        ({"reward_range": [1.0]}, "reward_range = .*: must be two numbers"),
        ({"rank": 0}, "rank = 0"),
        ({"model": "nerual"}, "model = 'nerual'.*did you mean"),
        ({"network": {"depth": 3}}, "depth"),
        ({"settings": {"horizn": 4}}, "horizn: is no setting of rich-lock.*horizon"),
    ],
)
def test_what_does_not_fit_is_refused(change, message, tmp_path):
    with pytest.raises(InputError, match=message):
        runs.run(RunConfig.from_dict(SMALL | change), tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["episodes", "reward_range", "evaluate_every", "network", "width"])
def test_settings_for_observations_are_refused_elsewhere(name):
    value = {"reward_range": [0.0, 1.0], "network": {"width": 8}}.get(name, 5)
    with pytest.raises(InputError, match=f"{name}: is for learning from observations"):
        RunConfig.from_dict({"environment": "risky-lock", "iterations": 5, name: value})


def test_command_line_on_a_gymnasium_environment(tmp_path):
    out = str(tmp_path / "cart")
    arguments = [
        "train",
        "CartPole-v1",
        "--horizon",
        "12",
        "--tau",
        "0.2",
        "--model",
        "mixture",
        "--rank",
        "4",
        "--share",
        "--bonus",
        "visits",
        "--episodes",
        "40",
        "--batch",
        "4",
        "--width",
        "4",
        "--evaluation-episodes",
        "50",
        "--output-episodes",
        "20",
        "--out",
        out,
        "--json",
        "--quiet",
    ]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    result = json.loads(done.output.splitlines()[-1])
    assert result["episodes"] >= 40
    assert result["cvar_low"] <= result["cvar"] <= result["cvar_high"]
    assert result["method"] in ("bca", "percentile")  # the range of returns is not known
    again = CliRunner().invoke(main, ["evaluate", out, "--episodes", "50", "--bounds", "0", "12", "--json"])
    assert again.exit_code == 0, again.output


def test_growth_plays_a_share_of_what_was_played(tmp_path):
    values = SMALL | {"growth": 0.5, "evaluate_every": 0}
    runs.run(RunConfig.from_dict(values), tmp_path / "a")
    rows = [json.loads(line) for line in (tmp_path / "a" / "rows.jsonl").read_text().splitlines()]
    played = [row["episodes"] for row in rows]
    assert all(after - before == round(0.5 * before) for before, after in pairwise(played))
    assert len(played) < 10
