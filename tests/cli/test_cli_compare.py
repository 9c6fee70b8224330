"""`tailrank compare` on the command line, on runs that were run."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

import command
from made_runs import LOCK, final, learning, write_run
from tailrank.runs.config import RunConfig
from tailrank.runs.run import run

PICTURES = ("episodes_first", "episodes_stay", "regret", "profile", "improvement")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    top = tmp_path_factory.mktemp("runs")
    for collect in ("rollins", "printed"):
        for seed in range(3):
            config = RunConfig.of(
                "risky-lock", iterations=8, seed=seed, settings=LOCK, collect=collect, output_episodes=50
            )
            run(config, top / collect / str(seed))
    return top


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def cli(*arguments):
    return command.cli("compare", *arguments)


def test_text(runs):
    result = cli(runs)
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert "risky-lock, tau = 0.1: CVaR* = 0.8" in text
    assert "Episodes to within 5% of CVaR*" in text
    assert "collect = printed" in text
    assert "note: intervals over fewer than 10 runs are too narrow (3 here)" in text
    assert "…" not in text
    assert "\x1b" not in text
    assert list(Path().iterdir()) == []


def test_numbers_are_those_of_the_rows(runs):
    result = cli(runs, "--json", "--within", 0.1, "--at", 20)
    data = json.loads(result.stdout)
    assert "note: intervals over fewer than 10" in result.stderr
    for cell in data["tasks"][0]["cells"]:
        collect = cell["settings"].get("collect", "rollins")
        for made in cell["runs"]:
            lines = (runs / collect / str(made["seed"]) / "rows.jsonl").read_text().splitlines()
            rows = [json.loads(line) for line in lines]
            there = [row["episodes"] for row in rows if row["cvar"] >= 0.9 * 0.8 - 1e-9]
            assert made["first"] == (there[0] if there else rows[-1]["episodes"])
            assert made["first_reached"] == bool(there)
            assert made["last_cvar"] == [row["cvar"] for row in rows if row["episodes"] <= 20][-1]
            each = rows[0]["episodes"]
            assert made["regret"] == pytest.approx(each * rows[20 // each - 1]["regret"])


def test_everything_is_written(runs):
    result = cli(runs, "--out", "out", "--csv", "table.csv", "--baseline", "Collect = printed")
    assert result.exit_code == 0, result.output
    assert {path.stem for path in Path("out").glob("*.svg")} == set(PICTURES)
    assert Path("out/summary.csv").read_text() == Path("table.csv").read_text()
    assert len(list(csv.DictReader(Path("out/runs.csv").read_text().splitlines()))) == 6
    assert json.loads(Path("out/comparison.json").read_text())["configurations"]
    page = Path("out/index.html").read_text()
    assert page.count("<svg") == len(PICTURES)
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    assert not re.search(r"<script|\son\w+=|\sstyle=|https?:|<style[^>]*>.*<style", page, re.S)
    again = cli(runs, "--out", "out", "--format", "pdf")
    assert again.exit_code == 0
    assert Path("out/regret.pdf").read_bytes().startswith(b"%PDF")


def test_text_of_files_stays_text(tmp_path):
    nasty = '<img src=x onerror=alert(1)>{{a}}{policy}"\x07[bold]'
    for seed in range(3):
        for algorithm in ("ela", "ella"):
            folder = tmp_path / f"{algorithm}{seed}"
            curve = [0.1, 0.8] if algorithm == "ela" else [0.1, 0.1]
            write_run(folder, learning(curve), final(0.8), seed=seed, algorithm=algorithm, environment=nasty)
    result = cli(tmp_path, "--out", "out", "--label", nasty, "--label", "$a_b^{$")
    assert result.exit_code == 0, result.output
    assert "[bold]" in result.stdout
    page = Path("out/index.html").read_text()
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;{{a}}{policy}" in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere: must be the folder of a run"),
        (["RUNS", "--baseline", "elo"], "baseline = 'elo': must be one of"),
        (["RUNS", "--within", "2"], "within = 2"),
        (["RUNS", "--csv", "no/t.csv"], "--csv no/t.csv: must be a file in a folder that exists"),
        (["RUNS", "--out", "RUNS/rollins/0"], "not that of a run"),
        (["RUNS", "--format", "png"], "--format png: is for the pictures in --out"),
        (["RUNS", "--out", "o", "--format", "gif"], "format = 'gif'"),
        (["RUNS", "--at", "999"], "at = 999"),
        ([], "RUNS"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(runs, arguments, words):
    result = cli(*(str(one).replace("RUNS", str(runs)) for one in arguments))
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr
    assert list(Path().iterdir()) == []
