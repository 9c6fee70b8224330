"""How often the intervals hold and how wide they are: writes the tables of docs/evaluation.md (about a minute).

    python studies/bound_coverage.py

Every cell is `coverage, width`: how often a two-sided 95% interval held the true value, and its mean width, over
10,000 experiments (500 with 1,000 resamples each for the bootstraps). Returns lie in [0, 1].
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import special

from tailrank import bootstrap, bounds
from tailrank.estimate import until_narrow
from tailrank.risk import ReturnLaw

PAGE = Path(__file__).resolve().parent.parent / "docs" / "evaluation.md"
TIMES, BOOTSTRAPS, RESAMPLES, STOPS = 10_000, 500, 1000, 1000
EACH, ENDS = (0.025, 0.025), (0.0, 1.0)
Sampler = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def two(low: float, p: float, high: float) -> tuple[Sampler, ReturnLaw]:
    """Two points."""
    return lambda rng, shape: np.where(rng.random(shape) < p, low, high), ReturnLaw.of([low, high], [p, 1 - p])


ATOMS = ReturnLaw.of([0.0, 0.25, 0.5, 1.0], [0.03, 0.12, 0.6, 0.25])
LAWS: dict[str, tuple[Sampler, ReturnLaw | None]] = {
    "uniform": (lambda rng, shape: rng.random(shape), None),
    "beta(8, 2)": (lambda rng, shape: rng.beta(8, 2, shape), None),
    "0 or 1, 15% zeros": two(0.0, 0.15, 1.0),
    "0 or 0.7, 2% zeros": two(0.0, 0.02, 0.7),
    "four atoms": (lambda rng, shape: rng.choice(ATOMS.values, p=ATOMS.probs, size=shape), ATOMS),
}


def truth(name: str, tau: float) -> tuple[float, float]:
    """CVaR and VaR."""
    law = LAWS[name][1]
    if law is not None:
        return law.cvar(tau), law.var(tau)
    if name == "uniform":
        return tau / 2, tau
    quantile = float(special.betaincinv(8, 2, tau))
    return float(0.8 * special.betainc(9, 2, quantile) / tau), quantile


def cell(found: tuple[np.ndarray, np.ndarray], value: float) -> str:
    """Coverage and mean width."""
    lower, upper = (np.clip(end, *ENDS) for end in found)
    held = np.mean((lower <= value + 1e-12) & (value <= upper + 1e-12))
    text = "1" if held == 1 else f"{held:.4f}".rstrip("0")
    return f"{text}, {np.mean(upper - lower):.3f}"


def resampled(x: np.ndarray, tau: float, value: float, rng: np.random.Generator) -> list[str]:
    """The cells of the bootstraps."""
    return [
        cell(tuple(np.array([bootstrap.interval(row, tau, EACH, kind, rng) for row in x]).T), value)  # type: ignore[arg-type]
        for kind in bootstrap.KINDS
    ]


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * 2 + ["---:"] * (len(head) - 2), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cvar_table(rng: np.random.Generator) -> str:
    """CVaR: every method."""
    rows = []
    for name, (draw, _) in LAWS.items():
        for tau in (0.05, 0.2):
            for n in (100, 1000):
                x = np.sort(draw(rng, (TIMES, n)), axis=1)
                value = truth(name, tau)[0]
                cells = [cell(bounds.METHODS[m](x, tau, EACH, ENDS), value) for m in ("beta", "thomas", "brown")]  # type: ignore[misc]
                rows.append([name, f"{tau}, {n}", *cells, *resampled(x[:BOOTSTRAPS], tau, value, rng)])
    return table(["law", "tau, n", "beta", "thomas = dkw", "brown", "*bca*", "*percentile*"], rows)


def mean_table(rng: np.random.Generator) -> str:
    """The mean, and VaR at tau = 0.1."""
    rows = []
    for name, (draw, _) in LAWS.items():
        for n in (100, 1000):
            x = np.sort(draw(rng, (TIMES, n)), axis=1)
            methods = ("beta", "anderson", "hoeffding", "bernstein")
            cells = [cell(bounds.MEAN_METHODS[m](x, 1.0, EACH, ENDS), truth(name, 1.0)[0]) for m in methods]  # type: ignore[misc]
            rows.append([name, str(n), *cells, cell(bounds.order_bounds(x, 0.1, EACH, ENDS), truth(name, 0.1)[1])])
    return table(["law", "n", "beta", "anderson", "hoeffding", "bernstein", "VaR at 0.1: order"], rows)


def stop_table(rng: np.random.Generator) -> str:
    """Stopping when the interval is narrow."""
    rows = []
    for name, (draw, _) in LAWS.items():
        for width in (0.2, 0.1):
            tau, ends, sizes = 0.1, [], []
            for _ in range(STOPS):
                (one,) = until_narrow(lambda n, d=draw: d(rng, (n,)), (tau,), width, 20_000, 0.95, ENDS)  # type: ignore[misc]
                ends.append((one.lower, one.upper))
                sizes.append(one.episodes)
            looks = ", ".join(f"{s} ({np.mean(np.array(sizes) == s):.0%})" for s in sorted(set(sizes)))
            lower, upper = np.array(ends).T
            rows.append([name, str(width), cell((lower, upper), truth(name, tau)[0]), f"{np.mean(sizes):.0f}", looks])
    return table(["law", "asked width", "coverage, width", "mean episodes", "stopped after"], rows)


def main() -> None:
    """Replace the tables between their marks."""
    bootstrap.RESAMPLES = RESAMPLES
    began, text = time.perf_counter(), PAGE.read_text(encoding="utf-8")
    for name, make in (("cvar", cvar_table), ("mean", mean_table), ("stop", stop_table)):
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        made = make(np.random.default_rng(0))
        text = mark.sub(lambda found, made=made: f"{found[1]}{made}\n{found[2]}", text)  # type: ignore[misc]
        print(f"{name}: {time.perf_counter() - began:.0f} s")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
