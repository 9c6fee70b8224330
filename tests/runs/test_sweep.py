"""Sweeps: what a file expands to, what is refused, what is skipped, resumed and reported."""

from __future__ import annotations

import io
import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from tailrank.checks import InputError
from tailrank.cli import main
from tailrank.runs import folder as files
from tailrank.runs.progress import line
from tailrank.runs.run import Interrupted, run
from tailrank.runs.sweeps import sweep as sweeps
from tailrank.runs.sweeps._worker import work
from tailrank.runs.sweeps.file import expand, read_sweep
from tailrank.runs.sweeps.progress import SweepBar
from tailrank.runs.sweeps.sweep import RECORD, SweepState, look, run_sweep

SMALL = """
tau = [0.1, 1]
seeds = 2
iterations = 6
checkpoint_every = 2
output_episodes = 20
environment = "risky-shortcut"
"""
EVERYTHING = """
tau = [0.05, 0.5]
seeds = {first = 10, count = 2}
iterations = 30
lam_scale = 0.5

[grid]
alpha_scale = [0.01, 1e-5]

[[environment]]
name = "lock"
environment = "risky-lock"
settings = {horizon = 4}
grid.settings.n_states = [12, 30]
seeded = true

[[environment]]
environment = "decoy"
iterations = 7

[[algorithm]]
algorithm = "ela"
lam_scale = 0.25

[[algorithm]]
name = "ella-5"
algorithm = "ella"
planner.iterations = 5
tau = 0.5
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def runs(text):
    return list(expand(tomllib.loads(text)))


def cli(*arguments):
    return CliRunner().invoke(main, ["sweep", *arguments])


def wrote(text=SMALL):
    Path("s.toml").write_text(text)
    return read_sweep("s.toml")


# Expansion


def test_every_combination_is_there_once():
    found = {planned.name: planned for planned in runs(EVERYTHING)}
    # lock: 2 grids of 2; ela has 2 taus and ella one; 2 seeds.
    assert len(found) == len(runs(EVERYTHING)) == (2 * 2 + 2) * (2 + 1) * 2
    planned = found["lock_ela_tau0.05_alpha_scale0.01_n_states30_seed11"]
    config = planned.config
    assert (config.environment.name, config.algorithm, config.tau, config.seed) == ("risky-lock", "ela", 0.05, 11)
    given = config.learner.settings
    assert (given["alpha_scale"], given["lam_scale"], config.iterations) == (0.01, 0.25, 30)
    assert config.environment.settings == {"horizon": 4, "n_states": 30, "seed": 11}
    assert planned.labels == {
        "environment": "lock",
        "algorithm": "ela",
        "tau": 0.05,
        "alpha_scale": 0.01,
        "settings.n_states": 30,
        "seed": 11,
    }
    config = found["decoy_ella-5_tau0.5_alpha_scale1e-05_seed10"].config
    assert config.learner.settings == {"iterations": 5, "lam_scale": 0.5, "alpha_scale": 1e-05, "tau": 0.5}
    assert (config.iterations, config.environment.settings) == (7, {})


def test_seeds_and_short_forms():
    short = 'environment = ["risky-shortcut", "decoy"]\niterations = 3\n'
    assert [planned.name for planned in runs(short)] == ["risky-shortcut_ela_tau0.1_seed0", "decoy_ela_tau0.1_seed0"]
    for seeds, expected in (("3", [0, 1, 2]), ("[5, 2]", [5, 2]), ("{count = 2}", [0, 1])):
        assert [planned.config.seed for planned in runs(f"seeds = {seeds}\n{short}")][: len(expected)] == expected
    assert {planned.config.algorithm for planned in runs(f'algorithm = ["ela", "ella"]\n{short}')} == {"ela", "ella"}


def test_episodes_become_the_iterations_that_play_them():
    lock = 'episodes = 41\n[[environment]]\nenvironment = "risky-lock"\nsettings.horizon = 4\ngrid.batch = [1, 3]\n'
    assert [planned.config.iterations for planned in runs(lock)] == [11, 4]
    (planned,) = runs('environment = "rich-lock"\nepisodes = 50\n')
    assert (planned.config.iterations, planned.config.run.episodes) == (50, 50)


def test_names_stay_when_the_sweep_grows():
    before = {planned.name: planned.config for planned in runs(EVERYTHING)}
    grown = EVERYTHING.replace("[0.05, 0.5]", "[1, 0.5, 0.05]").replace("count = 2", "count = 5")
    grown = grown.replace("[0.01, 1e-5]", "[0.5, 0.01, 1e-5]").replace("[12, 30]", "[3, 12, 30]")
    grown += '[[algorithm]]\nname = "more"\nalgorithm = "ela"\n[[environment]]\nenvironment = "risky-shortcut"\n'
    after = {planned.name: planned.config for planned in runs(grown)}
    assert len(after) > 2 * len(before)
    assert {name: after[name] for name in before} == before
    ways = ("batch = [1, 2]\ncap = [0.5]\n", "cap = [0.5]\nbatch = [2, 1]\n")
    assert len({frozenset(planned.name for planned in runs(f"{BASE}[grid]\n{way}")) for way in ways}) == 1


BASE = 'environment = "risky-lock"\niterations = 5\n'
BAD = [
    ("", ["environment: must be given"]),
    (BASE.replace("iterations", "iteration"), ["iteration", "did you mean 'iterations'"]),
    (BASE.replace("iterations = 5", ""), ["risky-lock, ela: iterations: must be given"]),
    (BASE + "seed = 3", ["seed: is no setting here", "did you mean 'seeds'"]),
    (BASE + "seeds = 0", ["seeds = 0"]),
    (BASE + "seeds = []", ["seeds = []"]),
    (BASE + "seeds = [-1]", ["seeds = -1"]),
    (BASE + "seeds = {first = 3}", ["first and count"]),
    (BASE + "tau = []", ["tau = []"]),
    (BASE + "tau = [0.1, 2]", ["risky-lock, ela", "tau = 2"]),
    (BASE + "tau = [0.1, 0.1]", ["two runs", "risky-lock_ela_tau0.1_seed0"]),
    (BASE + 'algorithm = ["ela", "elle"]', ["risky-lock, elle", "did you mean"]),
    (BASE + "algorithm = 3", ["algorithm = 3"]),
    (BASE + "[grid]\nbatsh = [1]", ["grid.batsh", "did you mean 'batch'"]),
    (BASE + "[grid]\ntau = [1]", ["grid.tau"]),
    (BASE + "[grid]\nbatch = 1", ["grid.batch = 1", "list"]),
    (BASE + "batch = 2\n[grid]\nbatch = [1]", ["batch: stands in the grid and outside"]),
    (BASE + "[grid]\nsettings = [1]", ["grid.settings", "table"]),
    (BASE + "settings = 3", ["settings = 3"]),
    (BASE + "[settings]\nhorizn = 3", ["horizn", "did you mean 'horizon'"]),
    (BASE + "seeded = 1", ["seeded = 1"]),
    (BASE + "seeded = true\n[settings]\nseed = 3", ["seeded and settings.seed"]),
    (BASE + "episodes = 5", ["iterations and episodes"]),
    (BASE + "planner.iterations = 3", ["planner"]),
    (BASE + "out = 3", ["out = 3"]),
    (BASE.replace("lock", "lok"), ["risky-lok", "did you mean risky-lock"]),
    (BASE + '[[algorithm]]\nalgorithm = "ela"\nenvironment = "decoy"', ["[[algorithm]] 1: environment: is no setting"]),
    (BASE + '[[algorithm]]\nname = "a"', ["[[algorithm]] 1: algorithm = None"]),
    (BASE + '[[algorithm]]\nalgorithm = "ela"\nname = "a/b"', ["name = 'a/b'"]),
    (BASE + '[[algorithm]]\nalgorithm = "ela"\n[[algorithm]]\nalgorithm = "ela"\nbatch = 2', ["two runs", "a name"]),
    ("iterations = 5\n[[environment]]\nsettings.horizon = 3", ["[[environment]] 1: environment = None"]),
    ("tau = ", ["not a TOML file"]),
]


@pytest.mark.parametrize(("text", "words"), BAD, ids=range(len(BAD)))
def test_bad_files_are_one_line_and_leave_nothing(text, words):
    Path("s.toml").write_text(text)
    result = cli("s.toml", "--backend", "serial")
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert len(result.stderr.splitlines()) == 1
    for word in ("s.toml", *words):
        assert word in result.stderr
    assert [path.name for path in Path().iterdir()] == ["s.toml"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["none.toml"], "none.toml"),
        (["s.toml", "--backend", "proceses"], "did you mean 'processes'"),
        (["s.toml", "--workers", "0"], "workers = 0"),
        (["s.toml", "--workers", "2", "--backend", "serial"], "workers: is for"),
        (["s.toml", "--workers", "2", "--scheduler", "tcp://127.0.0.1:1"], "workers: is for"),
        (["s.toml", "--scheduler", "tcp://127.0.0.1:1", "--backend", "serial"], "scheduler: is for"),
    ],
)
def test_bad_options(arguments, word):
    wrote()
    result = cli(*arguments)
    assert result.exit_code == 2
    assert word in result.stderr
    assert not Path("runs").exists()


# Runs


def test_a_run_of_a_sweep_is_a_run():
    sweep = wrote()
    outcome = run_sweep(sweep, backend="serial")
    assert (outcome.before, outcome.failed) == (0, {})
    for planned in sweep.runs:
        folder, alone = sweep.out / planned.name, Path("alone") / planned.name
        assert run(planned.config, alone)["cvar"] == outcome.states[planned.name].cvar
        assert {path.name for path in folder.iterdir()} == {path.name for path in alone.iterdir()}
        for name in ("rows.jsonl", "plan.safetensors", "config.toml"):
            assert (folder / name).read_bytes() == (alone / name).read_bytes()


def test_finished_runs_are_not_touched_and_half_done_ones_go_on():
    sweep = wrote()
    whole = run_sweep(replace(sweep, out=Path("whole")), backend="serial")
    first, second, third, _ = sweep.runs
    run(first.config, sweep.out / first.name)

    def stop(row, iterations, star):
        if row["k"] == 3:
            raise Interrupted("stop", 2)

    with pytest.raises(Interrupted):
        run(second.config, sweep.out / second.name, progress=stop)
    (sweep.out / third.name).mkdir()
    (sweep.out / third.name / files.CONFIG).write_text(third.config.toml())  # killed before its first manifest
    listed = cli("s.toml", "--dry-run").stdout.splitlines()
    assert [text.split()[0] for text in listed] == ["finished", "begun", "begun", "new"]
    assert listed[1].endswith(" 3/6")
    times = {path: path.stat().st_mtime_ns for path in (sweep.out / first.name).iterdir()}
    outcome = run_sweep(sweep, backend="serial")
    assert {path: path.stat().st_mtime_ns for path in (sweep.out / first.name).iterdir()} == times
    assert outcome.before == 1
    assert {name: state.cvar for name, state in outcome.states.items()} == {
        name: state.cvar for name, state in whole.states.items()
    }
    for planned in sweep.runs:
        for name in ("rows.jsonl", "plan.safetensors"):
            assert (sweep.out / planned.name / name).read_bytes() == (Path("whole") / planned.name / name).read_bytes()
    assert (sweep.out / RECORD).read_bytes() == (Path("whole") / RECORD).read_bytes()
    assert run_sweep(sweep, backend="serial").before == 4


@pytest.mark.parametrize("backend", ["serial", "processes"])
def test_a_failing_run_does_not_stop_the_others(backend):
    text = SMALL.replace("tau = [0.1, 1]", "").replace('environment = "risky-shortcut"', "")
    text += '[[environment]]\nenvironment = "risky-shortcut"\n[[environment]]\nenvironment = "decoy"\n'
    text += '[[algorithm]]\nalgorithm = "ela"\nmodel = "class"\n'  # which risky-shortcut does not have
    wrote(text)
    result = cli("s.toml", "--backend", backend, "--json")
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)
    assert (found["runs"], found["finished"], found["before"]) == (4, 2, 0)
    assert set(found["failed"]) == {"risky-shortcut_ela_tau0.1_seed0", "risky-shortcut_ela_tau0.1_seed1"}
    lines = [text for text in result.stderr.splitlines() if text.startswith("tailrank: failed: risky-shortcut_ela")]
    assert len(lines) == 2
    record = json.loads(Path("runs/s", RECORD).read_text())["runs"]
    assert [about["status"] for about in record] == ["failed", "failed", "finished", "finished"]
    assert "class" in record[0]["error"]
    again = cli("s.toml", "--backend", backend, "--json")
    assert (again.exit_code, json.loads(again.stdout)["before"]) == (1, 2)


def test_a_folder_with_another_run_is_named():
    run_sweep(wrote(), backend="serial")
    wrote(SMALL.replace("iterations = 6", "iterations = 8"))
    result = cli("s.toml")
    assert result.exit_code == 2
    assert "runs/s/risky-shortcut_ela_tau0.1_seed0: holds another run (iterations = 6, here 8)" in result.stderr
    assert cli("s.toml", "--dry-run").exit_code == 2


def test_only_one_sweep_in_a_folder():
    sweep = wrote()
    sweep.out.mkdir(parents=True)
    with files.lock_folder(sweep.out), pytest.raises(InputError, match="in use"):
        run_sweep(sweep, backend="serial")


def test_a_run_that_another_worker_has_is_waited_for():
    planned = wrote().runs[0]
    folder, looks = Path("runs/s").resolve() / planned.name, []
    folder.mkdir(parents=True)
    held = files.lock_folder(folder)
    held.__enter__()

    def check():
        looks.append(1)
        if len(looks) == 2:
            held.__exit__(None, None, None)

    assert work(planned.config.tables(), str(folder), check)["status"] == "finished"
    # Two looks at a locked folder, then one after each iteration.
    assert len(looks) == 2 + planned.config.iterations
    assert look(planned, Path("runs/s")).status == "finished"


def test_a_run_that_another_worker_finished_in_between_is_taken(monkeypatch):
    from tailrank.runs.sweeps import _worker

    planned = wrote().runs[0]

    def slow(config, folder, **_):
        run(config, folder)  # the other worker
        return run(config, folder)

    monkeypatch.setattr(_worker, "run", slow)
    assert work(planned.config.tables(), str(Path("r").resolve()))["status"] == "finished"


def test_what_a_worker_gets_and_gives_is_plain():
    planned = runs(EVERYTHING)[0]
    values = json.loads(json.dumps(planned.config.tables()))
    answer = work(values | {"learner": {"tau": 7}}, "r")
    assert answer == {"status": "failed", "error": answer["error"], "notes": []}
    assert answer["error"].startswith("tau = 7: ")
    assert type(planned.config).from_dict(values) == planned.config


# What is said


def test_summary_and_quiet_progress():
    wrote()
    result = cli("s.toml", "--backend", "serial")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "runs/s: 4 runs, 4 finished now, 0 failed\n"
    assert cli("s.toml").stdout == "runs/s: 4 runs, 0 finished now, 4 before, 0 failed\n"
    assert set(cli("s.toml", "--dry-run", "--out", "other").stdout.split()[::2]) == {"new"}
    assert not Path("other").exists()
    assert json.loads(cli("s.toml", "--dry-run", "--json").stdout)["runs"][0] == {
        "name": "risky-shortcut_ela_tau0.1_seed0",
        "status": "finished",
    }


@pytest.mark.parametrize("width", [60, 160])
def test_the_line_on_a_terminal(width):
    sweep = wrote()
    a, b, c, d = (planned.name for planned in sweep.runs)
    with line(Console(file=io.StringIO(), force_terminal=True, width=width, height=25)) as bar:
        shown = SweepBar(bar, sweep)
        states = {
            a: SweepState("finished"),
            b: SweepState("failed"),
            c: SweepState("begun", row={"k": 3, "episodes": 15}),
            d: SweepState(),
        }
        shown(states, "")
        (task,) = bar.tasks
        assert task.completed == pytest.approx(2.5)
        assert task.description.startswith("1/4 runs, 1 failed")
        assert (f"{c} 3/6" in task.description) == (width == 160)
        assert len(task.description) <= width - 26
        shown(states, "stopping")
        assert task.description == "stopping  1/4 runs, 1 failed"


def test_rows_are_watched(monkeypatch):
    monkeypatch.setattr(sweeps, "OFTEN", 0.0)
    monkeypatch.setattr(sweeps, "SHARE", math.inf)
    seen = []
    sweep = wrote()
    run_sweep(sweep, backend="serial", watch=lambda states, said: seen.append(dict(states)))
    for planned in sweep.runs:
        rows = [states[planned.name].row.get("k", 0) for states in seen if states[planned.name].status == "begun"]
        assert rows == list(range(1, 7))
