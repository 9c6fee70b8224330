"""The first minute: what the Tab key offers, and what a misspelt word may have meant."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import shell_complete

from command import cli, fails
from tailrank.cli import NEXT, main
from tailrank.cli.names import VARIABLE, near_names
from tailrank.envs import ENVIRONMENTS, SIMULATORS


@pytest.fixture
def offers(monkeypatch, capsys):
    """What a shell is told for a text that is being typed."""

    def ask(text, shell="bash"):
        words = ["tailrank", *text.split(" ")]
        monkeypatch.setenv("COMP_WORDS", " ".join(words))
        monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words) - 1))
        assert shell_complete(main, {}, "tailrank", VARIABLE, f"{shell}_complete") == 0
        said = capsys.readouterr()
        assert said.err == ""
        return said.out

    return ask


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("so", ["plain,solve"]),
        ("train ri", ["plain,risky-lock", "plain,risky-shortcut", "plain,rich-lock"]),
        ("train --algorithm ell", ["plain,ella"]),
        ("train --log-to w", ["plain,wandb"]),
        ("train --out x", ["dir,x"]),
        ("train --config x", ["file,x"]),
        ("plot --what f", ["plain,frontier"]),
        ("solve mod", ["file,mod"]),
        ("train --tau ", [""]),
    ],
)
def test_the_tab_key(text, expected, offers):
    assert sorted(offers(text).strip().split("\n")) == sorted(expected)


def test_other_shells(offers):
    assert offers("so", "zsh").split("\n")[:2] == ["plain", "solve"]
    assert offers("so", "fish").startswith("plain,solve")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(shell):
    result = cli("--show-completion", shell)
    assert result.exit_code == 0
    assert f"_TAILRANK_COMPLETE={shell}_complete" in result.stdout
    assert cli("--show-completion", "ksh").exit_code != 0


def test_bash_completes_with_the_script_it_was_given():
    bash, here = shutil.which("bash"), Path(sys.executable).parent
    if bash is None or not (here / "tailrank").exists():
        pytest.skip("needs bash and an installed tailrank")
    script = """
    eval "$(tailrank --show-completion bash)"
    COMP_WORDS=(tailrank so) COMP_CWORD=1
    _tailrank_completion tailrank so tailrank
    echo "${COMPREPLY[@]}"
    """
    environment = os.environ | {"PATH": f"{here}:{os.environ['PATH']}"}
    done = subprocess.run([bash, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["solve"]


def test_no_arguments_names_commands_that_are_there():
    text = cli().stdout
    assert text == NEXT
    for line in text.splitlines():
        if line.startswith("  tailrank "):
            assert line.split()[1] in main.commands
    for word in ("solve", "train", "report", "evaluate", "check"):
        assert f"  tailrank {word} " in text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "rsky-lock"], ["did you mean risky-lock"]),
        (["train", "Risky_Lock"], ["did you mean risky-lock"]),
        (["train", "richlock"], ["did you mean rich-lock"]),
        (["train", "cartpol-v1"], ["did you mean CartPole-v1"]),
        (["train", "FrozenLake"], ["FrozenLake-v1"]),
        (["train", "qqqqqq"], ["is neither a file", "--import"]),
        (["train", "risky-lock", "--model", "conuts"], ["did you mean 'counts'"]),
        (["train", "risky-lock", "--modle", "counts"], ["--model"]),
        (["train", "risky-lock", "--set", "horizn=3"], ["did you mean 'horizon'"]),
        (["plot", "rsky-lock"], ["did you mean risky-lock"]),
        (["report", "rsky-lock"], ["did you mean risky-lock"]),
        (["report", "rich-lock"], ["tailrank train rich-lock"]),
        (["solve", "rsky-lock"], ["did you mean risky-lock"]),
        (["import", "FrozenLke-v1"], ["did you mean FrozenLake-v1"]),
        (["polt"], ["did you mean 'plot'"]),
        (["solve", "risky-lock"], ["tailrank train risky-lock"]),
    ],
)
def test_near_names(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    more = ["--iterations", "3"] if arguments[0] == "train" else []
    fails(cli(*arguments, *more), *words)
    assert "qqqqqq" not in arguments or "did you mean" not in cli(*arguments, *more).stderr
    assert list(tmp_path.iterdir()) == []


def test_errors_of_sources_that_are_known_stay_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("m.csv").write_text("state,action\n")
    fails(cli("train", "m.csv", "--iterations", "3"), "m.csv")
    fails(cli("train", "none.csv", "--iterations", "3"), "no such file")
    fails(cli("train", "no_such_package:X-v0", "--iterations", "3"), "no_such_package")


def test_an_import_that_fails_is_said_before_the_source_is_called_unknown(monkeypatch):
    fails(
        cli("solve", "X-v0", "--import", "nowhere", "--tau", "0.1"), "import nowhere: failed with ModuleNotFoundError"
    )
    monkeypatch.setitem(sys.modules, "icu_sepsis", None)
    result = cli("solve", "Sepsis/ICU-Sepsis-v2", "--import", "icu_sepsis", "--tau", "0.1")
    fails(result, "import icu_sepsis: failed", "pip install 'tailrank[envs]'")


def test_names_are_compared_whatever_their_case():
    names = [*ENVIRONMENTS, *SIMULATORS]
    assert near_names("RISKY-LOCK", names)[0] == "risky-lock"
    assert near_names("zzzz", names) == []
