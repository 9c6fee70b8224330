"""`tailrank plot` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import command
from made_runs import final, learning, write_run
from tailrank import read_mdp, save, solve

MODELS = Path(__file__).resolve().parents[2] / "examples" / "models"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        write_run(tmp_path / f"r{seed}", learning([0.1 * seed, 0.4, 0.8]), final(0.8), seed=seed)


def cli(*arguments):
    return command.cli("plot", *arguments)


@pytest.mark.parametrize("what", ["regret", "cvar", "profile"])
def test_runs(what):
    result = cli("r0", "r1", "r2", "--what", what, "-o", "f.pdf")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"f.pdf: {what}, ")
    assert Path("f.pdf").read_bytes().startswith(b"%PDF")


def test_defaults():
    assert cli("r0", "r1").stdout.startswith("figure.png: cvar, ")
    assert cli(MODELS / "counter_example.json", "--tau", 0.5).stdout.startswith("figure.png: distribution, ")
    assert cli("r0", "--by", "iterations", "--center", "median", "--log", "x", "--label", "ours").exit_code == 0


def test_a_policy_and_its_mdp():
    save(solve(read_mdp(MODELS / "counter_example.json").mdp, tau=0.5), "a.policy")
    for what in ("distribution", "frontier"):
        assert cli("a.policy", MODELS / "counter_example.json", "--what", what, "-o", "f.svg").exit_code == 0
        assert Path("f.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["r0", "--what", "regert"], "did you mean 'regret'"),
        (["r0", "-o", "f.jpg"], ".png, .svg, .pdf"),
        (["r0", "-o", "no/f.png"], "folder that exists"),
        (["r0", "--what", "profile", "--by", "episodes"], "--by: is for regret and cvar"),
        (["r0", "--baseline", "1"], "--baseline: is for profile"),
        (["m.json", "--what", "regret"], "m.json: is no folder of a run"),
        (["nowhere"], "nowhere"),
        (["r0", "--size", "0"], "width = 0"),
        ([], "RUN"),
    ],
)
def test_bad_input_is_one_line_and_no_figure(arguments, words):
    result = cli(*arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr
    assert not [p for p in Path().iterdir() if p.suffix in (".png", ".svg", ".pdf")]
