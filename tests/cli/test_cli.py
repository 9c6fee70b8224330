"""The command line: what it prints, and one line with exit code 2 for every kind of bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tailrank
from command import TAILRANK, cli, fails

HEADER = "state,action,next_state,probability,reward\n"
GOOD = HEADER + "0,0,0,1,1\n0,1,0,0.9,2\n0,1,0,0.1,-5\n"
IRRATIONAL = HEADER + "0,0,0,1,0.1415926535\n0,1,0,0.9,2.7182818284\n0,1,0,0.1,-5.5772156649\n"


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model.csv").write_text(GOOD)
    Path("rough.csv").write_text(IRRATIONAL)
    return tmp_path


# What it prints


def test_no_arguments_says_what_to_do_next():
    result = cli()
    assert result.exit_code == 0
    assert result.stdout.count("\n  tailrank ") == 7


@pytest.mark.parametrize("command", ["", "solve", "import", "export", "evaluate", "show"])
def test_help(command):
    result = cli(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_version():
    assert tailrank.__version__ in cli("--version").stdout


def test_json_is_one_object_with_the_numbers(model):
    result = cli("solve", "model.csv", "--horizon", "1", "--tau", "0.2", "--tau", "1", "--json")
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert set(data) == {
        "status",
        "criterion",
        "states",
        "actions",
        "horizon",
        "discount",
        "seconds",
        "results",
        "notes",
    }
    assert (data["status"], data["criterion"]) == ("exact", "cvar")
    assert (data["states"], data["actions"], data["horizon"]) == (1, 2, 1)
    first, second = data["results"]
    assert set(first) == {
        "tau",
        "objective",
        "value",
        "cvar",
        "lower",
        "upper",
        "budget",
        "var",
        "mean",
        "risk_neutral",
    }
    assert first["tau"] == 0.2
    assert first["cvar"] == pytest.approx(1.0)
    assert first["risk_neutral"] == pytest.approx({"mean": 1.3, "cvar": -1.5})
    assert second["cvar"] == pytest.approx(1.3)
    assert data["seconds"] > 0


def test_notes_are_in_the_object_and_on_stderr(model):
    result = cli("solve", "model.csv", "--horizon", "1", "--json")
    assert json.loads(result.stdout)["notes"] == [
        line.removeprefix("tailrank: note: ") for line in result.stderr.splitlines()
    ]
    quiet = cli("solve", "model.csv", "--horizon", "1", "--json", "--quiet")
    assert quiet.stderr == ""


def test_a_limit_that_was_reached_is_a_note(model):
    result = cli("solve", "rough.csv", "--horizon", "30", "--tolerance", "1e-9", "--seconds", "0.2", "--json")
    data = json.loads(result.stdout)
    assert data["status"] == "bracketed"
    assert data["results"][0]["lower"] < data["results"][0]["upper"]
    assert any("time limit" in line for line in data["notes"])
    assert sum("time limit" in line for line in result.stderr.splitlines()) == 1


def test_frontier_in_json(model):
    pieces = json.loads(cli("solve", "model.csv", "--horizon", "2", "--json", "--frontier").stdout)["frontier"]
    assert pieces[0]["tau_from"] == 0
    assert pieces[-1]["tau_to"] == 1
    assert [p["tau_to"] for p in pieces[:-1]] == [p["tau_from"] for p in pieces[1:]]


def test_table_for_people(model):
    result = cli("solve", "model.csv", "--horizon", "1", "--tau", "0.2", "--frontier")
    assert result.exit_code == 0
    assert "exact:" in result.stdout
    assert "risk-neutral" in result.stdout
    assert "█" in result.stdout
    assert "\x1b" not in result.stdout
    assert result.stderr == ""


def test_bracketed_is_said(model):
    assert "bracketed:" in cli("solve", "rough.csv", "--horizon", "20", "--tolerance", "5%").stdout


def test_plain_letters_where_the_terminal_has_no_others(model):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*TAILRANK, "solve", "model.csv", "--horizon", "1"], capture_output=True, env=environment, check=True
    )
    text = done.stdout.decode("ascii")
    assert "#" in text
    assert "\\u" not in text


@pytest.mark.parametrize("criterion", ["mean", "iterated", "chow"])
def test_other_criteria(model, criterion):
    data = json.loads(cli("solve", "model.csv", "--horizon", "2", "--criterion", criterion, "--json").stdout)
    assert data["criterion"] == criterion
    assert "claim" in data["results"][0]
    assert data["results"][0]["cvar"] <= data["results"][0]["upper"] + 1e-9


def test_import_says_what_was_read(model):
    text = cli("import", "model.csv", "--horizon", "3").stdout
    for word in ("states", "rows", "-5"):
        assert word in text
    data = json.loads(cli("import", "model.csv", "--horizon", "3", "--json").stdout)
    assert (data["states"], data["actions"], data["rows"], data["reward_min"]) == (1, 2, 3, -5.0)


@pytest.mark.parametrize("target", ["out.json", "out.npz", "out.csv", "out.json.gz"])
def test_export_and_read_again(model, target):
    # An .npz file has one reward for each (state, action, next state).
    Path("model.csv").write_text(GOOD.replace("0,1,0,0.1,-5", "0,1,1,0.1,-5"))
    assert cli("export", "model.csv", target, "--horizon", "3").exit_code == 0
    extra = ["--horizon", "3"] if "csv" in target else []
    before = json.loads(cli("solve", "model.csv", "--horizon", "3", "--json").stdout)["results"]
    after = json.loads(cli("solve", target, *extra, "--json").stdout)["results"]
    assert after == before


def test_save_evaluate_show(model):
    solved = cli("solve", "model.csv", "--horizon", "3", "--save", "plan.policy", "--json")
    cvar = json.loads(solved.stdout)["results"][0]["cvar"]
    exact = json.loads(cli("evaluate", "plan.policy", "model.csv", "--horizon", "3", "--json").stdout)
    assert exact["results"][0]["cvar"] == pytest.approx(cvar)
    assert exact["results"][0]["method"] == "exact"
    play = ["evaluate", "plan.policy", "model.csv", "--horizon", "3", "--episodes", "2000", "--seed", "3", "--json"]
    played, again = (json.loads(cli(*play).stdout)["results"][0] for _ in range(2))
    assert played == again
    assert played["lower"] <= cvar <= played["upper"]
    assert played["episodes"] == 2000
    assert "interval" in cli(*play[:-1]).stdout
    text = cli("show", "plan.policy").stdout
    assert "remaining budget" in text
    assert "more rows" in cli("show", "plan.policy", "--rows", "1").stdout


@pytest.mark.parametrize("criterion", ["mean", "iterated", "chow"])
def test_show_every_kind_of_policy(model, criterion):
    saved = cli("solve", "model.csv", "--horizon", "2", "--criterion", criterion, "--save", "p", "--quiet")
    assert saved.exit_code == 0, saved.output
    assert "action" in cli("show", "p").stdout


# What it refuses


def test_a_bad_file_is_one_line(model):
    for name, text, words in (
        ("sum.csv", GOOD.replace("0.9", "0.8"), ("state 0", "action 1", "sum to 0.9")),
        ("negative.csv", GOOD.replace("0.9", "-0.9"), ("probability = -0.9", "line 3")),
        ("nan.csv", GOOD.replace("0.9", "nan"), ("probability", "nan")),
        ("reward.csv", GOOD.replace("-5", "nan"), ("reward", "nan")),
        ("infinite.csv", GOOD.replace("-5", "inf"), ("reward", "inf")),
        ("empty.csv", "", ("empty.csv",)),
        ("column.csv", GOOD.replace("probability", "chance?"), ("probability",)),
        ("broken.json", '{"rows": [', ("broken.json",)),
    ):
        Path(name).write_text(text)
        fails(cli("solve", name, "--horizon", "2", "--save", "out.policy"), *words)
        assert not Path("out.policy").exists()


def test_a_sum_that_is_wrong_at_one_step_names_the_step(model):
    rows = ["step,state,action,next_state,probability,reward", "0,0,0,0,1,1", "1,0,0,0,0.5,1", "2,0,0,0,1,1"]
    Path("steps.csv").write_text("\n".join(rows))
    fails(cli("solve", "steps.csv"), "step 1", "state 0", "action 0", "0.5")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tau", "0"], ("tau = 0", "(0, 1]")),
        (["--tau", "1.5"], ("tau = 1.5",)),
        (["--tau", "-0.1"], ("tau = -0.1",)),
        (["--tau", "nan"], ("tau", "finite")),
        (["--tau", "much"], ("--tau", "much")),
        (["--start", "7"], ("7",)),
        (["--start", "0:0.5"], ("0.5",)),
        (["--horizon", "0"], ("horizon = 0", "at least 1")),
        (["--horizon", "-3"], ("horizon = -3",)),
        (["--horizon", "few"], ("--horizon",)),
        (["--discount", "0"], ("discount = 0",)),
        (["--discount", "1.01"], ("discount = 1.01", "(0, 1]")),
        (["--index-base", "1"], ("0", "1")),
        (["--index-base", "2"], ("--index-base",)),
        (["--axis-order", "state-first"], ("npz",)),
        (["--criterion", "cvra"], ("did you mean 'cvar'",)),
        (["--tolerance", "0"], ("tolerance = 0",)),
        (["--tolerance", "x%"], ("tolerance",)),
        (["--unit", "-1"], ("unit = -1",)),
        (["--memory", "lots"], ("memory",)),
        (["--memory", "0"], ("memory = 0",)),
        (["--seconds", "nan"], ("seconds",)),
        (["--save", "no/such/folder/p"], ("--save", "folder")),
        (["--horizn", "3"], ("--horizn", "--horizon")),
        (["--tau", "0.1", "--tau", "0.2", "--save", "p"], ("--save",)),
        (["surplus"], ("surplus",)),
    ],
)
def test_a_bad_option_is_one_line(model, arguments, words):
    horizon = [] if "--horizon" in arguments else ["--horizon", "2"]
    fails(cli("solve", "model.csv", *horizon, *arguments), *words)
    assert sorted(p.name for p in model.iterdir()) == ["model.csv", "rough.csv"]


def test_horizon_must_be_given(model):
    fails(cli("solve", "model.csv"), "--horizon")


def test_a_grid_that_does_not_fit_says_what_it_needs(model):
    result = cli("solve", "rough.csv", "--horizon", "5", "--unit", "1e-9", "--memory", "1MB")
    fails(result, "GB", "--memory", "--unit")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("CartPole-v1", ("CartPole-v1",)),
        ("NoSuchLake-v1", ("NoSuchLake",)),
        ("missing.csv", ("missing.csv", "no such file")),
        ("model.txt", ("model.txt",)),
        ("", ()),
    ],
)
def test_a_source_that_is_none(model, source, words):
    fails(cli("solve", source, "--horizon", "5"), *words)


def test_an_unknown_command_suggests_the_nearest():
    fails(cli("slove", "model.csv"), "'slove'", "did you mean 'solve'")
    fails(cli("--nonsense"), "--nonsense")


def test_a_policy_must_fit_the_mdp(model):
    cli("solve", "model.csv", "--horizon", "3", "--save", "plan.policy")
    fails(cli("evaluate", "plan.policy", "model.csv", "--horizon", "2"), "3 steps", "2 steps")
    fails(cli("evaluate", "model.csv", "model.csv", "--horizon", "3"), "model.csv")
    fails(cli("evaluate", "nowhere", "model.csv", "--horizon", "3"), "nowhere")
    good = ["evaluate", "plan.policy", "model.csv", "--horizon", "3"]
    fails(cli(*good, "--tau", "2"), "tau = 2")
    fails(cli(*good, "--episodes", "0"), "episodes")
    fails(cli(*good, "--episodes", "5", "--seed", "-1"), "seed")
    fails(cli("show", "plan.policy", "--step", "9"), "step = 9")


def test_export_refuses_unknown_types_and_folders(model):
    fails(cli("export", "model.csv", "out.xls", "--horizon", "2"), "out.xls")
    fails(cli("export", "model.csv", "no/out.csv", "--horizon", "2"), "no/out.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(model):
    Path("model.csv").chmod(0)
    fails(cli("solve", "model.csv", "--horizon", "2"), "model.csv")


def test_out_of_memory_is_one_line(model, monkeypatch):
    import tailrank.envs

    def full(*_, **__):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr(tailrank.envs, "read_mdp", full)
    fails(cli("solve", "model.csv", "--horizon", "2"), "out of memory", "7 TiB", "lower --memory")
    result = cli("export", "model.csv", "a.json", "--horizon", "2")
    fails(result, "out of memory")
    assert "--memory" not in result.stderr, "only solve has that option"


def test_a_library_that_cannot_be_loaded_is_one_line(model, monkeypatch):
    import tailrank.envs

    def full(*_, **__):
        raise ImportError("libblas.so: failed to map segment from shared object", name="_fblas")

    monkeypatch.setattr(tailrank.envs, "read_mdp", full)
    fails(cli("solve", "model.csv", "--horizon", "2"), "_fblas: cannot be imported", "failed to map segment")


def test_an_interrupt_is_one_line(model, monkeypatch):
    import tailrank.envs

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(tailrank.envs, "read_mdp", stop)
    fails(cli("solve", "model.csv", "--horizon", "2"), "interrupted", code=130)


# In a process of its own


def test_processes_never_show_a_traceback(model):
    done = subprocess.run([*TAILRANK, "solve", "none.csv"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "tailrank: error: none.csv: there is no such file\n"
    assert done.stdout == ""


def test_a_closed_pipe_is_no_error(model):
    command = f'"{sys.executable}" -c "from tailrank.cli import main; main()" solve --help | true'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""


SAID_WHEN_BEGUN = """
import os
from tailrank.cli import main
from tailrank.planning.exact import induction
def said(*given, begin=induction.induct, **more):
    os.write(1, b"begun\\n")
    return begin(*given, **more)
induction.induct = said
main()
"""


def test_a_real_interrupt(model):
    command = [sys.executable, "-c", SAID_WHEN_BEGUN, "solve", "rough.csv", "--horizon", "500"]
    command += ["--tolerance", "1e-12", "--seconds", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "begun\n"
            time.sleep(1)  # any moment will do
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 130, (out, err)
    assert err == "tailrank: error: interrupted\n"
