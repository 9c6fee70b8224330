"""Performance profiles: the share of runs whose final CVaR / CVaR* lies above x, for every x.

The share is found for each task and averaged over the tasks, so that none counts more for having more runs. A line
that lies above another one at every x is better in every respect; medians and means say less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tailrank.checks import InputError, number
from tailrank.comparison.groups import Paths, final_cvar, read, star_of
from tailrank.comparison.tasks import tasks
from tailrank.plots import style
from tailrank.risk.over_runs.intervals import CONFIDENCE
from tailrank.risk.over_runs.seeds import Band, band
from tailrank.runs.read import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 301
LEAST, MOST = -1.0, 0.9
"""Where the axis begins: runs that are worse count, but are not looked at one by one; nobody needs a finer look."""
TOLERANCE = 1e-9


def draw(runs: Paths, baseline: float, labels: Sequence[str], width: float, rng: np.random.Generator | None) -> Figure:
    """The figure."""
    found = read(runs)
    number(baseline, "baseline")
    relative = all(star_of(run) is not None for run in found)
    score = {run.folder: (score_of(run, baseline) if relative else final_cvar(run)) for run in found}
    if not relative:
        _one_task(found)
    lines = [
        (group.name, [np.array([score[run.folder] for run in members]) for members in by_task])
        for group, by_task in tasks(found, labels)
    ]
    tau = {run.tau for run in found}
    text = "CVaR / CVaR*" if baseline == 0 else f"(CVaR − {baseline:g}) / (CVaR* − {baseline:g})"
    level = f" at τ = {tau.pop():g}" if len(tau) == 1 else ""
    return figure_of(lines, f"final {text if relative else 'CVaR'}{level}", relative, width, rng)


@style.look()
def figure_of(
    lines: Sequence[tuple[str, Sequence[np.ndarray]]],
    title: str,
    relative: bool,
    width: float,
    rng: np.random.Generator | None,
    confidence: float = CONFIDENCE,
) -> Figure:
    """The figure of methods with a name and the scores of their runs by task, [n] each. relative: 1 is the best."""
    x = grid([float(score) for _, by_task in lines for scores in by_task for score in scores], relative)
    figure, (axes,) = style.canvas(width, 0.68 * width)
    names = []
    for i, (name, by_task) in enumerate(lines):
        line = shares(x, by_task, style.generator(rng), confidence)
        look = style.colour(i)
        (handle,) = axes.step(x, line.y, where="post", zorder=3, **look)
        if line.low is not None and line.high is not None:
            axes.fill_between(x, line.low, line.high, step="post", color=look["color"], alpha=0.18, linewidth=0)
        names.append(style.Name(name, 0.0, look["color"], handle))
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(title)
    axes.set_ylabel("share of runs above")
    named = [name for name in names if name.text]
    if named:
        axes.legend([name.handle for name in named], [name.text for name in named], loc="lower left")
    return figure


def score_of(run: Run, baseline: float = 0.0) -> float:
    """How much of what is possible the run has reached: (CVaR - baseline) / (CVaR* - baseline)."""
    star = star_of(run)
    if star is None:
        raise InputError(f"{run.folder}: CVaR* is not known, so its share cannot be found")
    if star <= baseline:
        raise InputError(
            f"{run.folder}: CVaR* = {star:g} must be above the baseline {baseline:g} to divide by; "
            "give a lower baseline=..., such as the least possible return"
        )
    return (final_cvar(run) - baseline) / (star - baseline)


def shares(
    x: np.ndarray, scores: Sequence[np.ndarray], rng: np.random.Generator, confidence: float = CONFIDENCE
) -> Band:
    """Share of runs with a score above each x [t], a band over runs; scores: those of the runs of each task, [n]."""
    return band(x, [(one[:, None] > x[None, :] + TOLERANCE).astype(float) for one in scores], "mean", rng, confidence)


def grid(scores: list[float], relative: bool) -> np.ndarray:
    """Where the shares are drawn: from a little below the least score to 1, or to a little above the best CVaR."""
    low, high = min(scores), max(scores)
    top = max(1.0, high) if relative else high
    room = 0.06 * (top - low) or 0.06 * max(abs(top), 1.0)
    start = max(min(low - room, MOST), LEAST) if relative else low - room
    ends = np.array([score - TOLERANCE for score in scores if score >= start])
    return np.unique(np.concatenate([np.linspace(start, top + room / 3, POINTS), ends]))


def _one_task(runs: list[Run]) -> None:
    known = [run for run in runs if star_of(run) is not None]
    if known:
        other = next(run for run in runs if star_of(run) is None)
        raise InputError(f"{other.folder}: CVaR* is not known, that of {known[0].folder} is; draw them apart")
    names = {str(run.config.get("environment")) for run in runs}
    if len(names) > 1:
        raise InputError(f"runs: CVaR* is not known, so CVaR in {' and '.join(sorted(names)[:2])} cannot be compared")
