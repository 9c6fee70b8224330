"""What policies risk: the law of their return, and their CVaR at every tail fraction against the best possible.

One policy: its law as bars, the worst tau of it marked, below that of the policy with the best mean. Several, or
several seeds: distribution functions, for seeds the mean with a band (the law of a policy drawn among the seeds).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrank.checks import InputError
from tailrank.comparison.groups import group_runs
from tailrank.planning.exact.return_law import Evaluation
from tailrank.plots import style
from tailrank.report.subject import Shown, Subject
from tailrank.risk.law import ReturnLaw
from tailrank.risk.over_runs.seeds import band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tailrank.planning.objectives.efficient import EfficientFrontier
    from tailrank.report.problem import Offered

BINS = 60
RARE, MUCH = (1e-5, 0.9995), 0.2
"""Levels beyond which outcomes are left out, where they would take more than this share of the room."""
MOST_STEPS = 1500
LEVELS = np.geomspace(0.01, 1.0, 121)
IN_TAIL = 10
"""Episodes in the tail below which CVaR of a sample is not drawn."""


@dataclass(frozen=True)
class Entry:
    """A line: the policies of one configuration, a law for each seed."""

    name: str
    tau: float
    shown: tuple[Shown, ...]

    @property
    def laws(self) -> list[ReturnLaw]:
        """The laws."""
        return [law_of(one) for one in self.shown]


def law_of(shown: Shown) -> ReturnLaw:
    """The law of a policy's return: exact, or of a sample."""
    if shown.evaluation is not None:
        return shown.evaluation.law
    if shown.returns is not None:
        return ReturnLaw.of(shown.returns)
    raise InputError(f"{shown.name}: {shown.absent.get('law', 'there is no return law')}"[:300].rstrip("."))


def entries(subject: Subject, labels: Sequence[str]) -> list[Entry]:
    """The lines of a subject: its policies, or its runs by configuration."""
    if not subject.runs:
        if labels and len(labels) != 1:
            raise InputError(f"label: must be given once, for the one policy, found {len(labels)}")
        return [Entry(labels[0] if labels else _title(one.name), one.tau, (one,)) for one in subject.policies]
    shown = {run.folder: one for run, one in zip(subject.runs, subject.policies, strict=True)}
    result = []
    for group in group_runs(subject.runs, labels):
        count = "1 seed" if len(group.runs) == 1 else f"{len(group.runs)} seeds"
        name = group.name or f"{str(group.runs[0].config.get('algorithm', 'ela')).upper()}, {count}"
        result.append(Entry(name, group.tau, tuple(shown[run.folder] for run in group.runs)))
    return result


def _title(name: str) -> str:
    return name.replace("tau = ", "τ = ")


@style.look()
def distribution(subject: Subject, labels: Sequence[str], width: float, rng: np.random.Generator | None) -> Figure:
    """The figure of the laws."""
    lines = entries(subject, labels)
    neutral = _neutral(subject)
    if len(lines) == 1 and len(lines[0].shown) == 1:
        return _bars(lines[0], None if neutral is None else neutral.law, width)
    figure, (axes,) = style.canvas(width, 0.68 * width)
    laws = [law for line in lines for law in line.laws] + ([neutral.law] if neutral is not None else [])
    x = _thin(np.unique(np.concatenate([law.values for law in laws])))
    room = 0.04 * (x[-1] - x[0]) or 0.1 * max(1.0, abs(x[0]))
    x = np.concatenate([[x[0] - room], x, [x[-1] + room]])
    handles = []
    for i, line in enumerate(lines):
        drawn = band(x, [np.stack([_distribution(law, x) for law in line.laws])], "mean", style.generator(rng))
        look = style.colour(i)
        (handle,) = axes.step(x, drawn.y, where="post", zorder=3, **look)
        if drawn.low is not None and drawn.high is not None:
            axes.fill_between(x, drawn.low, drawn.high, step="post", color=look["color"], alpha=0.18, linewidth=0)
        handles.append((handle, line.name))
    if neutral is not None:
        (handle,) = axes.step(x, _distribution(neutral.law, x), where="post", color=style.GREY, linewidth=1.0, zorder=1)
        handles.append((handle, "best mean"))
    taus = {line.tau for line in lines}
    if len(taus) == 1:
        _tail(axes, taus.pop())
    low, high = span(laws)
    axes.set_xlim(max(x[0], low - room), min(x[-1], high + room))
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("return")
    axes.set_ylabel("probability of at most that")
    # A distribution function leaves the upper left corner free, or the lower right one.
    corner = (
        "upper left"
        if np.mean([_distribution(law, x[:1] + (x[-1] - x[0]) / 2) for law in laws]) < 0.5
        else "lower right"
    )
    axes.legend([h for h, _ in handles], [text for _, text in handles], loc=corner)
    return figure


def _tail(axes: Axes, tau: float) -> None:
    axes.axhspan(0, tau, color=style.GREY, alpha=0.13, linewidth=0, zorder=0)
    axes.annotate(
        f"worst {100 * tau:g}%",
        (0.0, tau),
        xycoords=("axes fraction", "data"),
        xytext=(3, 2),
        textcoords="offset points",
        fontsize=style.RC["legend.fontsize"],
        color=style.GREY,
    )


def _neutral(subject: Subject) -> Evaluation | None:
    return subject.problems[0].neutral_law() if len(subject.problems) == 1 else None


def _distribution(law: ReturnLaw, x: np.ndarray) -> np.ndarray:
    """P(X <= x)."""
    slack = 1e-9 * max(1.0, float(np.abs(law.values).max()))
    return np.concatenate([[0.0], law.cumulative])[np.searchsorted(law.values, x + slack, side="right")]


def _thin(x: np.ndarray) -> np.ndarray:
    return x[np.unique(np.linspace(0, x.size - 1, min(x.size, MOST_STEPS)).astype(np.int64))]


def _bars(line: Entry, neutral: ReturnLaw | None, width: float) -> Figure:
    law, tau = line.laws[0], line.tau
    panels = [(law, line.name)]
    if neutral is not None and not np.isclose(neutral.cvar(tau), law.cvar(tau), rtol=1e-9, atol=1e-12):
        panels.insert(0, (neutral, "the policy with the best mean"))
    figure, axes = style.canvas(width, (0.3 + 0.42 * len(panels)) * width, rows=len(panels))
    low, high = span([p for p, _ in panels])
    bar = _bar_width([p for p, _ in panels], low, high)
    wide = 0.88 * min(bar, max(high - low, bar) / 25)
    for ax, (shown, name) in zip(axes, panels, strict=True):
        centre, mass, worst = _bins(shown, tau, low, high, bar)
        ax.bar(centre, mass - worst, bottom=worst, width=wide, color=style.PALETTE[0], alpha=0.75, linewidth=0)
        ax.bar(centre, worst, width=wide, color=style.PALETTE[1], linewidth=0, label=f"worst {100 * tau:g}%")
        lines = ((shown.cvar(tau), "CVaR", style.PALETTE[1], (3, 1.5)), (shown.mean, "mean", style.INK, (1, 1.5)))
        for x, text, colour, dashes in lines:
            label = f"{text} {x:.4g}".replace("-", "−")
            ax.axvline(x, color=colour, linewidth=0.8, linestyle=(0, dashes), label=label)
        ax.set_title(name + _outside(shown, low, high), loc="left")
        ax.legend(loc="best")
        ax.set_ylabel("probability")
    # What is compared has one scale.
    top = max(ax.get_ylim()[1] for ax in axes)
    for ax in axes:
        ax.set_ylim(0, top)
    axes[-1].set_xlabel("return")
    figure.align_ylabels(axes)
    return figure


def span(laws: Sequence[ReturnLaw]) -> tuple[float, float]:
    """The range that is drawn, as in the report: without extremes that are rarer than RARE, if they take much room.

    >>> span([ReturnLaw(np.array([-900.0, 0.0, 9.0]), np.array([1e-7, 0.5, 0.5]) / (1 + 1e-7))])
    (0.0, 9.0)
    """
    low, high = min(law.values[0] for law in laws), max(law.values[-1] for law in laws)
    usual = [min(law.var(RARE[0]) for law in laws), max(law.var(RARE[1]) for law in laws)]
    room = MUCH * (high - low)
    return float(usual[0] if usual[0] - low > room else low), float(usual[1] if high - usual[1] > room else high)


def _outside(law: ReturnLaw, low: float, high: float) -> str:
    """What is not drawn, in words."""
    shares = float(law.probs[law.values < low].sum()), float(law.probs[law.values > high].sum())
    words = [
        f"{100 * share:.2g}% further {side}" for share, side in zip(shares, ("left", "right"), strict=True) if share
    ]
    return f" ({', '.join(words)})" if words else ""


def _bar_width(laws: list[ReturnLaw], low: float, high: float) -> float:
    """The spacing of the returns if there are few enough of them, else the range in BINS."""
    values = np.unique(np.concatenate([law.values for law in laws]))
    values = values[(values >= low) & (values <= high)]
    gap = float(np.diff(values).min()) if values.size > 1 else 1.0
    steps = (values - low) / gap
    regular = np.abs(steps - np.rint(steps)).max() < 1e-6
    return gap if regular and (high - low) / gap <= 1.5 * BINS else (high - low) / BINS


def _bins(law: ReturnLaw, tau: float, low: float, high: float, bar: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Middles of the bars [m], their probability and how much of it belongs to the worst tau."""
    drawn = (law.values >= low) & (law.values <= high)
    worst = law.tail_masses(tau)
    place = np.rint((law.values[drawn] - low) / bar).astype(np.int64)
    mass, tail = (np.bincount(place, weights=w[drawn]) for w in (law.probs, worst))
    return low + bar * np.arange(mass.size), mass, tail


@style.look()
def frontier(subject: Subject, labels: Sequence[str], width: float, rng: np.random.Generator | None) -> Figure:
    """CVaR at every tail fraction: of the policies, of the one with the best mean, and the best possible."""
    lines = entries(subject, labels)
    figure, (axes,) = style.canvas(width, 0.68 * width)
    problem = subject.problems[0] if len(subject.problems) == 1 else None
    handles = _best(axes, problem) if problem is not None else []
    for i, line in enumerate(lines):
        least = max(_least_level(one) for one in line.shown)
        levels = LEVELS[least <= LEVELS]
        table = np.stack([[cvar_of(one, tau) for tau in levels] for one in line.shown])
        drawn = band(levels, [table], "mean", style.generator(rng))
        look = style.colour(i)
        (handle,) = axes.plot(levels, drawn.y, zorder=3, **look)
        if drawn.low is not None and drawn.high is not None:
            axes.fill_between(levels, drawn.low, drawn.high, color=look["color"], alpha=0.18, linewidth=0, zorder=2)
        own = float(np.mean([cvar_of(one, line.tau) for one in line.shown]))
        axes.plot([line.tau], [own], marker="o", markersize=4, color=look["color"], zorder=4)
        handles.append((handle, line.name))
    axes.set_xscale("log")
    axes.set_xlim(LEVELS[0], 1.0)
    axes.set_xticks([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0], ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"])
    axes.minorticks_off()
    axes.set_xlabel("tail fraction τ (1: the mean)")
    axes.set_ylabel("CVaR at τ")
    axes.legend([h for h, _ in handles], [text for _, text in handles], loc="best")
    return figure


def efficient(found: EfficientFrontier, width: float) -> Figure:
    """Best mean against CVaR, with what safety costs at both ends and in the middle."""
    figure, (axes,) = style.canvas(width, 0.68 * width)
    axes.fill_between(found.cvar, found.mean, found.upper, color=style.GREY, alpha=0.3, linewidth=0, zorder=1)
    axes.plot(found.cvar, found.mean, zorder=3, **style.colour(0))
    ends = [(0, "best CVaR", (-6, 2), "right"), (found.cvar.size - 1, "best mean", (6, 4), "left")]
    for i, text, shift, side in ends:
        axes.plot([found.cvar[i]], [found.mean[i]], marker="o", markersize=4, color=style.INK, zorder=4)
        axes.annotate(text, (found.cvar[i], found.mean[i]), shift, textcoords="offset points", ha=side)
    axes.margins(y=0.12)
    axes.set_xlabel(f"CVaR: mean of the worst {found.tau:.4g} of episodes")
    axes.set_ylabel("best mean")
    return figure


def _best(axes: Axes, problem: Offered) -> list[tuple[Any, str]]:
    pieces = problem.plan.frontier()
    (best,) = axes.plot(LEVELS, [pieces.cvar(tau) for tau in LEVELS], color=style.INK, linewidth=1.0, zorder=2)
    handles: list[tuple[Any, str]] = [
        (best, "best possible" if problem.plan.status == "exact" else "no policy exceeds")
    ]
    neutral = problem.neutral_law()
    if neutral is not None:
        y = [neutral.cvar(tau) for tau in LEVELS]
        (line,) = axes.plot(LEVELS, y, color=style.GREY, linewidth=1.0, linestyle=style.DASHES[1], zorder=1)
        handles.append((line, "best mean"))
    return handles


def cvar_of(shown: Shown, tau: float) -> float:
    """CVaR of a policy at any tau; a certified lower bound where its law is not exact."""
    return shown.evaluation.cvar(tau) if shown.evaluation is not None else law_of(shown).cvar(tau)


def _least_level(shown: Shown) -> float:
    return 0.0 if shown.evaluation is not None or shown.returns is None else min(1.0, IN_TAIL / shown.returns.size)
