"""Text from files, wherever it is shown: it stands there as it is and does nothing, on a page or on a terminal."""

from __future__ import annotations

import csv
import io
import json
import os

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

from made_runs import final, learning, write_run
from tailrank import FiniteMDP, save, solve
from tailrank.checks import printable
from tailrank.cli import main
from tailrank.comparison.export import _csv

TAG = '<img src=x onerror="window.harm=1"><script>window.harm=2<!script>'
ODD = "\x1b[2J\x1b]0;own\x07\x9b31m\u202e[red]x[/red][link=file:///x]y[/link]:smile: $\\frac{$ %s {0}"
CELL = "=HYPERLINK(1)"


@pytest.fixture
def top(tmp_path):
    """Two configurations of two runs each, with odd text wherever a run can have it."""
    for algorithm in ("ela", "ella"):
        for seed in range(2):
            folder = tmp_path / "top" / f"{algorithm}{seed}{TAG}{ODD.replace('/', '!')}"
            rows = learning([0.1, 0.3 + 0.1 * seed, 0.7])
            rows[0] |= {"method": TAG, "k": 1, TAG: ODD}
            write_run(folder, rows, final(0.7) | {"returned": TAG, "why": ODD}, seed=seed, algorithm=algorithm)
            with (folder / "config.toml").open("a") as file:
                file.write(f"\n[planner]\n{json.dumps(TAG)} = {json.dumps(ODD)}\n")
            about = json.loads((folder / "manifest.json").read_text())
            about |= {"notes": [TAG, ODD, f"misspecified {TAG}{ODD}"], "status": f"{TAG}{ODD}", "error": TAG + ODD}
            about |= {"versions": {TAG: ODD}, "python": TAG, "environment": TAG}
            (folder / "manifest.json").write_text(json.dumps(about))
            save_file({"returns": np.linspace(0, 1, 50)}, folder / "evaluation.safetensors")
    return tmp_path / "top"


def call(*arguments, code=0):
    """The output of a command, of printable lines only."""
    done = CliRunner().invoke(main, [str(x) for x in arguments], color=True, env={"FORCE_COLOR": None})
    assert done.exit_code == code, done.output
    for line in done.output.split("\n"):
        assert line.isprintable(), line
    return done.output


def test_a_report_of_odd_runs(top, tmp_path, visit):
    runs = sorted(top.iterdir())
    said = call("report", *runs, "-o", tmp_path / "r.html")
    assert "\\x1b[2J" in said
    assert "[red]x[/red]" in said
    page = visit(tmp_path / "r.html")
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    text = page.evaluate("document.body.textContent")
    for part in (TAG, "[red]x[/red]", "$\\frac{$", "%s {0}"):
        assert part in text
    assert page.evaluate("window.harm === undefined && document.images.length === 0")
    assert page.errors == []
    assert page.requests == [(tmp_path / "r.html").as_uri()]


def test_a_comparison_of_odd_runs(top, tmp_path, visit):
    said = call("compare", top, "-o", tmp_path / "c", "--label", TAG, "--label", ODD)
    assert printable(ODD[:8]) in said
    page = visit(tmp_path / "c" / "index.html")
    text = page.evaluate("document.body.textContent")
    for part in (TAG, "[red]x[/red]", "$\\frac{$", "%s {0}"):
        assert part in text
    assert page.evaluate("window.harm === undefined && document.images.length === 0")
    assert (
        page.locator("meta[http-equiv=Content-Security-Policy]")
        .get_attribute("content")
        .startswith("default-src 'none'")
    )
    assert page.locator("svg").count() > 0
    assert page.errors == []
    assert page.requests == [(tmp_path / "c" / "index.html").as_uri()]


def test_a_folder_whose_name_is_no_text(top, tmp_path):
    first = sorted(top.iterdir())[0]
    os.rename(os.fsencode(first), os.fsencode(top) + b"/\xff\xfe")
    call("compare", top, "-o", tmp_path / "c")
    call(
        "report",
        *(os.fsdecode(x) for x in os.listdir(top) if False),
        *sorted(top.iterdir())[:1],
        "-o",
        tmp_path / "r.html",
    )


def test_cells_of_a_spreadsheet_are_no_formulas():
    written = _csv(("a", "b"), [{"a": CELL, "b": -1.5}, {"a": "@x", "b": 2}, {"a": "x=1", "b": None}])
    assert list(csv.reader(io.StringIO(written)))[1:] == [["'=HYPERLINK(1)", "-1.5"], ["'@x", "2"], ["x=1", ""]]


def test_a_policy_with_odd_names(tmp_path):
    mdp = FiniteMDP.from_rows([0, 0], [0, 1], [0, 0], [1, 1], [1, 2], horizon=2)
    save(solve(mdp, tau=0.5), tmp_path / "p", info={"states": [TAG + ODD], "actions": [ODD, ODD]})
    said = call("show", tmp_path / "p")
    assert printable(ODD)[:20] in said


def test_errors_with_odd_names(tmp_path):
    odd = tmp_path / ODD.replace("/", "!")
    for arguments in (
        ("show", odd),
        ("import", f"{odd}.csv"),
        ("solve", f"{ODD}.json"),
        ("evaluate", odd, odd),
        ("report", ODD),
        ("train", ODD, "--iterations", "1"),
        ("train", "--resume", odd),
        ("sweep", odd),
        ("compare", odd),
        ("plot", odd, "-o", tmp_path / "p.png"),
        ("solve", "FrozenLake-v1", "--criterion", ODD),
        (ODD,),
        ("solve", f"--{ODD}"),
    ):
        assert "\\x1b" in call(*arguments, code=2)
    (tmp_path / "m.csv").write_text(f"state,action,next_state,probability,{ODD}\n0,0,0,1,1\n")
    assert "\\x1b" in call("import", tmp_path / "m.csv", code=2)
