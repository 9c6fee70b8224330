"""`tailrank report` and `tailrank serve` on the command line."""

from __future__ import annotations

import shutil
import socket

import pytest
from report_cases import MODELS, simulator_run

from command import cli, fails
from tailrank import read_mdp, save, solve


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_model_is_solved(tmp_path):
    result = cli("report", MODELS / "machine.csv", "--horizon", "8", "--start", "2", "--tau", "0.2")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("report.html: ")
    assert "kB, open it in a browser\nnote: states are numbered from 1" in result.stdout
    text = (tmp_path / "report.html").read_text()
    assert "The policy with the best CVaR at tau = 0.2" in text


def test_a_policy_and_its_model(tmp_path):
    assert cli("solve", MODELS / "counter_example.json", "--tau", "0.5", "--save", "a.policy").exit_code == 0
    assert cli("report", "a.policy", MODELS / "counter_example.json", "-o", "b.html").exit_code == 0
    text = (tmp_path / "b.html").read_text()
    assert "The policy saved in a.policy" in text
    assert '"tau":0.5' in text
    fails(cli("report", "a.policy"), "a.policy: is a policy; give the MDP")
    fails(cli("report", "a.policy", MODELS / "betting.json"), "policy: is for 2 steps and 4 states")
    assert cli("solve", MODELS / "counter_example.json", "--criterion", "chow", "--save", "c.policy").exit_code == 0
    fails(cli("report", "c.policy", MODELS / "betting.json"), "was made for another MDP than betting")


@pytest.mark.parametrize("info", [{"plan": True}, {"plan": ["tau"]}, {"plan": {"tau": None}}, {"states": 3, "x": [1]}])
def test_a_policy_with_odd_remarks(info):
    plan = solve(read_mdp(MODELS / "counter_example.json").mdp, tau=0.5)
    save(plan.policy, "a.policy", info=info)
    for arguments in (["report", "a.policy", MODELS / "counter_example.json"], ["show", "a.policy"]):
        result = cli(*arguments)
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize("tau", ["often", [0.1], 2.0, True])
def test_a_policy_with_an_odd_tau(tau):
    plan = solve(read_mdp(MODELS / "counter_example.json").mdp, tau=0.5)
    save(plan.policy, "a.policy", info={"tau": tau, "plan": True})
    result = cli("report", "a.policy", MODELS / "counter_example.json")
    if tau is True:
        assert result.exit_code == 0
    else:
        fails(result, "tau = ")


@pytest.mark.parametrize(
    "line", ["x = 1979-05-27", "seed = 07:32:00", "tau = 1979-05-27T07:32:00Z", "alpha_scale = [1979-05-27]"]
)
@pytest.mark.parametrize("command", ["report", "compare", "plot"])
def test_a_date_in_a_configuration(runs, tmp_path, line, command):
    folder = tmp_path / "dated"
    shutil.copytree(runs[0], folder)
    config = folder / "config.toml"
    name = line.split()[0]
    rest = [row for row in config.read_text().splitlines() if not row.startswith(f"{name} =")]
    config.write_text("\n".join([line, *rest]) + "\n")
    result = cli(command, folder, *(["-o", "x.png"] if command == "plot" else []))
    assert result.exit_code in (0, 2), result.output
    assert isinstance(result.exception, SystemExit | None), result.exception


def test_runs(runs, tmp_path):
    result = cli("report", *runs, "-o", "runs.html")
    assert result.exit_code == 0, result.output
    assert "Learned by ELA, 3 runs" in (tmp_path / "runs.html").read_text()
    fails(cli("report", runs[0], MODELS / "betting.json"), "betting.json: is no folder of a run")
    fails(cli("report", runs[0], "--tau", "0.3"), "tau: a run has its own")
    result = cli("report", simulator_run(tmp_path / "s"))
    assert "note: The fit of the model did not converge in 1 of 30 iterations." in result.stdout


def test_bad_requests(tmp_path):
    fails(cli("report"), "Missing argument 'SOURCE...'")
    fails(cli("report", "nothing.json"), "nothing.json: there is no such file")
    fails(cli("report", "FrozenLake-v1", "Taxi-v3"), "Taxi-v3: a report is of one MDP")
    fails(cli("report", MODELS / "betting.json", "-o", "no/where.html"), "--out no/where.html: must be a file")
    fails(cli("report", MODELS / "betting.json", "--tau", "0"), "tau = 0")
    fails(cli("report", MODELS / "betting.json", "--seed", "-1"), "seed = -1")
    (tmp_path / "empty").mkdir()
    fails(cli("report", "empty"), "empty: holds no run")
    assert not (tmp_path / "report.html").exists()


def test_serve_needs_something_to_show_and_a_free_port(runs):
    fails(cli("serve"), "SOURCE: must be given, as there is no run in runs/")
    fails(cli("serve", "--port", "70000"), "70000")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        fails(cli("serve", runs[0], "--port", taken.getsockname()[1]), "cannot be used", "0 for any")
