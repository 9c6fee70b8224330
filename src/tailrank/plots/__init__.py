"""Figures for papers, as objects of matplotlib: `pip install 'tailrank[plot]'`.

    from tailrank import plots

    figure = plots.regret(["runs/a", "runs/b", "runs/c"])
    plots.save(figure, "regret.pdf")

Runs that differ in their seed only are one line with a band (stratified bootstrap over runs, 95%); `rng` draws the
resamples (the same ones every time if it is left out).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tailrank.checks import InputError
from tailrank.plots.style import COLUMN, save

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from tailrank.comparison.groups import Paths
    from tailrank.models.mdp import FiniteMDP
    from tailrank.planning.objectives.efficient import EfficientFrontier
    from tailrank.planning.plan import Plan
    from tailrank.report.subject import Subject

__all__ = ["cvar", "distribution", "efficient", "frontier", "profile", "regret", "save"]


def regret(
    runs: Paths,
    *,
    by: str = "episodes",
    center: str = "mean",
    labels: Sequence[str] = (),
    log: str = "",
    width: float = COLUMN,
    rng: np.random.Generator | None = None,
) -> Figure:
    """Regret of the plans against `by` (episodes or iterations), a line for each configuration.

    center: mean, median or iqm (the mean of the middle half). labels: names of the lines, in the order of the
    configurations. log: axes that are logarithmic, x, y or xy. width: in inches.
    """
    from tailrank.plots import _lines

    return _lines.draw(runs, "regret", by, center, labels, log, width, rng)


def cvar(
    runs: Paths,
    *,
    by: str = "episodes",
    center: str = "mean",
    labels: Sequence[str] = (),
    log: str = "",
    width: float = COLUMN,
    rng: np.random.Generator | None = None,
) -> Figure:
    """CVaR of the plans, with the arguments of `regret`; of a single run on a simulator with its intervals."""
    from tailrank.plots import _lines

    return _lines.draw(runs, "cvar", by, center, labels, log, width, rng)


def profile(
    runs: Paths,
    *,
    baseline: float = 0.0,
    labels: Sequence[str] = (),
    width: float = COLUMN,
    rng: np.random.Generator | None = None,
) -> Figure:
    """Share of runs with a final (CVaR - baseline) / (CVaR* - baseline) above x, a line for each method."""
    from tailrank.plots import _profiles

    return _profiles.draw(runs, baseline, labels, width, rng)


def distribution(
    item: Plan | Subject | Paths,
    mdp: FiniteMDP | None = None,
    *,
    labels: Sequence[str] = (),
    width: float = COLUMN,
    rng: np.random.Generator | None = None,
) -> Figure:
    """Law of the return: of a plan, of a policy file and the MDP it plays in, or of what runs have returned."""
    from tailrank.plots import _laws

    return _laws.distribution(_subject(item, mdp), labels, width, rng)


def frontier(
    item: Plan | Subject | Paths,
    mdp: FiniteMDP | None = None,
    *,
    labels: Sequence[str] = (),
    width: float = COLUMN,
    rng: np.random.Generator | None = None,
) -> Figure:
    """CVaR at every tail fraction against the best possible, of the same things as `distribution`."""
    from tailrank.plots import _laws

    return _laws.frontier(_subject(item, mdp), labels, width, rng)


def efficient(found: EfficientFrontier, *, width: float = COLUMN) -> Figure:
    """The best mean at every CVaR that can be had (`efficient_frontier`), and above it what no policy exceeds."""
    from tailrank.plots import _laws

    return _laws.efficient(found, width)


def _subject(item: Plan | Subject | Paths, mdp: FiniteMDP | None) -> Subject:
    from tailrank.envs import Source
    from tailrank.planning.plan import Plan
    from tailrank.report.sources import of_plan, of_policy, of_runs
    from tailrank.report.subject import Subject

    if isinstance(item, Subject):
        return item
    if isinstance(item, Plan):
        return of_plan(item, mdp, "plan")
    folders = [Path(item)] if isinstance(item, str | Path) else [Path(one) for one in item]
    if len(folders) == 1 and folders[0].is_file():
        if mdp is None:
            raise InputError(f"{folders[0]}: is a policy; give the MDP it plays in (mdp=...)")
        return of_policy(folders[0], Source(mdp, folders[0].stem, ()), tau=None)
    return of_runs(folders)
