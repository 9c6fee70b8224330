"""Figures of a comparison: regret, share of runs that are not there yet, profiles, probabilities of improvement.

A panel for each task; a configuration has the same colour everywhere. Only what the runs have is drawn.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrank.checks import InputError
from tailrank.comparison import Comparison
from tailrank.comparison.across import tasks_with_scores
from tailrank.comparison.measures import Cell, TaskResults, settled_runs
from tailrank.comparison.tables import share_name
from tailrank.plots import style
from tailrank.plots._profiles import figure_of
from tailrank.risk.over_runs.seeds import align, band
from tailrank.risk.over_runs.survival import SurvivalCurve, Waits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTHS = {1: style.COLUMN, 2: 5.6, 3: 7.0}
"""Inches of a figure with so many panels side by side."""
LETTERS = 17
"""Letters of a title in an inch."""
DECADES = 50.0
"""Times so far apart are drawn on a logarithmic axis."""


def figures(found: Comparison) -> dict[str, Figure]:
    """The figures that these runs can give, by name."""
    if len(found.methods) > style.MOST_LINES:
        raise InputError(f"{len(found.methods)} configurations: {style.MOST_LINES} can be told apart in a figure")
    makers: dict[str, Callable[[], Figure | None]] = {
        "episodes_first": lambda: waiting(found, "first"),
        "episodes_stay": lambda: waiting(found, "stay"),
        "regret": lambda: regret(found),
        "profile": lambda: profile(found),
        "improvement": lambda: improvement(found),
    }
    made = {name: make() for name, make in makers.items()}
    return {name: figure for name, figure in made.items() if figure is not None}


@style.look()
def waiting(found: Comparison, reading: str) -> Figure | None:
    """Share of runs that are not within reach of CVaR* yet (Kaplan and Meier); a tick where a run ended before."""
    known = [(task, [c for c in task.cells if getattr(c, reading) is not None]) for task in found.tasks]
    panels = [(task, cells) for task, cells in known if cells]
    if not panels:
        return None

    def draw(axes: Axes, cells: list[Cell]) -> None:
        curves = [(cell.method, getattr(cell, reading)) for cell in cells]
        times = np.concatenate([one.waits.time for _, one in curves])
        for method, one in curves:
            _steps(axes, one.curve, one.waits, _look(found, method))
        axes.set_ylim(0, 1.02)
        if times.min() > 0 and times.max() > DECADES * times.min():
            style.decades(axes, "x")
            axes.set_xlim(times.min() / 1.5, times.max() * 1.02)
        else:
            axes.set_xlim(0, times.max() * 1.02)
            style.thousands(axes.xaxis)

    how = "to stay " if reading == "stay" else ""
    return _panels(found, panels, draw, "episodes", f"share of runs not\n{how}within {100 * found.options.within:g}%")


def _steps(axes: Axes, curve: SurvivalCurve, waits: Waits, look: dict[str, Any]) -> None:
    end = max(waits.longest, float(curve.x[-1]))
    x = np.concatenate([[0.0], curve.x, [end]])
    share, low, high = (np.concatenate([[1.0], y, y[-1:]]) for y in (curve.share, curve.low, curve.high))
    axes.step(x, share, where="post", zorder=3, **look)
    axes.fill_between(x, low, high, step="post", color=look["color"], alpha=0.15, linewidth=0)
    ended = waits.time[~waits.event]
    at = share[np.searchsorted(x[:-1], ended, side="right") - 1]
    axes.plot(ended, at, linestyle="none", marker="|", markersize=5, color=look["color"], zorder=4)


@style.look()
def regret(found: Comparison) -> Figure | None:
    """Regret summed over episodes: mean over runs and a band, from the first episode to where the first run ends."""
    known = [(task, [c for c in task.cells if all(r.regret is not None for r in c.records)]) for task in found.tasks]
    panels = [(task, cells) for task, cells in known if cells]
    if not panels:
        return None

    def draw(axes: Axes, cells: list[Cell]) -> None:
        last = 0.0
        for cell in cells:
            lines = [one.regret for one in settled_runs(cell.records) if one.regret is not None]
            x, table = align([(np.append(0.0, x), np.append(0.0, y)) for x, y in lines])
            line = band(x, [table], "mean", found.options.rng(), found.options.confidence)
            look = _look(found, cell.method)
            axes.plot(line.x, line.y, zorder=3, **look)
            if line.low is not None and line.high is not None:
                axes.fill_between(line.x, line.low, line.high, color=look["color"], alpha=0.15, linewidth=0)
            last = max(last, float(line.x[-1]))
        axes.set_xlim(0, last * 1.01)
        axes.set_ylim(bottom=0)
        style.thousands(axes.xaxis)
        style.thousands(axes.yaxis)

    return _panels(found, panels, draw, "episodes", "regret")


@style.look()
def profile(found: Comparison) -> Figure | None:
    """Share of runs with a score above x, over the tasks that all configurations have."""
    tasks = tasks_with_scores(found.tasks, len(found.methods))
    if not tasks:
        return None
    lines = [
        (plain(name), [c.scores for task in tasks for c in task.cells if c.method == m and c.scores is not None])
        for m, name in enumerate(found.methods)
    ]
    title = f"{share_name(found.options).replace(' - ', ' − ')}, {found.options.score} plan"
    return figure_of(lines, title, True, style.COLUMN, found.options.rng(), found.options.confidence)


@style.look()
def improvement(found: Comparison) -> Figure | None:
    """Probability that a run of one configuration ends above a run of another, a line each."""
    if not found.pairs:
        return None
    names = [f"{found.methods[one.pair[0]]} above {found.methods[one.pair[1]]}" for one in found.pairs]
    texts = [textwrap.fill(plain(name), 34) for name in names]
    lines = sum(text.count("\n") + 1 for text in texts)
    width = WIDTHS[1] + 0.045 * max(len(line) for text in texts for line in text.split("\n"))
    figure, (axes,) = style.canvas(width, 0.55 + 0.1 * len(texts) + 0.13 * lines)
    for i, one in enumerate(found.pairs):
        look, found_one = style.colour(one.pair[0])["color"], one.improvement
        if found_one.low is not None and found_one.high is not None:
            axes.plot([found_one.low, found_one.high], [i, i], color=look, linewidth=2.4, alpha=0.45)
        axes.plot([found_one.value], [i], marker="o", markersize=4, color=look)
    axes.axvline(0.5, color=style.GREY, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    axes.set_yticks(range(len(texts)), texts)
    axes.set_ylim(len(texts) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("probability of improvement")
    return figure


def _panels(
    found: Comparison,
    panels: list[tuple[TaskResults, list[Cell]]],
    draw: Callable[[Axes, list[Cell]], None],
    x_title: str,
    y_title: str,
) -> Figure:
    """A panel for each task, titled where there are several; names of the lines above."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    rows, width = math.ceil(len(panels) / columns), WIDTHS[columns]
    wide = int(LETTERS * width / columns)
    titles = [textwrap.fill(plain(task.name).replace("tau = ", "τ = "), wide) for task, _ in panels]
    if len(found.tasks) == 1:
        titles = [""]
    high = max(title.count("\n") + 1 if title else 0 for title in titles)
    figure = Figure(figsize=(width, rows * (0.72 * width / columns + 0.14 * high) + 0.2), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for i, (axes, (_, cells)) in enumerate(zip(grid.flat, panels, strict=False)):
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        draw(axes, cells)
        axes.set_title(titles[i])
        if i + columns >= len(panels):
            axes.set_xlabel(x_title)
        if i % columns == 0:
            axes.set_ylabel(y_title)
    if len(found.methods) > 1:
        shown = sorted({cell.method for _, cells in panels for cell in cells})
        handles = {m: Line2D([], [], **style.colour(m)) for m in shown}
        style.legend(
            figure, [style.Name(plain(found.methods[m]), 0.0, style.colour(m)["color"], handles[m]) for m in shown]
        )
    return figure


def _look(found: Comparison, method: int) -> dict[str, Any]:
    """Colour and dashes, the first lines wider: they can be seen below others that are the same."""
    after = (len(found.methods) - 1 - method) / max(len(found.methods) - 1, 1)
    return style.colour(method) | {"linewidth": 1.3 + 1.1 * after}


def plain(text: str) -> str:
    """Text of a run in which no formula begins, and that SVG can hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in text).replace("$", r"\$")
