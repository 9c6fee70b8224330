"""`tailrank train` on the command line."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from command import TAILRANK, cli, fails

LOCK = ["risky-lock", "--set", "horizon=4", "--set", "n_actions=3", "--set", "n_states=12"]
KEYS = ["algorithm", "tau", "iterations", "episodes", "steps", "cvar", "cvar_star", "status", "seconds", "out"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_json_is_the_last_line():
    result = cli("train", *LOCK, "--tau", "0.2", "--episodes", "21", "--seed", "3", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout.splitlines()[-1])
    assert list(found) == KEYS
    assert (found["algorithm"], found["tau"], found["iterations"], found["episodes"]) == ("ela", 0.2, 6, 24)
    assert found["status"] == "finished"
    assert re.fullmatch(r"runs/risky-lock-ela-tau0\.2-seed3-\d{8}-\d{6}", found["out"])
    assert found["cvar"] <= found["cvar_star"] + 1e-12
    again = cli("train", "--resume", found["out"], "--json")
    assert json.loads(again.stdout.splitlines()[-1]) == found


def test_summary_and_files_for_other_commands():
    text = cli("train", "risky-shortcut", "--iterations", "5", "--out", "r").stdout
    for word in ("CVaR", "best CVaR", "returned", "regret", "plan.safetensors", "note: "):
        assert word in text
    assert "note" not in cli("train", "risky-shortcut", "--iterations", "5", "--out", "q", "--quiet").stdout
    assert cli("show", "r/plan.safetensors").exit_code == 0


def test_an_mdp_in_a_file():
    Path("m.csv").write_text("state,action,next_state,probability,reward\n0,0,0,1,1\n0,1,0,0.9,2\n0,1,0,0.1,0\n")
    result = cli("train", "m.csv", "--horizon", "2", "--iterations", "5", "--json", "--quiet")
    found = json.loads(result.stdout)
    assert found["out"].startswith("runs/m-ela-tau0.1-seed0-")
    assert cli("evaluate", f"{found['out']}/plan.safetensors", "m.csv", "--horizon", "2").exit_code == 0


def test_options_override_the_file():
    Path("c.toml").write_text('environment = "risky-lock"\niterations = 9\nseed = 4\n[settings]\nhorizon = 3\n')
    result = cli("train", "--config", "c.toml", "--iterations", "2", "--set", "n_actions=2", "--horizon", "4", "--json")
    found = json.loads(result.stdout.splitlines()[-1])
    assert (found["iterations"], found["episodes"]) == (2, 8)
    assert found["out"].startswith("runs/risky-lock-ela-tau0.1-seed4-")


def test_a_rank_alone_is_a_model_of_this_rank():
    text = cli("train", *LOCK, "--rank", "2", "--iterations", "3", "--seed", "1", "--out", "a").stdout
    assert re.search(r"note: model: (em|block) of rank 2(, all steps as one)?, chosen among 4 by held-out", text)


BAD = [
    (["--tau", "0"], ["tau = 0"]),
    (["--tau", "2"], ["tau = 2"]),
    (["--iterations", "0"], ["iterations = 0"]),
    (["--episodes", "9"], ["one of them"]),
    (["--model", "em", "--rank", "13"], ["rank = 13", "12"]),
    (["--model", "em"], ["rank"]),
    (["--model", "em", "--rank", "0"], ["rank = 0"]),
    (["--alpha-scale", "0"], ["alpha_scale"]),
    (["--lam-scale", "-1"], ["lam_scale"]),
    (["--cap", "-1"], ["cap"]),
    (["--cap", "corected"], ["did you mean 'corrected'"]),
    (["--algorithm", "elle"], ["algorithm", "did you mean"]),
    (["--set", "horizon"], ["KEY=VALUE"]),
    (["--set", "horizn=3"], ["did you mean 'horizon'"]),
    (["--set", "n_states=x"], ["n_states"]),
    (["--seed", "-1"], ["seed"]),
    (["--batch", "0"], ["batch"]),
    (["--output", "last"], ["output"]),
    (["--collect", "all"], ["collect"]),
    (["--upsilon", "0.1"], ["upsilon"]),
    (["--resume", "x"], ["--resume"]),
    (["--config", "none.toml"], ["none.toml"]),
    (["--stop-cvar", "nan"], ["stop_cvar"]),
    (["--iterations", "x"], ["iterations"]),
    (["--discount", "0.9"], ["discount"]),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=[" ".join(b[0]) for b in BAD])
def test_bad_input_is_one_line_and_leaves_nothing(arguments, words):
    fails(cli("train", *LOCK, "--iterations", "3", *arguments), *words)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["train"], "SOURCE"),
        (["train", "risky-lock"], "--iterations"),
        (["train", "risky-lok", "--iterations", "3"], "risky-lok"),
        (["train", "--resume", "nowhere"], "holds no run"),
        (["theory", "--H", "5"], "--A"),
    ],
)
def test_what_is_missing(arguments, word):
    fails(cli(*arguments), word)


def test_a_signal_says_how_to_go_on():
    command = [*TAILRANK, "train", *LOCK, "--iterations", "5000", "--out", "r"]
    rows = Path("r/rows.jsonl")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            while child.poll() is None and not (rows.exists() and rows.stat().st_size):
                time.sleep(0.01)
            child.send_signal(signal.SIGTERM)
            stdout, stderr = child.communicate(timeout=120)
        finally:
            child.kill()
    assert (child.returncode, stdout) == (143, "")
    assert len(stderr.splitlines()) == 1
    assert "tailrank train --resume r" in stderr
    assert json.loads(Path("r/manifest.json").read_text())["status"] == "interrupted"
    assert Path("r/checkpoint.safetensors").exists()
