"""What a run says while it goes on."""

from __future__ import annotations

import io
import json
import re

import pytest
from click.testing import CliRunner
from rich.console import Console
from rich.progress import Progress, TextColumn

from tailrank.checks import InputError
from tailrank.cli import main
from tailrank.runs.progress import Bar, Plain, combine_reports, show_progress

LOCK = ["train", "risky-lock", "--set", "horizon=4", "--set", "n_states=12", "--iterations", "20"]
SPARSE = {"k": 1, "episodes": 30, "steps": 90}


def row(k, **more):
    return {"k": k, "episodes": 4 * k, "cvar": 0.5, "bonus": 0.25, "log_likelihood": -1.5} | more


class Clock:
    def __init__(self, each):
        self.now, self.each = 0.0, each

    def __call__(self):
        self.now += self.each
        return self.now


def test_plain_lines_come_every_tenth_of_a_fast_run():
    lines = []
    plain = Plain(lines.append, clock=Clock(0.001))
    for k in range(1, 201):
        plain(row(k), 200, 0.8)
    assert [line.split("  ")[0] for line in lines] == [f"{k}/200" for k in range(20, 201, 20)]
    assert lines[0].startswith("20/200  80 episodes  CVaR 0.5 of 0.8  bonus 0.25  log-likelihood -1.5  0:00:00 left")


def test_plain_lines_come_every_ten_seconds_of_a_slow_run():
    lines = []
    plain = Plain(lines.append, clock=Clock(3.0))
    for k in range(1, 21):
        plain(row(k), 1000, None)
    assert [int(line.split("/")[0]) for line in lines] == [4, 8, 12, 16, 20]
    # Every iteration takes 3 s.
    assert lines[-1].endswith("0:49:00 left")


def test_what_was_done_before_a_resume_does_not_count():
    lines = []
    plain = Plain(lines.append, clock=Clock(0.6))
    for k in range(51, 101):
        plain(row(k), 100, None)
    assert [int(line.split("/")[0]) for line in lines] == [61, 71, 81, 91, 100]
    assert lines[0].endswith("0:00:23 left")


def test_rows_without_a_cvar_keep_the_last_one():
    lines = []
    plain = Plain(lines.append, episodes=50, clock=Clock(20.0))
    plain(SPARSE, 1000, None)
    plain(SPARSE | {"k": 2, "cvar": 1.0, "cvar_low": 0.25, "cvar_high": 2.0}, 1000, None)
    plain(SPARSE | {"k": 3, "cvar": None, "episodes": 50}, 1000, 1.5)
    assert lines[0] == "30/50 episodes"
    assert "30/50 episodes  CVaR 1 (0.25 to 2)" in lines[1]
    assert lines[2] == "50/50 episodes  CVaR 1 (0.25 to 2) of 1.5"


def test_episodes_of_simulators_are_told_with_what_the_model_promises():
    lines = []
    plain = Plain(lines.append, episodes=50, clock=Clock(20.0))
    told = {"played": -42.5, "return": -7.25, "objective": -3.0, "model": "kernel of 10"}
    plain(SPARSE | told, 50, None)
    plain(SPARSE | told | {"k": 2, "episodes": 40, "objective": None}, 50, None)
    assert lines[0] == "30/50 episodes  played CVaR -42.5, mean -7.25  promised -3  kernel of 10"
    assert lines[1].startswith("40/50 episodes  played CVaR -42.5, mean -7.25  kernel of 10  0:00:")


@pytest.mark.parametrize("width", [50, 80, 140])
def test_the_line_on_a_terminal_fits(width, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")  # what calls itself dumb has 80 columns, whatever is asked for
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width)
    with Progress(TextColumn("{task.description}", markup=False), console=console) as bar:
        report = Bar(bar)
        report(SPARSE, 20, None)
        report(row(2, cvar_low=0.25, cvar_high=0.75), 20, 0.8)
        (task,) = bar.tasks
        assert task.description.startswith("2/20  8 episodes")
        assert len(task.description) <= width - 26
        assert task.completed == pytest.approx(0.1)
        assert ("CVaR 0.5 (0.25 to 0.75) of 0.8" in task.description) == (width >= 80)
        assert ("log-likelihood -1.5" in task.description) == (width >= 140)


def test_together_calls_all_that_are_there():
    calls = []
    both = combine_reports(None, lambda *a: calls.append(("a", *a)), lambda *a: calls.append(("b", *a)))
    both({"k": 1}, 2, None)
    assert calls == [("a", {"k": 1}, 2, None), ("b", {"k": 1}, 2, None)]
    assert combine_reports(None, None) is None


def test_a_run_does_not_end_with_its_terminal():
    shown, told = [], []

    def gone(*_):
        shown.append(1)
        raise BrokenPipeError

    both = combine_reports(gone, lambda row, *_: told.append(row["k"]))
    for k in range(3):
        both({"k": k}, 3, None)
    assert (shown, told) == ([1], [0, 1, 2])


def test_modes():
    with show_progress("auto") as report:
        assert report is None
    with pytest.raises(InputError, match="did you mean 'plain'"), show_progress("plian"):
        pass


def test_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    silent = CliRunner().invoke(main, [*LOCK, "--out", "a"])
    assert (silent.exit_code, silent.stderr) == (0, "")
    plain = CliRunner().invoke(main, [*LOCK, "--out", "b", "--progress", "plain", "--json"])
    lines = [line for line in plain.stderr.splitlines() if "note" not in line]
    assert 10 <= len(lines) <= 11
    assert all(re.match(r"\d+/20  \d+ episodes", line) for line in lines)
    assert lines[-1].startswith("20/20  80 episodes  CVaR")
    assert json.loads(plain.stdout)["iterations"] == 20
    quiet = CliRunner().invoke(main, [*LOCK, "--out", "c", "--progress", "plain", "--quiet", "--json"])
    assert quiet.stderr == ""
    assert (tmp_path / "a" / "rows.jsonl").read_bytes() == (tmp_path / "b" / "rows.jsonl").read_bytes()
    bad = CliRunner().invoke(main, [*LOCK, "--out", "d", "--progress", "pln"])
    assert bad.exit_code == 2
    assert "did you mean 'plain'" in bad.stderr
