"""Extensions in a package of one's own, through the command line: the blocks of docs/howto/extend.md that add a row.

A section of the page is one kind of extension. `USES` says which commands must work with it and must fail without it;
a new kind is a section with a block after `<!-- extension -->`, and a row here.
"""

from __future__ import annotations

import importlib
import re
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from command import cli
from made_runs import LOCK, final, learning, write_run
from tailrank import FiniteMDP, save, write_mdp
from tailrank.envs.mdp_files.formats import FORMATS
from tailrank.envs.registry import ENVIRONMENTS
from tailrank.learning.oracles.choices import MODELS
from tailrank.models.grid import BudgetGrid
from tailrank.planning.criteria.registry import CRITERIA
from tailrank.policies.decoders.registry import DECODERS
from tailrank.policies.observed import ObservationPolicy, ObservedPlan
from tailrank.risk.over_runs.intervals import CENTRES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "extend.md"
REGISTRIES = (CRITERIA, MODELS, ENVIRONMENTS, FORMATS, DECODERS, CENTRES)
OWN = [dict(registry) for registry in REGISTRIES]
BLOCK = re.compile(r"<!-- extension -->\n```python\n(.*?)```", re.S)
USES = {
    "A planner": ["solve model.json --criterion worst --import extension"],
    "A risk measure": ["solve model.json --objective extension:Capped --parameter cap=2 --import extension"],
    "An oracle": ["train risky-lock --horizon 4 --model smoothed --iterations 2 --out r"],
    "A learner": [
        "train risky-lock --horizon 4 --iterations 2 --algorithm extension:VisitELA --planner weight=0.1 "
        "--import extension --out r"
    ],
    "An environment": ["train two-coins --iterations 5 --out r"],
    "A file format": ["export model.json model.tsv", "solve model.tsv --horizon 2 --tau 0.5"],
    "A statistic over seeds": ["plot runs/0 runs/1 runs/2 --center midrange -o x.png"],
    "A decoder": ["show threshold.policy"],
}


def sections():
    parts = re.split(r"^## (.*)$", PAGE.read_text(), flags=re.M)
    return {name: "".join(BLOCK.findall(text)) for name, text in zip(parts[1::2], parts[2::2]) if BLOCK.search(text)}


@pytest.fixture
def extension(tmp_path, monkeypatch):
    """A package with all blocks in a folder that is looked at for packages; its rows are gone afterwards."""
    (tmp_path / "extension.py").write_text("\n".join(sections().values()))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield
    take_away()


def take_away():
    """The registries without the extension, which is imported anew the next time."""
    sys.modules.pop("extension", None)
    for registry, rows in zip(REGISTRIES, OWN):
        registry.clear()
        registry.update(rows)


def test_every_section_is_tried():
    assert set(sections()) == set(USES)


@pytest.mark.parametrize("kind", USES)
def test_extensions_through_the_command_line(kind, extension):
    prepare()
    take_away()
    for line in USES[kind]:
        first = () if "--import extension" in line else ("--import", "extension")
        result = cli(*first, *line.split())
        assert result.exit_code == 0, result.output
    take_away()
    Path("extension.py").unlink()
    importlib.invalidate_caches()
    assert cli(*USES[kind][-1].replace("--import extension", "").replace("--out r", "--out s").split()).exit_code == 2


def prepare():
    """A model, runs of three seeds, and a policy whose decoder only the extension knows."""
    write_mdp(FiniteMDP.from_rows([0, 0], [0, 1], [0, 0], [1, 1], [1, 2], horizon=2), "model.json")
    for seed in range(3):
        cvars = np.linspace(0.1 * seed, 0.7, 5)
        write_run(Path("runs") / str(seed), learning(cvars), final(0.7), seed=seed, settings=LOCK)
    threshold = importlib.import_module("extension").Threshold(np.array([0.5]))
    tables = (np.arange(8.0).reshape(2, 2, 2), np.arange(8.0).reshape(2, 2, 2))
    plan = ObservedPlan(tables, 1, 1.0, np.array([0.0, 1.0]))
    grid = BudgetGrid(Fraction(1), (Fraction(0),) * 2, "exact")
    base, moves = np.full((1, 2), 0.5), np.full((1, 2, 2, 2), 0.5)
    save(ObservationPolicy(threshold, plan, grid, base, moves), "threshold.policy")


def test_a_package_that_is_not_there_is_one_line():
    result = cli("--import", "no_such_package", "list")
    assert result.exit_code == 2
    assert "no_such_package" in result.stderr
    assert len(result.stderr.splitlines()) == 1
