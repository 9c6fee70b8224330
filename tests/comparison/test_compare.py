"""Comparisons of runs that were never run: every number is known beforehand."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from scipy import stats

from made_runs import final, learning, write_run
from tailrank.checks import InputError
from tailrank.comparison import compare
from tailrank.comparison.export import as_dict, runs_csv, summary_csv
from tailrank.comparison.tables import of_task, over_all
from tailrank.risk.over_runs.intervals import share_interval
from tailrank.risk.over_runs.survival import Waits, log_rank, median_time

STAR = 0.8
REACHED = {
    # Seed: CVaR after 4, 8, .., 24 episodes. Within 5% is 0.76.
    "ela": [[0.1, 0.8, 0.8, 0.8, 0.8, 0.8], [0.1, 0.2, 0.77, 0.5, 0.8, 0.8], [0, 0, 0.76, 0.8, 0.8, 0.8]],
    "ella": [[0, 0, 0, 0, 0, 0.8], [0, 0.1, 0.2, 0.3, 0.4, 0.5], [0.8, 0.8, 0.8, 0.8, 0.8, 0.1]],
}
FIRST = {"ela": ([8, 12, 12], [1, 1, 1]), "ella": ([24, 24, 4], [1, 0, 1])}
STAY = {"ela": ([8, 20, 12], [1, 1, 1]), "ella": ([24, 24, 24], [1, 0, 0])}


def waits(times, events):
    return Waits(np.array(times, dtype=float), np.array(events) == 1)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    top = tmp_path_factory.mktemp("sweep")
    for algorithm, curves in REACHED.items():
        for seed, curve in enumerate(curves):
            result = final(curve[-1], STAR) | {"seconds": 2.0 + seed, "episodes": 24}
            write_run(top / "a" / f"{algorithm}{seed}", learning(curve, STAR), result, seed=seed, algorithm=algorithm)
    (top / ".hidden").mkdir()
    write_run(top / ".hidden" / "x", learning([0.0]), seed=7)
    (top / "notes.txt").write_text("not a run")
    return top


@pytest.fixture(scope="module")
def found(made):
    return compare(made)


def cell_of(found, name, task=0):
    return next(c for c in found.tasks[task].cells if found.methods[c.method] == name)


@pytest.mark.parametrize(("name", "reading"), [(n, r) for n in ("ELA", "ELLA") for r in ("first", "stay")])
def test_episodes_to_the_best(found, name, reading):
    times, events = {"first": FIRST, "stay": STAY}[reading][name.lower()]
    cell = getattr(cell_of(found, name), reading)
    assert cell.waits.time.tolist() == times
    assert cell.waits.event.tolist() == [e == 1 for e in events]
    assert cell.solved == share_interval(sum(events), 3, 0.95)
    assert cell.median == median_time(waits(times, events), 0.95)
    # Some run of ELLA ends after 24 episodes without it: means are up to there.
    assert cell.until == 24
    assert cell.mean.value == pytest.approx(np.mean(times))


def test_the_log_rank_test_is_between_the_two(found):
    (test,) = found.tasks[0].tests
    for got, times in ((test.first, FIRST), (test.stay, STAY)):
        assert got == log_rank(waits(*times["ela"]), waits(*times["ella"]), np.random.default_rng(0))
    assert test.adjusted == pytest.approx(test.first.p)
    assert [found.methods[i] for i in test.pair] == ["ELA", "ELLA"]


def test_final_plans_scores_and_time(found):
    for name in ("ELA", "ELLA"):
        last = [curve[-1] for curve in REACHED[name.lower()]]
        cell = cell_of(found, name)
        assert cell.last.value == cell.returned.value == pytest.approx(np.mean(last))
        assert cell.scores == pytest.approx(np.array(last) / STAR)
        assert cell.score.value == pytest.approx(np.mean(last) / STAR)
        assert cell.seconds.value == pytest.approx(3.0)
        assert cell.rate.value == pytest.approx(np.mean([12, 8, 6]))
        assert cell.last.low <= cell.last.value <= cell.last.high
        (over,) = (one for one in found.overall if found.methods[one.method] == name)
        assert over.iqm.value == pytest.approx(stats.trim_mean(cell.scores, 0.25))
        assert over.above[1].value == pytest.approx(np.mean(cell.scores > 0.95))
        assert over.profile.y == pytest.approx([(cell.scores > x + 1e-9).mean() for x in over.profile.x])
    (pair,) = found.pairs
    x, y = (cell_of(found, name).scores.round(9) for name in ("ELA", "ELLA"))
    assert pair.improvement.value == pytest.approx(stats.mannwhitneyu(x, y).statistic / 9)


def test_plans_that_differ_by_rounding_are_ties(tmp_path):
    for seed in range(3):
        for algorithm, more in (("ela", 0.0), ("ella", 1e-13)):
            folder = tmp_path / f"{algorithm}{seed}"
            write_run(folder, learning([0.5]), final(0.7 + more), seed=seed, algorithm=algorithm)
    assert compare(tmp_path).pairs[0].improvement.value == 0.5


def test_regret_counts_episodes(tmp_path):
    # The same plans after the same episodes, four episodes an iteration or one: the same regret.
    curve = [0.0, 0.4, 0.8]
    rows = learning(np.repeat(curve, 4), STAR, each=1)
    write_run(tmp_path / "one", rows, final(0.8, STAR), collect="episode")
    write_run(tmp_path / "two", learning(curve, STAR, each=4), final(0.8, STAR), collect="printed")
    found = compare(tmp_path)
    assert [c.regret.value for c in found.tasks[0].cells] == pytest.approx([4 * (0.8 + 0.4)] * 2)
    assert rows[-1]["regret"] == pytest.approx(4 * (0.8 + 0.4))
    assert found.tasks[0].at == 12
    half = compare(tmp_path, at=6)
    assert [c.regret.value for c in half.tasks[0].cells] == pytest.approx([4 * 0.8 + 2 * 0.4] * 2)
    assert [c.last.value for c in half.tasks[0].cells] == pytest.approx([0.4, 0.0])
    with pytest.raises(InputError, match=r"at = 13: .* has plans after .* to 12 episodes only"):
        compare(tmp_path, at=13)


def test_runs_of_other_lengths_meet_where_the_first_ends(tmp_path):
    for seed, n in enumerate((3, 5, 6)):
        write_run(
            tmp_path / f"r{seed}",
            learning([0.1 * k for k in range(n)], STAR),
            final(0.7, STAR),
            seed=seed,
            iterations=9,
        )
    found = compare(tmp_path)
    assert found.tasks[0].at == 12
    cell = found.tasks[0].cells[0]
    assert cell.last.value == pytest.approx(0.2)
    assert cell.first.waits.time.tolist() == [12, 20, 24]
    assert not cell.first.waits.event.any()
    (note,) = (line for line in found.notes if "episodes" in line and "compared at" in line)
    assert "runs end after 12 to 24 episodes" in note
    assert "r0" in note


def test_a_run_that_goes_on_counts_in_the_times_only(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"r{seed}", learning([0.1, 0.8, 0.8], STAR), final(0.8, STAR), seed=seed)
    write_run(tmp_path / "r3", learning([0.1], STAR), status="running", seed=3, iterations=3)
    write_run(tmp_path / "r4", [], status="running", seed=4, iterations=3)
    found = compare(tmp_path)
    cell = found.tasks[0].cells[0]
    assert found.tasks[0].at == 12
    assert cell.first.waits.time.tolist() == [8, 8, 8, 4]
    assert cell.first.mean.value == 8
    assert cell.scores == pytest.approx([1.0, 1.0, 1.0])
    assert any("1 stopped" in note and "r3" in note for note in found.notes)
    assert any("left out" in note and "r4" in note for note in found.notes)
    alone = compare(tmp_path / "r3")
    assert alone.tasks[0].cells[0].scores == pytest.approx([0.125])
    with pytest.raises(InputError, match="no plan of this run was judged yet"):
        compare(tmp_path / "r4")


def test_methods_are_named_by_what_tells_them_apart(tmp_path):
    # Iterations, rank and scales change with the task: the algorithm alone is the method.
    for horizon, scale in ((4, 0.5), (10, 0.7)):
        for algorithm, iterations in (("ela", 100), ("ella", 20)):
            extra = {"settings": {"horizon": horizon}, "iterations": iterations * horizon, "alpha_scale": scale}
            for seed in range(2):
                folder = tmp_path / f"{algorithm}{horizon}{seed}"
                write_run(folder, learning([0.8]), final(0.8), seed=seed, algorithm=algorithm, **extra)
    found = compare(tmp_path)
    assert found.methods == ("ELA", "ELLA")
    assert [task.name for task in found.tasks] == [
        "risky-lock, horizon = 4, tau = 0.1",
        "risky-lock, horizon = 10, tau = 0.1",
    ]
    assert all(len(task.cells) == 2 for task in found.tasks)
    assert [one.tasks for one in found.overall] == [2, 2]
    assert "configurations also differ in iterations" in found.notes
    write_run(tmp_path / "more", learning([0.8]), final(0.8), settings={"horizon": 4}, iterations=7, alpha_scale=0.1)
    more = compare(tmp_path)
    # Two of ELA on one task: now the scale is part of every method.
    assert set(more.methods) == {f"ELA, alpha_scale = {x}" for x in (0.1, 0.5, 0.7)} | {
        f"ELLA, alpha_scale = {x}" for x in (0.5, 0.7)
    }


def test_lengths_name_methods_only_if_nothing_else_does(tmp_path):
    for rank, iterations in ((2, 10), (3, 20)):
        write_run(tmp_path / f"r{rank}", learning([0.8]), final(0.8), rank=rank, iterations=iterations)
    assert compare(tmp_path).methods == ("rank = 2", "rank = 3")
    write_run(tmp_path / "long", learning([0.8]), final(0.8), rank=2, iterations=30)
    names = {f"iterations = {n}, rank = {rank}" for n, rank in ((10, 2), (20, 3), (30, 2))}
    assert set(compare(tmp_path).methods) == names


def test_environments_drawn_with_the_seed_are_one_task(tmp_path):
    for seed in range(4):
        star = 0.5 + 0.1 * seed
        for algorithm in ("ela", "ella"):
            curve = [0.0, star] if algorithm == "ela" else [0.0, star / 2]
            folder = tmp_path / f"{algorithm}{seed}"
            write_run(
                folder,
                learning(curve, star),
                final(curve[-1], star),
                seed=seed,
                settings={"seed": seed, "horizon": 4},
                algorithm=algorithm,
            )
    found = compare(tmp_path)
    (task,) = found.tasks
    assert task.name == "risky-lock, tau = 0.1"
    assert task.star is None
    assert as_dict(found)["tasks"][0]["cells"][0]["settings"]["settings"] == {"horizon": 4}
    assert task.cells[0].scores == pytest.approx(np.ones(4))
    assert task.cells[1].scores == pytest.approx(np.full(4, 0.5))
    assert any("settings.seed follows the seed" in note for note in found.notes)
    for seed in (0, 1):
        folder = tmp_path / f"fixed{seed}"
        write_run(
            folder, learning([0.1, 0.1]), final(0.1), seed=seed, settings={"seed": 5, "horizon": 4}, algorithm="ela"
        )
    # Now the seed of the environment does not follow that of the run.
    assert sorted(len(task.cells) for task in compare(tmp_path).tasks) == [1, 2, 2, 2, 2]
    pooled = compare(tmp_path, pool=["settings.seed"])
    assert len(pooled.tasks) == 1
    assert len(pooled.tasks[0].cells[0].records) == 6
    with pytest.raises(InputError, match=r"did you mean .settings\.seed."):
        compare(tmp_path, pool=["setings.seed"])


def test_a_simulator_without_its_best(tmp_path):
    for seed, value in enumerate((1.0, 2.0, 3.0)):
        for rank in (2, 3):
            rows = [{"k": k, "episodes": 10 * k, "cvar": None, "bonus": 1.0} for k in range(1, 5)]
            result = {"cvar": value * rank, "cvar_low": 0.0, "cvar_high": 9.0, "cvar_star": None, "seconds": 1.0}
            folder = tmp_path / f"s{rank}{seed}"
            write_run(folder, rows, result, environment="rich-lock", seed=seed, rank=rank)
    found = compare(tmp_path)
    cell = cell_of(found, "rank = 3")
    assert cell.returned.value == pytest.approx(6.0)
    assert (cell.first, cell.last, cell.regret, cell.scores, found.overall) == (None, None, None, None, ())
    (pair,) = found.pairs
    assert pair.improvement.value == pytest.approx(1 - stats.mannwhitneyu([3, 6, 9], [2, 4, 6]).statistic / 9)
    assert any("CVaR* is not known" in note for note in found.notes)
    assert any("no plan was judged on the way" in note for note in found.notes)
    json.dumps(as_dict(found), allow_nan=False)


def test_a_simulator_that_is_judged_now_and_then(tmp_path):
    for seed in range(3):
        rows = [{"k": k, "episodes": 10 * k, "cvar": None} for k in range(1, 9)]
        for k, value in ((3, 0.1), (6, 0.78 + 0.01 * seed)):
            rows[k - 1] |= {"cvar": value, "cvar_low": value - 0.1, "cvar_high": value + 0.1}
        result = final(0.79) | {"cvar_low": 0.7, "cvar_high": 0.8}
        write_run(tmp_path / f"s{seed}", rows, result, environment="rich-lock", seed=seed)
    found = compare(tmp_path)
    cell = found.tasks[0].cells[0]
    assert cell.first.waits.time.tolist() == [60, 60, 60]
    assert found.tasks[0].at == 60
    assert cell.last.value == pytest.approx(0.79)
    assert cell.regret is None
    assert any("rounded up to the next evaluation" in note for note in found.notes)
    assert any("regret is only counted" in note for note in found.notes)


def test_the_best_of_a_task_is_known_to_all_its_runs(tmp_path):
    for seed, status in enumerate(("finished", "finished", "running")):
        rows = [{"k": k, "episodes": 10 * k, "cvar": 0.4 * k} for k in (1, 2)]
        result = final(0.8) if status == "finished" else None
        write_run(tmp_path / f"s{seed}", rows, result, status, environment="rich-lock", seed=seed)
    found = compare(tmp_path)
    assert found.tasks[0].star == 0.8
    assert found.tasks[0].cells[0].first.waits.time.tolist() == [20, 20, 20]


def test_where_the_best_is_not_positive(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"r{seed}", learning([-8.0, -4.1], -4.0), final(-4.1, -4.0), seed=seed)
    found = compare(tmp_path)
    cell = found.tasks[0].cells[0]
    # Within 5% of |CVaR*| = 4: above -4.2.
    assert cell.first.waits.time.tolist() == [8, 8, 8]
    assert cell.scores is None
    assert any("--floor" in note for note in found.notes)
    low = compare(tmp_path, floor=-5.0, within=0.05)
    assert low.tasks[0].cells[0].scores == pytest.approx([0.9] * 3)
    assert not low.tasks[0].cells[0].first.waits.event.any()


def test_pairs_and_baselines(made, tmp_path):
    named = compare(made, baseline="ella")
    assert [(named.methods[a], named.methods[b]) for a, b in (p.pair for p in named.pairs)] == [("ELA", "ELLA")]
    for i in range(8):
        write_run(tmp_path / f"r{i}", learning([0.8]), final(0.8), rank=i + 1)
    many = compare(tmp_path)
    assert len(many.pairs) == 7
    assert {pair.pair[1] for pair in many.pairs} == {0}
    assert any("compared with the first, rank = 1" in note for note in many.notes)
    assert compare(made, labels=["mine", "theirs"]).methods == ("mine", "theirs")
    for options, words in (
        ({"baseline": "elo"}, "baseline = 'elo'"),
        ({"labels": ["a"]}, "label: must be given 2 times"),
        ({"labels": ["a", "a"]}, "must differ"),
        ({"within": 1.5}, "within = 1.5"),
        ({"confidence": 2}, "confidence = 2"),
        ({"score": "best"}, "score = 'best'"),
        ({"at": 0}, "at = 0"),
    ):
        with pytest.raises(InputError, match=words):
            compare(made, **options)


def test_folders(made, tmp_path):
    assert len(compare([made, made / "a" / "ela0"]).tasks[0].cells[0].records) == 3
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no run"):
        compare(tmp_path / "empty")
    with pytest.raises(InputError, match="must be the folder of a run"):
        compare(tmp_path / "nowhere")
    write_run(tmp_path / "x", learning([0.8]), final(0.8))
    write_run(tmp_path / "y", learning([0.8]), final(0.8))
    with pytest.raises(InputError, match="configuration and the seed of another run"):
        compare(tmp_path)
    (tmp_path / "y" / "rows.jsonl").write_text(
        '{"k": 1, "episodes": 9, "cvar": 1}\n{"k": 2, "episodes": 4, "cvar": 1}\n'
    )
    with pytest.raises(InputError, match="episodes must not become fewer"):
        compare(tmp_path / "y")
    (tmp_path / "y" / "rows.jsonl").write_text('{"k": 1, "episodes": 9, "cvar": Infinity}\n')
    with pytest.raises(InputError, match="must be finite"):
        compare(tmp_path / "y")


def test_numbers_do_not_depend_on_what_else_is_compared(made, found):
    alone = compare([made / "a" / f"ela{seed}" for seed in (2, 0, 1)])
    both = cell_of(found, "ELA")
    assert sorted(alone.tasks[0].cells[0].scores) == sorted(both.scores)
    again = compare(made)
    assert cell_of(again, "ELA").returned == both.returned
    in_order = compare([made / "a" / f"ela{seed}" for seed in (0, 1, 2)])
    assert in_order.tasks[0].cells[0].returned == both.returned


def test_tables_say_what_was_found(found):
    tables = {table.title.split(" (")[0]: table for table in of_task(found, found.tasks[0])}
    episodes = tables["Episodes to within 5% of CVaR*"]
    assert episodes.rows[1][0] == "ELLA"
    assert episodes.rows[1][3] == "24 (4 or more)"
    assert episodes.rows[1][6] == "> 24 (24 or more)"
    assert all(len(row) == len(table.columns) for table in [*tables.values(), *over_all(found)] for row in table.rows)


def test_files_hold_the_same_numbers(found):
    data = json.loads(json.dumps(as_dict(found), allow_nan=False))
    cell = data["tasks"][0]["cells"][1]
    assert cell["configuration"] == "ELLA"
    assert cell["stay"]["median"] == {"value": None, "low": 24.0, "high": None, "beyond": 24.0}
    assert [run["first_reached"] for run in cell["runs"]] == [True, False, True]
    assert cell["settings"]["algorithm"] == "ella"
    assert "seed" not in cell["settings"]
    rows = list(csv.DictReader(io.StringIO(summary_csv(found))))
    (row,) = (r for r in rows if r["configuration"] == "ELLA" and r["measure"] == "stay_median")
    assert (row["estimate"], row["at"], row["runs"]) == ("", "24", "3")
    (row,) = (r for r in rows if r["measure"] == "improvement")
    assert float(row["estimate"]) == pytest.approx(found.pairs[0].improvement.value)
    runs = list(csv.DictReader(io.StringIO(runs_csv(found))))
    assert [(r["configuration"], r["seed"], r["first"]) for r in runs[3:]] == [
        ("ELLA", "0", "24"),
        ("ELLA", "1", "24"),
        ("ELLA", "2", "4"),
    ]
