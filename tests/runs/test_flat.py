"""Runs as 0.1 wrote them, in one flat table: they are read as before, and go on to the same bits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tailrank.checks import InputError
from tailrank.comparison.compare import compare
from tailrank.report.sources import of_runs
from tailrank.runs.config import RunConfig, read_toml
from tailrank.runs.flat import flat_of, is_flat, tables_of, without_defaults
from tailrank.runs.read import Run
from tailrank.runs.run import resume, run

OLD = Path(__file__).resolve().parents[1] / "data" / "runs_0_1"
"""Three runs that 0.1 was stopped in after three of five iterations."""
NAMES = ("ela", "bins", "rich")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_0_1_goes_on_to_the_same_rows(name, tmp_path):
    """To rounding: the rows before the stop are those of another processor, whose sums have other last bits."""
    shutil.copytree(OLD / name, tmp_path / "old")
    assert is_flat(read_toml(OLD / name / "config.toml"))
    resume(tmp_path / "old")
    run(RunConfig.read(OLD / name / "config.toml"), tmp_path / "new")
    assert not is_flat(read_toml(tmp_path / "new" / "config.toml"))
    assert RunConfig.read(tmp_path / "new" / "config.toml") == RunConfig.read(OLD / name / "config.toml")
    old, new = ([json.loads(line) for line in (tmp_path / run / "rows.jsonl").open()] for run in ("old", "new"))
    assert len(old) == len(new)
    for mine, fresh in zip(old, new):
        assert list(mine) == list(fresh)
        for key, value in fresh.items():
            near = pytest.approx(value, rel=1e-12, abs=1e-15) if isinstance(value, float) else value
            assert mine[key] == near, key
    resume(tmp_path / "old")  # it is finished, and still the same run


def test_what_0_1_wrote_for_all_learners_is_not_a_setting_of_each():
    values = read_toml(OLD / "bins" / "config.toml")
    assert values["batch"] == 1
    learner = RunConfig.read(OLD / "bins" / "config.toml").make_learner()
    assert (learner.batch, learner.projections) == (10, "all")
    given, shown = tables_of(without_defaults(values))
    assert given["learner"] == {"algorithm": "bins", "tau": 0.1, "batch": 10, "projections": "all"}
    assert shown == {"batch": "planner.batch", "projections": "planner.projections"}


def test_readers_see_no_setting_that_the_learner_does_not_have():
    shown = flat_of({"environment": {"name": "CartPole-v1"}, "learner": {"algorithm": "auto", "tau": 0.2}, "run": {}})
    assert shown == {"environment": "CartPole-v1", "algorithm": "auto", "tau": 0.2}


def test_readers_see_both_kinds_alike(tmp_path):
    run(RunConfig.read(OLD / "ela" / "config.toml"), tmp_path / "new")
    old, new = Run.read(OLD / "ela"), Run.read(tmp_path / "new")
    assert old.kind == new.kind
    assert flat_of(read_toml(tmp_path / "new" / "config.toml"))["settings"] == old.config["settings"]
    with pytest.raises(InputError, match="has the configuration and the seed of another run"):
        compare([OLD / "ela", tmp_path / "new"])
    assert of_runs([OLD / "ela"]).warnings == ("The run is not finished (failed): Stop:.",)
