"""A law of returns as a small picture for notebooks: bars, with the worst tau of them in another colour."""

from __future__ import annotations

import html

import numpy as np

from tailrank.risk.law import ReturnLaw

WIDTH, HEIGHT, BARS = 320, 90, 32
TAIL, REST = "#c0392b", "#7f9fb6"


def picture(law: ReturnLaw, tau: float) -> str:
    """An <svg> element without scripts or styles."""
    low, high = float(law.values[0]), float(law.values[-1])
    place = np.minimum((law.values - low) / ((high - low) or 1.0) * BARS, BARS - 1).astype(np.int64)
    before = np.concatenate([[0.0], law.cumulative[:-1]])
    worst = np.clip(tau - before, 0.0, law.probs)
    tails, sums = (np.bincount(place, weights=w, minlength=BARS) for w in (worst, law.probs))
    step, scale = WIDTH / BARS, HEIGHT / float(sums.max())
    bars = []
    for i in np.flatnonzero(sums > 0):
        for mass, at, colour in ((sums[i] - tails[i], tails[i], REST), (tails[i], 0.0, TAIL)):
            if mass > 0:
                bars.append(
                    f'<rect x="{i * step:.1f}" y="{HEIGHT - (at + mass) * scale:.1f}" width="{step - 1:.1f}" '
                    f'height="{max(mass * scale, 0.6):.1f}" fill="{colour}"/>'
                )
    label = f"returns from {low:.6g} to {high:.6g}; red: the worst {100 * tau:g}%"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{html.escape(label)}">{"".join(bars)}</svg><div><small>{html.escape(label)}</small></div>'
    )


def page(title: str, rows: dict[str, str], law: ReturnLaw | None, tau: float | None) -> str:
    """A table of names and values, and the picture where there is a law."""
    cells = "".join(f"<tr><td>{html.escape(k)}</td><td>{html.escape(v)}</td></tr>" for k, v in rows.items())
    drawn = "" if law is None or tau is None else picture(law, tau)
    return f"<div><b>{html.escape(title)}</b><table>{cells}</table>{drawn}</div>"
