"""Configurations: the same after a file, and one line for every kind of bad value."""

from __future__ import annotations

import pytest

from tailrank.checks import InputError
from tailrank.runs.build import environment, iterations_for
from tailrank.runs.config import RunConfig
from tailrank.runs.job import Job

BASE = {"environment": "risky-lock", "iterations": 3}


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"settings": {"horizon": 4, "safe": 0.75, "odd key": 'a "quoted" \\ \x7f é\n'}, "tau": 1e-5},
        {"cap": 2, "log": "printed", "share": True, "stop_cvar": -0.5, "rank": 3, "model": "em"},
        {"environment": "x.csv", "horizon": 5, "start": "1:0.5,2:0.5", "imports": ["a", "b"], "discount": 0.9},
        {"algorithm": "ella", "planner": {"iterations": 10}},
    ],
)
def test_a_file_gives_the_same_back(values, tmp_path):
    config = RunConfig.from_dict(BASE | values)
    (tmp_path / "c.toml").write_text(config.toml(), encoding="utf-8")
    again = RunConfig.read(tmp_path / "c.toml")
    assert again == config
    assert again.checksum == config.checksum
    assert again.checksum != RunConfig.from_dict(BASE | values | {"seed": 9}).checksum


BAD = [
    ({"tau": 0}, "tau = 0"),
    ({"tau": 1.5}, "tau = 1.5"),
    ({"tau": "x"}, "tau = 'x'"),
    ({"tau": True}, "tau = True"),
    ({"iterations": 0}, "iterations = 0"),
    ({"iterations": 2.5}, "iterations = 2.5"),
    ({"iterations": None}, "given"),
    ({"rank": 0}, "rank = 0"),
    ({"rank": [1]}, "rank"),
    ({"alpha_scale": 0}, "alpha_scale = 0"),
    ({"lam_scale": -1}, "lam_scale = -1"),
    ({"alpha_scale": float("nan")}, "alpha_scale"),
    ({"cap": -1}, "cap = -1"),
    ({"cap": "correct"}, "did you mean 'corrected'"),
    ({"log": "print"}, "did you mean 'printed'"),
    ({"algorithm": "elaa"}, "algorithm = 'elaa'"),
    ({"model": "count"}, "did you mean 'counts'"),
    ({"collect": "none"}, "collect"),
    ({"output": "bets"}, "did you mean 'best'"),
    ({"batch": 0}, "batch = 0"),
    ({"share": "yes"}, "share = 'yes'"),
    ({"seed": -1}, "seed = -1"),
    ({"checkpoint_every": 0}, "checkpoint_every"),
    ({"stop_cvar": float("inf")}, "stop_cvar"),
    ({"settings": 3}, "settings = 3"),
    ({"imports": "os"}, "imports"),
    ({"imports": 3}, "imports"),
    ({"settings": {"a": {"b": 1}}}, "settings.a"),
    ({"upsilon": 0.1}, "upsilon"),
    ({"environment": "x.csv", "upsilon": 0}, "upsilon = 0"),
    ({"environment": "x.csv", "discount": 2}, "discount = 2"),
    ({"environment": "x.csv", "settings": {"a": 1}}, "settings"),
    ({"environment": ["x"]}, "environment"),
    ({"iteration": 3}, "did you mean 'iterations'"),
    ({"alphascale": 3}, "did you mean 'alpha_scale'"),
    ({"zzzz": 3}, "known are"),
    ({"planner": {"a": 1}}, "planner"),
    ({"output_episodes": 0}, "output_episodes"),
]


@pytest.mark.parametrize(("values", "words"), BAD, ids=[str(b[0]) for b in BAD])
def test_bad_values_are_one_line(values, words):
    with pytest.raises(InputError) as error:
        RunConfig.from_dict(BASE | values)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["tau = ", "iterations = 3\niterations = 4", "\xff", "taw = 1"])
def test_bad_files_are_named(text, tmp_path):
    (tmp_path / "c.toml").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=r"c\.toml: "):
        RunConfig.read(tmp_path / "c.toml")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model": "em", "rank": 4}, "rank = 4: must be at most the number of states"),
        ({"model": "em"}, "rank: must be given"),
        ({"algorithm": "ella", "planner": {"iteration": 3}}, "did you mean 'iterations'"),
        ({"model": "counts", "rank": 2}, "rank = 2"),
        ({"settings": {"horizn": 3}}, "did you mean 'horizon'"),
        ({"environment": "risky-shortcut", "model": "class"}, "no finite class"),
    ],
)
def test_what_does_not_fit_the_environment(values, words):
    with pytest.raises(InputError, match=words):
        Job.of(RunConfig.from_dict(BASE | values))


@pytest.mark.parametrize(
    ("values", "episodes", "iterations"),
    [({}, 20, 4), ({}, 21, 5), ({}, 1, 1), ({"collect": "episode", "batch": 3}, 7, 3), ({"batch": 2}, 20, 2)],
)
def test_episodes_become_iterations(values, episodes, iterations):
    config = RunConfig.from_dict(BASE | values)
    assert iterations_for(episodes, config, environment(config)) == iterations
