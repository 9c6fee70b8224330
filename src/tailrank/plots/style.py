"""One look for all figures: readable in a column of a paper, safe for the colour-blind, text kept as text.

Colours are those of Okabe and Ito (2008). Lines carry their name at their right end where there is room, else there
is a legend above. Fonts are embedded as outlines that scale (Type 42 in PDF). The same data gives the same bytes.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrank._system.atomic import write_bytes
from tailrank.checks import InputError, did_you_mean, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES: tuple[Any, ...] = ("solid", (0, (4.0, 1.6)), (0, (1.2, 1.2)))
GREY, INK = "#767676", "#1a1a1a"
MOST_LINES = len(PALETTE) * len(DASHES)
DIRECT = 5
LONGEST_DIRECT = 16
"""Lines and letters up to which names stand at the ends of lines instead of in a legend."""
COLUMN = 3.4
SUFFIXES = (".png", ".svg", ".pdf")
RC: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "axes.titlesize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "mathtext.fontset": "dejavusans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "axes.grid": False,
    "axes.unicode_minus": True,
    "lines.linewidth": 1.4,
    "lines.solid_capstyle": "round",
    "lines.dash_capstyle": "butt",
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.borderaxespad": 0.4,
    "legend.borderpad": 0.0,
    "legend.columnspacing": 1.2,
    "legend.handletextpad": 0.5,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 300.0,
    "figure.dpi": 150.0,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "tailrank",
    "axes.axisbelow": True,
    "text.parse_math": False,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
}


@contextmanager
def look() -> Iterator[None]:
    """The settings of matplotlib for a figure of this package, for a while."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise InputError("plot: needs matplotlib; install it with: pip install 'tailrank[plot]'") from None
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(RC)
        yield


def canvas(width: float, height: float, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of so many inches with `rows` axes above each other that share x."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if not 1.0 <= number(width, "width") <= 30.0:
        raise InputError(f"width = {width:g}: must be 1 to 30 inches")
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0])
    axes[0].xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    return figure, axes


def save(figure: Figure, path: str | Path) -> int:
    """Write the figure to a .png, .svg or .pdf file, all or nothing; the number of bytes."""
    path = Path(path)
    checked_path(path)
    plain: dict[str, dict[str, Any]] = {
        ".png": {"Software": None},
        ".svg": {"Date": None, "Creator": None},
        ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    file = io.BytesIO()
    with look():
        suffix = path.suffix.lower()
        figure.savefig(file, format=suffix[1:], dpi=RC["savefig.dpi"], metadata=plain[suffix])
    write_bytes(path, file.getvalue())
    return len(file.getvalue())


def checked_path(path: Path) -> None:
    """Raise where no figure can be written, before the work is done."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        near = did_you_mean(suffix, SUFFIXES)
        raise InputError(f"{path}: a figure must be one of the file types {', '.join(SUFFIXES)}{near}")
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"{path}: must be a file in a folder that exists")


def colour(i: int) -> dict[str, Any]:
    """Colour and dashes of line i."""
    if i >= MOST_LINES:
        raise InputError(f"lines: {MOST_LINES} can be told apart in a figure, found more; draw fewer configurations")
    return {"color": PALETTE[i % len(PALETTE)], "linestyle": DASHES[i // len(PALETTE)]}


@dataclass(frozen=True)
class Name:
    """The name of a line that ends at height y; `handle` is what a legend shows."""

    text: str
    y: float
    color: str
    handle: Any


def name_lines(figure: Figure, axes: Axes, names: Sequence[Name]) -> None:
    """Names at the right ends of the lines, moved apart where they would touch; a legend where they do not fit."""
    names = [name for name in names if name.text]
    if not names:
        return
    if len(names) > DIRECT or max(len(name.text) for name in names) > LONGEST_DIRECT:
        legend(figure, names)
        return
    figure.draw_without_rendering()
    height = axes.get_window_extent().height / figure.dpi * 72.0
    ends = [float(axes.transAxes.inverted().transform(axes.transData.transform((1.0, name.y)))[1]) for name in names]
    for name, y in zip(names, spread(ends, 1.3 * RC["legend.fontsize"] / height), strict=True):
        axes.annotate(
            name.text,
            (1.0, y),
            xycoords="axes fraction",
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            ha="left",
            color=name.color,
            fontsize=RC["legend.fontsize"],
            annotation_clip=False,
        )


def legend(figure: Figure, names: Sequence[Name]) -> None:
    """All names above the figure."""
    letters = max(len(name.text) for name in names) + 6
    columns = int(np.clip(figure.get_figwidth() * 18 // letters, 1, len(names)))
    handles, texts = [name.handle for name in names], [name.text for name in names]
    figure.legend(handles, texts, loc="outside upper left", ncols=columns)


def spread(ends: Sequence[float], gap: float) -> list[float]:
    """Heights as near to `ends` [n] as can be that keep their order and are at least `gap` apart.

    Least squares under y_(i+1) >= y_(i) + gap: the isotonic fit of the sorted ends less i gap, by pooling neighbours.
    """
    order = np.argsort(ends, kind="stable")
    pools: list[list[float]] = []
    for place, i in enumerate(order):
        pools.append([float(ends[i]) - place * gap, 1.0])
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (a, m), (b, n) = pools[-2:]
            pools[-2:] = [[(a * m + b * n) / (m + n), m + n]]
    fitted = np.repeat([mean for mean, _ in pools], [int(size) for _, size in pools])
    result = [0.0] * len(ends)
    for place, i in enumerate(order):
        result[i] = float(fitted[place] + place * gap)
    return result


def thousands(axis: Any) -> None:
    """Write 20000 as 20k on an axis that is that long."""
    high = max(map(abs, axis.get_view_interval()))
    if high < 1e4:
        return
    unit, letter = (1e6, "M") if high >= 1e7 else (1e3, "k")
    axis.set_major_formatter(lambda x, _: f"{x / unit:g}{letter}" if x else "0")


def decades(axes: Axes, which: str) -> None:
    """A logarithmic axis with plain numbers: 1, 2, 5 where there are few decades, else 1, 10, 100."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    low, high = axis.get_view_interval()
    subs = (1.0, 2.0, 5.0) if high < 200 * low else (1.0,)
    axis.set_major_locator(LogLocator(base=10, subs=subs))
    axis.set_major_formatter(
        lambda x, _: f"{x:g}" if 1e-4 <= x < 1e4 else f"{x:.0e}".replace("e+0", "e").replace("e-0", "e-")
    )
    axis.set_minor_formatter(NullFormatter())


def generator(rng: np.random.Generator | None) -> np.random.Generator:
    """What draws the resamples of one line: for each the same, so that no band depends on what else is drawn."""
    return np.random.default_rng(0) if rng is None else copy.deepcopy(rng)
