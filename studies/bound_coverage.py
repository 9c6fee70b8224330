"""How often the intervals hold and how wide they are: writes the tables of docs/evaluation.md (a quarter of an hour).

    python studies/bound_coverage.py [TABLE ...]

Every cell is `coverage, width`: how often a two-sided 95% interval held the true value, and its mean width, over
10,000 experiments (with 1,000 resamples each for the bootstraps). Returns lie in [0, 1].
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import special

from tailrank.planning.evaluate import stages
from tailrank.risk import _bootstrap as bootstrap
from tailrank.risk import intervals
from tailrank.risk.law import ReturnLaw, tail_weights

PAGE = Path(__file__).resolve().parent.parent / "docs" / "evaluation.md"
TIMES, RESAMPLES, AT_ONCE = 10_000, 1000, 500
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
    return f"{share(held)}, {np.mean(upper - lower):.3f}"


def share(held: np.floating | float) -> str:
    """A share of experiments."""
    return "1" if held == 1 else f"{held:.4f}".rstrip("0").rstrip(".")


def resampled(x: np.ndarray, tau: float, value: float, rng: np.random.Generator) -> list[str]:
    """The cells of the bootstraps."""
    n = x.shape[1]
    weights = tail_weights(n, tau)
    weights = weights[weights > 0.0]
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in bootstrap.KINDS}
    for begin in range(0, TIMES, AT_ONCE):
        # The same resamples for some hundred experiments: their CVaRs are then one product of matrices.
        some, how = x[begin : begin + AT_ONCE], np.zeros((RESAMPLES, n))
        np.add.at(how, (np.arange(RESAMPLES)[:, None], bootstrap.places(n, weights.size, RESAMPLES, rng)), weights)
        for row, tails in zip(some, some @ how.T, strict=True):
            for kind, ends in found.items():
                ends.append(bootstrap.ends(tails, row, tau, EACH, kind))
    return [cell(tuple(np.array(ends).T), value) for ends in found.values()]  # type: ignore[arg-type]


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
                cells = [cell(intervals.METHODS[m](x, tau, EACH, ENDS), value) for m in ("beta", "thomas", "brown")]  # type: ignore[misc]
                rows.append([name, f"{tau}, {n}", *cells, *resampled(x, tau, value, rng)])
    return table(["law", "tau, n", "beta", "thomas = dkw", "brown", "*bca*", "*percentile*"], rows)


def mean_table(rng: np.random.Generator) -> str:
    """The mean, and VaR at tau = 0.1."""
    rows = []
    for name, (draw, _) in LAWS.items():
        for n in (100, 1000):
            x = np.sort(draw(rng, (TIMES, n)), axis=1)
            methods = ("beta", "anderson", "hoeffding", "bernstein")
            cells = [cell(intervals.MEAN_METHODS[m](x, 1.0, EACH, ENDS), truth(name, 1.0)[0]) for m in methods]  # type: ignore[misc]
            order = cell(intervals.order_bounds(x, 0.1, EACH, ENDS), truth(name, 0.1)[1])
            sampled = resampled(x, 1.0, truth(name, 1.0)[0], rng) if n == 100 else ["", ""]
            rows.append([name, str(n), *cells, *sampled, order])
    head = ["beta", "anderson", "hoeffding", "bernstein", "*bca*", "*percentile*", "VaR at 0.1: order"]
    return table(["law", "n", *head], rows)


def small_table(rng: np.random.Generator) -> str:
    """Where the tail has less than one sample, or a few."""
    rows = []
    for name, (draw, _) in LAWS.items():
        for tau, n in ((0.05, 1), (0.05, 2), (0.05, 10), (0.2, 10)):
            x = np.sort(draw(rng, (TIMES, n)), axis=1)
            value = truth(name, tau)[0]
            cells = [cell(intervals.METHODS[m](x, tau, EACH, ENDS), value) for m in ("beta", "thomas", "brown")]  # type: ignore[misc]
            order = cell(intervals.order_bounds(x, tau, EACH, ENDS), truth(name, tau)[1])
            rows.append([name, f"{tau}, {n}", *cells, order, *resampled(x, tau, value, rng)])
    return table(["law", "tau, n", "beta", "thomas = dkw", "brown", "VaR: order", "*bca*", "*percentile*"], rows)


def side_table(rng: np.random.Generator) -> str:
    """One-sided 95% bounds, lower and upper: tau = 0.1, and the mean."""
    rows, tau, one = [], 0.1, (0.05, 0.05)
    for name, (draw, _) in LAWS.items():
        for n in (20, 300):
            x = np.sort(draw(rng, (TIMES, n)), axis=1)
            (value, quantile), (mean, _) = truth(name, tau), truth(name, 1.0)
            found = [(intervals.METHODS[m](x, tau, one, ENDS), value) for m in ("beta", "thomas")]  # type: ignore[misc]
            # The two-sided inequality spends as much on a bound as on an interval.
            lower, upper = (intervals.dkw(x, tau, d, ENDS) for d in ((0.05, 1.0), (1.0, 0.05)))
            found += [((lower[0], upper[1]), value), (intervals.brown(x, tau, one, ENDS), value)]
            found += [(intervals.order_bounds(x, tau, one, ENDS), quantile)]
            methods = ("anderson", "hoeffding", "bernstein")
            found += [(intervals.MEAN_METHODS[m](x, 1.0, one, ENDS), mean) for m in methods]  # type: ignore[misc]
            cells = [
                f"{share(np.mean(low <= v + 1e-12))}, {share(np.mean(v <= high + 1e-12))}" for (low, high), v in found
            ]
            rows.append([name, str(n), *cells])
    head = ["beta", "thomas", "dkw", "brown", "VaR: order", "mean: anderson", "hoeffding", "bernstein"]
    return table(["law", "n", *head], rows)


def looks(draw: Sampler, tau: float, most: int, rng: np.random.Generator) -> tuple[list[int], np.ndarray]:
    """The numbers of episodes at which `width` looks, and the intervals there, [experiments, looks, 2]."""
    sizes, found = list(stages(tau, most)), []
    for _ in range(TIMES // AT_ONCE):
        x, ends = draw(rng, (AT_ONCE, most)), []
        for k, n in enumerate(sizes, start=1):
            half = 0.025 / (k * (k + 1))
            worst = int(tau * n + 12.0 * np.sqrt(tau * n) + 60.0)  # the others weigh nothing (`bands._indices`)
            now = np.partition(x[:, :n], worst, axis=1)
            now[:, :worst].sort(axis=1)
            lower, upper = intervals.beta(now, tau, (half, half), ENDS)
            ends.append(np.stack([np.clip(lower, *ENDS), np.clip(upper, *ENDS)], -1))
        found.append(np.stack(ends, axis=1))
    return sizes, np.concatenate(found)


def stop_table(rng: np.random.Generator) -> str:
    """Stopping when the interval is narrow, and all intervals that might have been looked at."""
    rows, tau = [], 0.1
    for name, (draw, _) in LAWS.items():
        sizes, found = looks(draw, tau, 20_000, rng)
        value = truth(name, tau)[0]
        held = (found[..., 0] <= value + 1e-12) & (value <= found[..., 1] + 1e-12)
        for width in (0.2, 0.1):
            narrow = np.ptp(found, axis=2) <= width
            last = np.where(narrow.any(axis=1), narrow.argmax(axis=1), len(sizes) - 1)
            own, played = found[np.arange(TIMES), last], np.array(sizes)[last]
            often = ", ".join(f"{s} ({np.mean(played == s):.0%})" for s in sizes if (played == s).any())
            stopped = cell((own[:, 0], own[:, 1]), value)
            rows.append([name, str(width), stopped, share(held.all(axis=1).mean()), f"{played.mean():.0f}", often])
    return table(["law", "asked width", "coverage, width", "all looks hold", "mean episodes", "stopped after"], rows)


TABLES = {"cvar": cvar_table, "small": small_table, "side": side_table, "mean": mean_table, "stop": stop_table}


def main() -> None:
    """Replace the tables between their marks."""
    began = time.perf_counter()
    for name in sys.argv[1:] or TABLES:
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        made = TABLES[name](np.random.default_rng(0))
        text = mark.sub(lambda found, made=made: f"{found[1]}{made}\n{found[2]}", PAGE.read_text(encoding="utf-8"))  # type: ignore[misc]
        PAGE.write_text(text, encoding="utf-8")
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
