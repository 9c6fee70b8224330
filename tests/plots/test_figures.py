"""Figures show the numbers of the runs: read back from the figure, and counted by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from safetensors.numpy import save_file

from made_runs import LOCK, final, learning, write_run
from tailrank import InputError, cvar, efficient_frontier, evaluate, plots, read_mdp, save, solve
from tailrank.plots.style import COLUMN, PALETTE
from tailrank.runs.config import RunConfig
from tailrank.runs.run import run

MODELS = Path(__file__).resolve().parents[2] / "examples" / "models"
CURVES = {seed: np.minimum(0.8, np.arange(12) * (0.1 + 0.02 * seed)) for seed in range(5)}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Five seeds of one configuration."""
    top = tmp_path_factory.mktemp("made")
    return [write_run(top / f"r{s}", learning(c), final(float(c[-1])), seed=s) for s, c in CURVES.items()]


@pytest.fixture(scope="module")
def game():
    return read_mdp(MODELS / "betting.json").mdp


@pytest.fixture(scope="module")
def plan(game):
    return solve(game, tau=0.1)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Three short runs."""
    top = tmp_path_factory.mktemp("real")
    for seed in range(3):
        run(RunConfig.of("risky-lock", iterations=8, seed=seed, settings=LOCK, output_episodes=50), top / f"r{seed}")
    return [top / f"r{seed}" for seed in range(3)]


def lines(figure, colour):
    return [line for axes in figure.axes for line in axes.lines if to_hex(line.get_color()).upper() == colour.upper()]


def texts(figure):
    found = [t.get_text() for axes in figure.axes for t in axes.texts]
    legends = [*figure.legends, *(a.get_legend() for a in figure.axes if a.get_legend())]
    return found + [t.get_text() for legend in legends for t in legend.get_texts()]


@pytest.mark.parametrize(("by", "each"), [("episodes", 4), ("iterations", 1)])
def test_a_curve_is_the_mean_of_its_seeds(made, by, each):
    table = np.stack([np.cumsum(0.8 - c) for c in CURVES.values()])
    (line,) = lines(plots.regret(made, by=by), PALETTE[0])
    assert line.get_xdata() == pytest.approx(each * np.arange(1, 13))
    assert line.get_ydata() == pytest.approx(table.mean(axis=0))
    (line,) = lines(plots.regret(made, by=by, center="median"), PALETTE[0])
    assert line.get_ydata() == pytest.approx(np.median(table, axis=0))


def test_the_band_holds_the_curve_and_lies_within_the_seeds(made):
    figure = plots.cvar(made)
    (line,) = lines(figure, PALETTE[0])
    (area,) = figure.axes[0].collections
    corners = area.get_paths()[0].vertices
    table = np.stack(list(CURVES.values()))
    for i, (x, y) in enumerate(zip(line.get_xdata(), line.get_ydata())):
        here = corners[corners[:, 0] == x, 1]
        assert table[:, i].min() <= here.min() <= y <= here.max() <= table[:, i].max()
        assert here.max() > here.min() or np.ptp(table[:, i]) == 0
    assert "best possible" in texts(figure)
    assert any(line.get_ydata()[0] == pytest.approx(0.8) for line in lines(figure, "#1a1a1a"))


def test_configurations_are_lines_named_by_what_differs(made, tmp_path):
    other = [write_run(tmp_path / f"o{s}", learning(CURVES[0]), seed=s, algorithm="ella") for s in range(3)]
    figure = plots.regret([*made, *other])
    assert {"ELA", "ELLA"} <= set(texts(figure))
    assert len(lines(figure, PALETTE[0])) == len(lines(figure, PALETTE[1])) == 1
    wide = write_run(tmp_path / "w", learning(CURVES[0]), alpha_scale=0.5, settings=LOCK)
    tall = write_run(tmp_path / "t", learning(CURVES[0]), alpha_scale=0.7, settings=LOCK | {"horizon": 6})
    assert {"alpha_scale = 0.5, horizon = 4", "alpha_scale = 0.7, horizon = 6"} <= set(texts(plots.cvar([wide, tall])))
    assert {"ours", "theirs"} <= set(texts(plots.cvar([wide, tall], labels=["ours", "theirs"])))


def test_a_run_without_every_cvar_is_drawn_where_it_was_judged(tmp_path):
    rows = [{"k": k, "episodes": 10 * k, "steps": k, "cvar": None, "bonus": 1.0} for k in range(1, 10)]
    for k in (3, 6, 9):
        rows[k - 1] |= {"cvar": 0.1 * k, "cvar_low": 0.1 * k - 0.05, "cvar_high": 0.1 * k + 0.2}
    figure = plots.cvar(write_run(tmp_path / "s", rows, environment="rich-lock", status="running"))
    (line,) = lines(figure, PALETTE[0])
    assert line.get_xdata() == pytest.approx([30, 60, 90])
    assert line.get_ydata() == pytest.approx([0.3, 0.6, 0.9])
    corners = figure.axes[0].collections[0].get_paths()[0].vertices
    assert corners[corners[:, 0] == 60, 1].min() == pytest.approx(0.55)
    assert corners[corners[:, 0] == 60, 1].max() == pytest.approx(0.8)
    with pytest.raises(InputError, match=r"no row has regret .*try what=cvar"):
        plots.regret(tmp_path / "s")


def test_seeds_judged_at_other_episodes_meet_on_common_ground(tmp_path):
    def rows(start):
        return [
            {"k": k, "episodes": start + 10 * k, "steps": k, "cvar": float(k) if k % 2 == 0 else None}
            for k in range(1, 9)
        ]

    folders = [write_run(tmp_path / f"{s}", rows(s), seed=s, environment="rich-lock") for s in (0, 7)]
    (line,) = lines(plots.cvar(folders), PALETTE[0])
    # Judged at 20, 40, .. and 27, 47, ..: from 27, where both have a value, to 80, where one ends.
    assert line.get_xdata() == pytest.approx([27, 40, 47, 60, 67, 80])
    assert line.get_ydata() == pytest.approx([2, 3, 4, 5, 6, 7])


def test_profile_counts_runs(tmp_path):
    scores = {"ela": [0.2, 0.5, 0.5, 1.0], "ella": [0.1, 0.9, 1.0, 1.0]}
    folders = []
    for algorithm, reached in scores.items():
        for seed, share in enumerate(reached):
            folder = tmp_path / f"{algorithm}{seed}"
            folders.append(write_run(folder, [], final(0.8 * share), algorithm=algorithm, seed=seed))
    figure = plots.profile(folders)
    for colour, reached in zip(PALETTE, scores.values()):
        (line,) = lines(figure, colour)
        for x, y in zip(line.get_xdata(), line.get_ydata()):
            assert y == pytest.approx(np.mean([s > x + 1e-9 for s in reached]))
        assert line.get_ydata()[0] == 1.0
        assert line.get_ydata()[-1] == 0.0
    assert {"ELA", "ELLA"} <= set(texts(figure))


def test_profile_averages_tasks_and_leaves_their_settings_alone(tmp_path):
    folders = [write_run(tmp_path / f"a{s}", [], final(0.8), seed=s, settings=LOCK) for s in range(2)]
    for seed in range(6):
        other = {"settings": LOCK | {"horizon": 6}, "iterations": 500}
        folders.append(write_run(tmp_path / f"b{seed}", [], final(0.4), seed=seed, **other))
    figure = plots.profile(folders)
    (line,) = lines(figure, PALETTE[0])
    at = np.searchsorted(line.get_xdata(), 0.7)
    assert line.get_ydata()[at] == pytest.approx(0.5)
    assert not figure.axes[0].get_legend()


def test_profile_where_the_best_is_unknown_or_not_positive(tmp_path):
    free = [write_run(tmp_path / f"f{s}", [], final(-1.0 * s, None), seed=s, environment="rich-lock") for s in range(3)]
    assert plots.profile(free).axes[0].get_xlabel() == "final CVaR at τ = 0.1"
    lost = write_run(tmp_path / "l", [], final(-5.0, -4.0), seed=9)
    with pytest.raises(InputError, match=r"CVaR\* = -4 must be above the baseline 0"):
        plots.profile(lost)
    (line,) = lines(plots.profile(lost, baseline=-8.0), PALETTE[0])
    at = np.searchsorted(line.get_xdata(), 0.75)
    assert line.get_ydata()[at - 2 : at + 2][0] == 1.0
    assert line.get_ydata()[at + 1] == 0.0
    with pytest.raises(InputError, match="draw them apart"):
        plots.profile([*free, lost])


def test_bars_are_the_law(plan, game):
    figure = plots.distribution(plan, game)
    assert len(figure.axes) == 2
    neutral = solve(game, tau=1.0).law
    for axes, law in zip(figure.axes, (neutral, plan.law)):
        heights = {
            c: sum(p.get_height() for p in axes.patches if to_hex(p.get_facecolor()).upper() == c) for c in PALETTE
        }
        assert heights[PALETTE[1]] == pytest.approx(0.1)
        assert heights[PALETTE[0]] == pytest.approx(0.9)
        marks = sorted(line.get_xdata()[0] for line in axes.lines)
        assert marks == pytest.approx(sorted([law.cvar(0.1), law.mean]))
        assert len({str(line._dash_pattern) for line in axes.lines}) == 2  # told apart without colours, too
        bars = [(p.get_x() + p.get_width() / 2, p.get_height()) for p in axes.patches]
        assert sum(x * y for x, y in bars) == pytest.approx(law.mean, abs=1.0)


def test_distribution_functions_of_several_seeds(real):
    figure = plots.distribution(real)
    (line,) = lines(figure, PALETTE[0])
    from tailrank.report.sources import of_runs

    laws = [shown.evaluation.law for shown in of_runs(real).policies]
    for x, y in zip(line.get_xdata(), line.get_ydata()):
        expected = [law.probs[law.values <= x + 1e-9].sum() for law in laws]
        assert y == pytest.approx(np.mean(expected), abs=1e-9)
    assert {"ELA, 3 seeds", "best mean", "worst 10%"} <= set(texts(figure))


def test_frontier_touches_the_best_at_its_own_tau(plan, game):
    figure = plots.frontier(plan, game)
    best = next(line for line in figure.axes[0].lines if line.get_label() and to_hex(line.get_color()) == "#1a1a1a")
    mine, dot = lines(figure, PALETTE[0])
    assert (mine.get_ydata() <= best.get_ydata() + 1e-9).all()
    assert (dot.get_xdata()[0], dot.get_ydata()[0]) == (0.1, pytest.approx(plan.cvar))
    for i in (0, 40, 80, 120):
        tau = float(best.get_xdata()[i])
        assert best.get_ydata()[i] == pytest.approx(solve(game, tau=tau).cvar)
        assert mine.get_ydata()[i] == pytest.approx(evaluate(plan, game, tau).cvar)


def test_a_policy_file_and_a_sample(plan, game, tmp_path):
    save(plan, tmp_path / "p.policy")
    assert len(plots.distribution(tmp_path / "p.policy", game).axes) == 2
    with pytest.raises(InputError, match="is a policy; give the MDP"):
        plots.distribution(tmp_path / "p.policy")
    folder = write_run(tmp_path / "s", [], final(0.1), environment="rich-lock")
    returns = np.random.default_rng(0).normal(size=500)
    save_file({"returns": returns}, folder / "evaluation.safetensors")
    mine = lines(plots.frontier(folder), PALETTE[0])[0]
    assert mine.get_xdata()[0] >= 10 / 500
    assert mine.get_ydata()[5] == pytest.approx(cvar(returns, float(mine.get_xdata()[5])))
    bare = write_run(tmp_path / "b", [], environment="rich-lock", status="running")
    with pytest.raises(InputError, match="b, seed 0"):
        plots.distribution(bare)


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_files_are_the_same_every_time(made, tmp_path, suffix, magic):
    sizes = [plots.save(plots.cvar(made), tmp_path / f"{name}{suffix}") for name in "ab"]
    first, second = ((tmp_path / f"{name}{suffix}").read_bytes() for name in "ab")
    assert first == second
    assert (len(first), first[: len(magic)]) == (sizes[0], magic)
    if suffix == ".pdf":
        assert b"/Type3" not in first
        assert b"/FontFile2" in first
        assert b"CreationDate" not in first


def test_the_figure_has_the_width_it_was_asked_for_and_leaves_settings_alone(made):
    before = dict(mpl.rcParams)
    assert plots.cvar(made).get_figwidth() == COLUMN
    assert plots.cvar(made, width=7.0).get_figwidth() == 7.0
    mpl.rcParams["lines.antialiased"] = False
    try:
        assert lines(plots.cvar(made), PALETTE[0])[0].get_antialiased()
    finally:
        mpl.rcParams["lines.antialiased"] = before["lines.antialiased"]
    assert dict(mpl.rcParams) == before


def test_names_at_the_ends_do_not_touch_and_stay_in_the_picture(tmp_path):
    folders = [
        write_run(tmp_path / f"{i}", learning(CURVES[0] * (1 + i / 1000)), rank=i, model="em") for i in range(1, 6)
    ]
    figure = plots.regret(folders)
    figure.draw_without_rendering()
    boxes = [t.get_window_extent() for t in figure.axes[0].texts]
    assert len(boxes) == 5
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(box.x1 <= figure.bbox.x1 + 1 and box.y0 >= 0 for box in boxes)
    more = [write_run(tmp_path / f"m{i}", learning(CURVES[1]), rank=i, model="em", seed=1) for i in range(6, 8)]
    assert len(plots.regret([*folders, *more]).legends[0].get_texts()) == 7
    many = [write_run(tmp_path / f"n{i}", learning(CURVES[1]), rank=i, model="em", seed=2) for i in range(20, 40)]
    with pytest.raises(InputError, match="18 can be told apart"):
        plots.regret(many)


def test_colours_can_be_told_apart_by_the_colour_blind():
    # Machado, Oliveira, Fernandes (2009), severity 1, on linear light.
    kinds = {
        "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
        "deuteranopia": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    }
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])

    def lab(linear):
        ratio = xyz @ np.clip(linear, 0, 1) / xyz.sum(axis=1)
        f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
        return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

    for matrix in kinds.values():
        linear = [
            np.array([c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(x)]) for x in PALETTE
        ]
        seen = [lab(np.array(matrix) @ rgb) for rgb in linear]
        assert min(np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i]) > 12


def test_what_cannot_be_drawn_is_said_in_one_line(made, tmp_path, monkeypatch):
    cases = [
        (lambda: plots.cvar([]), "at least one folder"),
        (lambda: plots.cvar(tmp_path), "holds no run"),
        (lambda: plots.cvar(made, by="episode"), "did you mean 'episodes'"),
        (lambda: plots.cvar(made, log="z"), "log = 'z'"),
        (lambda: plots.cvar(made, log="y"), "must be positive"),
        (lambda: plots.cvar(made, labels=["a", "b"]), "once a configuration, found 2"),
        (lambda: plots.cvar(made, width=0.1), "width = 0.1"),
        (lambda: plots.cvar(write_run(tmp_path / "e", [], status="running")), "no row has cvar"),
        (lambda: plots.profile(write_run(tmp_path / "p", [], status="running")), "no plan of this run was judged"),
        (lambda: plots.save(plots.cvar(made), tmp_path / "a.jpg"), "file types .png, .svg, .pdf"),
        (lambda: plots.save(plots.cvar(made), tmp_path / "no" / "a.png"), "folder that exists"),
    ]
    twice = write_run(tmp_path / "twice", learning(CURVES[0]), seed=0)
    cases.append((lambda: plots.cvar([*made, twice]), "configuration and the seed of another run"))
    for call, words in cases:
        with pytest.raises(InputError) as error:
            call()
        assert words in str(error.value)
        assert "\n" not in str(error.value)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'tailrank\[plot\]'"):
        plots.cvar(made)


def test_the_efficient_frontier_has_its_points(game):
    found = efficient_frontier(game, 0.1, points=9)
    drawn = lines(plots.efficient(found), PALETTE[0])[0]
    np.testing.assert_allclose(drawn.get_xdata(), found.cvar)
    np.testing.assert_allclose(drawn.get_ydata(), found.mean)
