"""Table, plot and page show the same interval for the same runs."""

from __future__ import annotations

import numpy as np
import pytest

from made_runs import LOCK, final, learning, write_run
from tailrank.comparison.compare import compare
from tailrank.comparison.groups import group_runs, read
from tailrank.plots import _lines, style
from tailrank.report._learning import curves


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two configurations, so that numbers could depend on what else is shown; seven runs of each."""
    top = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(5)
    for tau in (0.1, 0.2):
        for seed in range(7):
            cvars = np.sort(rng.exponential(0.2, size=9)).clip(0, 0.8)
            write_run(
                top / f"{tau}-{seed}",
                learning(cvars, each=1),
                final(float(cvars[-1])),
                settings=LOCK,
                seed=seed,
                tau=tau,
            )
    return top


@pytest.mark.parametrize("column", ["regret", "cvar"])
def test_the_three_agree(folder, column):
    runs = read(sorted(folder.iterdir()))
    page = curves(runs)["groups"]
    plots = [_lines.curve(group, column, "episodes", "mean", style.generator(None)) for group in group_runs(runs, ())]
    tables = [cell for task in compare(folder).tasks for cell in task.cells]
    assert len(page) == len(plots) == len(tables) == 2
    for group, line, cell in zip(page, plots, tables, strict=True):
        table = cell.regret if column == "regret" else cell.last
        numbers = (table.value, table.low, table.high)
        assert numbers[1] < numbers[0] < numbers[2]
        assert (line.y[-1], line.low[-1], line.high[-1]) == pytest.approx(numbers, rel=1e-12)
        shown = [group["mean"][column][name][-1] for name in ("mean", "low", "high")]
        assert shown == pytest.approx(numbers, rel=1e-12)
