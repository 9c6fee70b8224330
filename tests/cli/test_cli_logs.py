"""learn-logs, evaluate --logs and check on the command line."""

from __future__ import annotations

import json

import pytest

from command import cli, fails
from logged import frame_of, small_mdp, wide
from tailrank import read_mdp, write_mdp

KEYS = ["status", "tau", "delta", "episodes", "transitions", "lower", "upper", "promise", "behaviour", "seconds", "out"]


def write(path, frame):
    lines = [",".join(frame)] + [",".join(map(str, row)) for row in zip(*frame.values())]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def ward(tmp_path):
    """A log, a later one, the model they come from, and where a plan may go."""
    mdp = small_mdp()
    write(tmp_path / "log.csv", frame_of(mdp, 3000, 0))
    write(tmp_path / "later.csv", frame_of(mdp, 2000, 1))
    write_mdp(mdp, tmp_path / "model.csv")
    return tmp_path


def test_learn_judge_and_report(ward):
    out = ward / "runs" / "ward"
    done = cli("learn-logs", ward / "log.csv", "--tau", 0.3, "--out", out, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout.splitlines()[-1])
    assert list(said) == KEYS
    assert list(said["behaviour"]) == ["cvar", "low", "high", "mean"]
    exact = cli("evaluate", out, ward / "model.csv", "--json")
    assert exact.exit_code == 0, exact.output
    true = json.loads(exact.stdout)["results"][0]
    assert true["tau"] == 0.3
    assert true["method"] == "exact"
    assert said["lower"] <= true["cvar"] <= said["upper"]
    judged = cli("evaluate", out, "--logs", ward / "later.csv", "--json")
    assert judged.exit_code == 0, judged.output
    found = json.loads(judged.stdout)["results"][0]
    assert found["lower"] <= true["cvar"] <= found["upper"]
    assert cli("evaluate", out, "--logs", ward / "later.csv").exit_code == 0
    page = cli("report", out, "-o", ward / "report.html")
    assert page.exit_code == 0, page.output
    assert "What the records support" in (ward / "report.html").read_text()
    again = cli("learn-logs", ward / "log.csv", "--tau", 0.3, "--out", out)
    assert again.exit_code == 0
    assert "improved" in again.stdout


def test_bad_input_writes_nothing(ward):
    frame = frame_of(small_mdp(), 20, 0)
    frame["probability"][4] = 0.0
    path, out = write(ward / "bad.csv", frame), ward / "bad"
    fails(cli("learn-logs", path, "--out", out), "line 6", "'probability'", "0.0")
    fails(cli("learn-logs", ward / "log.csv", "--horizon", 2, "--out", out), "line 4", "'step'")
    fails(cli("learn-logs", ward / "log.csv", "--column", "state", "--out", out), "--column")
    fails(cli("learn-logs", ward / "none.parquet", "--out", out), "no such file")
    fails(cli("learn-logs", ward / "log.csv", "--out", ward), "other files")
    assert not out.exists()


def spoiled(name, row, value):
    """A small log with one cell changed."""
    frame = {key: list(column) for key, column in frame_of(small_mdp(), 20, 0).items()}
    frame[name][row] = value
    return frame


BAD = {
    "no such column": ({"state": [0], "reward": [0]}, ("action",)),
    "no rows": ({name: [] for name in ("episode", "step", "state", "action", "reward")}, ("no rows",)),
    "text among numbers": (spoiled("reward", 5, "much"), ("line 7", "'reward'", "'much'")),
    "a name among numbers": (spoiled("state", 5, "ward"), ("line ", "'state'")),
    "half an action": (spoiled("action", 5, 0.5), ("line 7", "'action'", "0.5")),
    "not a number": (spoiled("reward", 5, "nan"), ("line 7", "'reward'")),
    "infinite": (spoiled("reward", 5, "-inf"), ("line 7", "'reward'")),
    "twice": (spoiled("step", 4, 0), ("line 6", "'step'", "twice")),
    "a gap": (spoiled("step", 5, 7), ("line 7", "'step'", "gap")),
    "probability 0": (spoiled("probability", 5, 0.0), ("line 7", "'probability'", "0.0")),
    "probability above 1": (spoiled("probability", 5, 1.5), ("line 7", "'probability'", "1.5")),
    "an empty cell": (spoiled("state", 5, ""), ("line 7", "'state'", "empty")),
}


@pytest.mark.parametrize("kind", BAD)
def test_every_bad_input_has_its_line(kind, tmp_path):
    frame, words = BAD[kind]
    fails(cli("learn-logs", write(tmp_path / "bad.csv", frame), "--out", tmp_path / "out"), "bad.csv", *words)
    assert not (tmp_path / "out").exists()


def test_evaluate_says_what_is_missing(ward):
    out = ward / "ward"
    assert cli("learn-logs", ward / "log.csv", "--out", out, "--quiet").exit_code == 0
    fails(cli("evaluate", out), "--logs")
    fails(cli("evaluate", out, "--logs", ward / "later.csv", "--episodes", 5), "--episodes")
    frame = frame_of(small_mdp(), 20, 0)
    frame["state"][7] = 12
    fails(cli("evaluate", out, "--logs", write(ward / "new.csv", frame)), "line 9", "'state'", "12")
    (out / "logs.json").write_text("{}")
    fails(cli("evaluate", out, ward / "model.csv"), "damaged")


def test_check_says_what_is_there(ward):
    done = cli("check", ward / "log.csv", "--json")
    said = json.loads(done.stdout)
    assert (said["kind"], said["errors"]) == ("log", 0)
    assert said["facts"]["episodes"] == 3000
    frame = frame_of(small_mdp(), 20, 0)
    frame["step"][4] = 9
    bad = cli("check", write(ward / "bad.csv", frame))
    assert bad.exit_code == 1
    assert "line 7, column 'step': step 2 follows step 0" in bad.stdout
    assert json.loads(cli("check", ward / "model.csv", "--json").stdout)["kind"] == "mdp"


def test_a_step_from_the_behaviour(tmp_path):
    """Without it there is a note that names the option; with it the plan is a policy that draws its actions."""
    path, out = write(tmp_path / "log.csv", wide(4000, 0)), tmp_path / "step"
    asked = ("learn-logs", path, "--tau", 0.5, "--dynamics", "same")
    assert "--fallback step returns it" in cli(*asked, "--out", tmp_path / "plan").stdout
    done = cli(*asked, "--fallback", "step", "--out", out)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("improved")
    assert "with more of what leads to more" in done.stdout
    assert "draws its actions" in cli("show", out).stdout
    judged = json.loads(cli("evaluate", out, "--logs", path, "--json").stdout)["results"][0]
    assert judged["matched"] == judged["episodes"]
    assert cli("report", out, "-o", tmp_path / "page.html").exit_code == 0
    assert "a step from the behaviour" in (tmp_path / "page.html").read_text()


def test_names_and_admissible_actions(ward):
    rows = ["patient,t,ward,dose,r,terminated", "p1,0,icu,low,0,false", "p1,1,home,low,1,true"]
    rows += [
        f"q{i},{h},{w},{d},{r},{e}"
        for i in range(30)
        for h, w, d, r, e in ((0, "icu", "high", 0, 0), (1, "icu", "low", 1, 1))
    ]
    (ward / "names.csv").write_text("\n".join(rows))
    done = cli(
        "learn-logs",
        ward / "names.csv",
        "--column",
        "state=ward",
        "--column",
        "action=dose",
        "--out",
        ward / "n",
        "--json",
    )
    assert done.exit_code == 0, done.output
    assert json.loads((ward / "n" / "logs.json").read_text())["result"]["episodes"] == 31


def test_clone_and_other_objectives_on_the_command_line(tmp_path):
    mdp = read_mdp("examples/models/machine.csv", horizon=10).mdp
    write(tmp_path / "log.csv", frame_of(mdp, 60, 0))
    out = tmp_path / "clone"
    done = cli("learn-logs", tmp_path / "log.csv", "--fallback", "behaviour", "--out", out, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "not improved"
    judged = cli("evaluate", out, "examples/models/machine.csv", "--json")
    assert judged.exit_code == 0, judged.output
    assert cli("show", out).exit_code == 0
    assert cli("evaluate", out, "--logs", tmp_path / "log.csv").exit_code == 0
    both = ("--objective", "mean-cvar", "--weight", 0.5, "--caution", "inf")
    done = cli("learn-logs", tmp_path / "log.csv", *both, "--out", tmp_path / "both", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["objective"] == "mean-cvar tau 0.1 weight 0.5"
    assert cli("report", tmp_path / "both", "-o", tmp_path / "page.html").exit_code == 0
    assert "mean-cvar tau 0.1 weight 0.5 of the plan" in (tmp_path / "page.html").read_text()
    fails(cli("learn-logs", tmp_path / "log.csv", "--objective", "var", "--out", tmp_path / "x"), "objective var")
    assert not (tmp_path / "x").exists()
