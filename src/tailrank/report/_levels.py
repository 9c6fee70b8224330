"""Where the tau slider of a report can stand, and laws and curves made small without changing any number there.

The mean of the worst tau of a law does not change when neighbouring values are merged into their mean, as long as
none of them is cut at tau. So a law of any length can be shortened: values that some slider position cuts stay as
they are, the others are merged, and VaR, CVaR and mean are still exact at every position.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np

from tailrank.checks import tail_level
from tailrank.planning.exact.curve import Curve
from tailrank.risk.law import LEVEL_TOLERANCE, ReturnLaw

THOUSANDTHS = (*range(1, 10), *range(10, 200, 5), *range(200, 1001, 10))
INLINE = 48
"""Arrays up to this length are written as numbers, longer ones as the bytes of their floats."""


def slider(own: Iterable[float] = ()) -> tuple[float, ...]:
    """The positions: .001 to .01, to .2 and to 1 in steps of .001, .005 and .01, and the plans' own levels."""
    return tuple(sorted({n / 1000 for n in THOUSANDTHS} | {tail_level(tau) for tau in own}))


def pack(values: np.ndarray) -> list[float | None] | dict[str, str]:
    """Floats [n] for the page, to the last bit; NaN is null."""
    array = np.ascontiguousarray(values, dtype="<f8")
    if array.size <= INLINE:
        return [None if np.isnan(x) else float(x) for x in array]
    return {"f8": base64.b64encode(array.tobytes()).decode("ascii")}


def pack_law(law: ReturnLaw, levels: tuple[float, ...], most: int) -> dict[str, Any]:
    """A law for the page, with at most `most` values (more where the slider has more positions)."""
    short = shorten_law(law, levels, most)
    return {
        "values": pack(short.values),
        "probs": pack(short.probs),
        "atoms": int(law.values.size),
        "merged": short is not law,
    }


def shorten_law(law: ReturnLaw, levels: tuple[float, ...], most: int) -> ReturnLaw:
    """`law` with values merged that no level in `levels` cuts; its VaR and CVaR at the levels stay the same."""
    n = law.values.size
    if n <= most:
        return law
    slack = np.minimum(LEVEL_TOLERANCE, 0.5 * np.asarray(levels))
    cut = np.searchsorted(law.cumulative, np.asarray(levels) - slack)
    # Each end is kept too: the picture and the best and worst case should not move.
    alone = np.zeros(n, dtype=bool)
    alone[[0, *np.minimum(cut, n - 1), n - 1]] = True
    room = max(most - int(alone.sum()), int(alone.sum()))
    place = np.floor((law.values - law.values[0]) / (law.values[-1] - law.values[0]) * room)
    fresh = np.ones(n, dtype=bool)
    fresh[1:] = alone[1:] | alone[:-1] | (place[1:] != place[:-1])
    begin = np.flatnonzero(fresh)
    mass = np.add.reduceat(law.probs, begin)
    # Counted from the first value of each group, so that a large offset costs no digits.
    first = law.values[begin]
    owner = np.cumsum(fresh) - 1
    shift = np.add.reduceat(law.probs * (law.values - first[owner]), begin)
    return ReturnLaw(first + shift / mass, mass)


def pack_curve(curve: Curve, levels: tuple[float, ...], most: int = 600) -> dict[str, Any]:
    """Points (c, V(c)) for the page: those that are best at one of the levels, and enough others to draw the rest."""
    n = curve.budget.size
    keep = np.zeros(n, dtype=bool)
    keep[np.unique(np.linspace(0, n - 1, min(most, n)).astype(np.int64))] = True
    for tau in levels:
        keep[[curve.best(tau), int(curve.objective(tau).argmax())]] = True
    return {"budget": pack(curve.budget[keep]), "shortfall": pack(curve.shortfall[keep])}
