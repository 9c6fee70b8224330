"""The picture of the README: `python examples/figure.py PATH` (default docs/img/risk.png)."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from make_models import betting

from tailrank import Plan, ReturnLaw, solve
from tailrank.planning.exact.return_law import return_law

TAU = 0.1
BLUE, RED, GREY = "#1f5a96", "#c8422b", "#8a8f98"


def draw(path: Path) -> None:
    """Return laws of the risk-neutral and the tau = 0.1 plan of the betting game, and the frontier."""
    game = betting()
    plan = solve(game, tau=TAU)
    neutral = return_law(plan.risk_neutral.policy, game, plan.policy.grid).law
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure = plt.figure(figsize=(10, 4.4), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=[1.35, 1])
    top, bottom = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[1, 0])
    bottom.sharex(top)
    _law(top, neutral, f"best mean: {neutral.mean:.1f} on average, worst tenth {neutral.cvar(TAU):.1f}")
    _law(bottom, plan.law, f"best CVaR at tau = {TAU:g}: {plan.mean:.1f} on average, worst tenth {plan.cvar:.1f}")
    top.tick_params(labelbottom=False)
    bottom.set_xlabel("coins won in ten rounds of betting")
    _frontier(figure.add_subplot(grid[:, 1]), game, plan)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _law(axes: plt.Axes, law: ReturnLaw, title: str) -> None:
    """A bar for each number of coins, the worst tenth in red."""
    before = np.concatenate([[0.0], law.cumulative[:-1]])
    worst = np.clip(TAU - before, 0.0, law.probs)
    axes.bar(law.values, worst, width=1.3, color=RED, label=f"worst {100 * TAU:g}%")
    axes.bar(law.values, law.probs - worst, width=1.3, bottom=worst, color=BLUE, alpha=0.75)
    axes.axvline(law.cvar(TAU), color=RED, lw=1.4, ls="--", label=f"CVaR {law.cvar(TAU):.1f}")
    axes.axvline(law.mean, color="black", lw=1.2, ls=":", label=f"mean {law.mean:.1f}")
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_ylabel("probability")
    axes.legend(frameon=False, fontsize=9)


def _frontier(axes: plt.Axes, game: object, plan: Plan) -> None:
    """Mean against CVaR at TAU of the optimal plans of other levels."""
    levels = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
    points = [(p.law.cvar(TAU), p.mean, p.tau) for p in solve(game, tau=levels)]
    axes.plot([x for x, _, _ in points], [y for _, y, _ in points], color=GREY, lw=1, zorder=1)
    for x, y, tau in points:
        mine = tau == TAU
        axes.scatter(x, y, s=60 if mine else 32, color=RED if mine else BLUE, zorder=2)
        if tau in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0):
            below = tau < TAU
            axes.annotate(
                f"tau = {tau:g}",
                (x, y),
                textcoords="offset points",
                xytext=(-8, -3) if below else (8, 3),
                fontsize=9,
                ha="right" if below else "left",
                color=RED if mine else "black",
            )
    axes.margins(x=0.22, y=0.1)
    axes.set_xlabel(f"CVaR at {TAU:g} (mean of the worst tenth)")
    axes.set_ylabel("mean")
    axes.set_title("what safety costs", loc="left", fontsize=10)
    axes.grid(alpha=0.25)


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "img" / "risk.png"
    draw(Path(target))
