"""Learning curves: regret or CVaR of the plans against episodes or iterations, a line for each configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrank.checks import InputError, one_of
from tailrank.comparison.groups import Paths, RunGroup, group_runs, read, series
from tailrank.plots import style
from tailrank.risk.over_runs.seeds import Band, align, band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BY = {"episodes": "episodes", "iterations": "k"}
SCALES = ("x", "y", "xy")
FEW_POINTS = 30
"""Points up to which each is marked."""


@style.look()
def draw(
    runs: Paths,
    column: str,
    by: str,
    center: str,
    labels: Sequence[str],
    log: str,
    width: float,
    rng: np.random.Generator | None,
) -> Figure:
    """The figure of one column of the rows."""
    one_of(by, "by", BY)
    if log:
        one_of(log, "log", SCALES)
    groups = group_runs(read(runs), labels)
    bands = [curve(group, column, by, center, style.generator(rng)) for group in groups]
    figure, (axes,) = style.canvas(width, 0.68 * width)
    names = []
    for i, (group, line) in enumerate(zip(groups, bands, strict=True)):
        look = style.colour(i)
        marks: dict[str, Any] = {"marker": "o", "markersize": 2.5} if line.x.size <= FEW_POINTS else {}
        (handle,) = axes.plot(line.x, line.y, zorder=3, **look, **marks)
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=look["color"], alpha=0.18, linewidth=0, zorder=2)
        names.append(style.Name(group.name, float(line.y[-1]), look["color"], handle))
    axes.set_xlabel(by)
    axes.set_ylabel(_meaning(column, groups))
    _scales(axes, bands, log)
    if column == "cvar":
        _stars(axes, groups)
    style.name_lines(figure, axes, names)
    return figure


def curve(group: RunGroup, column: str, by: str, center: str, rng: np.random.Generator) -> Band:
    """The line of a group: of one run with the interval of its evaluations, of several with a band over seeds."""
    found = []
    for run in group.runs:
        bounds = ("cvar_low", "cvar_high") if column == "cvar" else ()
        one = series(run, BY[by], column, *bounds)
        if one is None:
            known = column == "regret" and run.column("cvar") is not None
            why = "only runs on an MDP that is known count it; try what=cvar" if known else f"status: {run.status}"
            raise InputError(f"{run.folder}: no row has {column} ({why})")
        found.append(one)
    if len(found) == 1:
        x, y, *interval = found[0]
        known = len(interval) == 2 and not np.isnan(interval).any()
        return Band(x, y, *interval) if known else Band(x, y)
    x, table = align([(one[0], one[1]) for one in found])
    return band(x, [table], center, rng)


def _stars(axes: Axes, groups: list[RunGroup]) -> None:
    """CVaR* as a thin line: one with its name where all know the same, else one in the colour of each."""
    stars = [group.star for group in groups]
    known = {round(star, 6) for star in stars if star is not None}
    alike = len(known) == 1 and None not in stars
    for i, star in enumerate(stars):
        if star is not None and (i == 0 or not alike):
            colour = style.INK if alike else style.colour(i)["color"]
            axes.axhline(star, color=colour, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    if alike:
        star = known.pop()
        axes.annotate(
            "best possible",
            (1.0, star),
            xycoords=("axes fraction", "data"),
            xytext=(-1, 1.5),
            ha="right",
            textcoords="offset points",
            va="bottom",
            fontsize=style.RC["legend.fontsize"],
        )
        low, high = axes.get_ylim()
        axes.set_ylim(low, max(high, star + 0.09 * (star - low)))


def _meaning(column: str, groups: list[RunGroup]) -> str:
    if column == "regret":
        return "regret"
    taus = {group.tau for group in groups}
    return f"CVaR at τ = {taus.pop():g}" if len(taus) == 1 else "CVaR"


def _scales(axes: Axes, bands: list[Band], log: str) -> None:
    last = max(float(line.x[-1]) for line in bands)
    if "x" in log:
        style.decades(axes, "x")
        axes.set_xlim(min(float(line.x[0]) for line in bands), last * 1.01)
    else:
        axes.set_xlim(0, last * 1.01)
        style.thousands(axes.xaxis)
    if "y" in log:
        least = min(float(line.y.min()) for line in bands)
        if least <= 0:
            raise InputError(f"log = {log}: y must be positive, found {least:g}")
        style.decades(axes, "y")
