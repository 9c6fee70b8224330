"""How often the intervals of `tailrank compare` hold: writes the tables of docs/compare.md (some minutes).

    python studies/comparison_coverage.py

Every cell is how often a 95% interval held the true value; those of the tests, how often p was at most 0.05 though
nothing differed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import integrate, stats

from tailrank.statistics.intervals import average, improved, middle, resampled
from tailrank.statistics.seeds import band
from tailrank.statistics.survival import Waits, log_rank, median

PAGE = Path(__file__).resolve().parent.parent / "docs" / "compare.md"
TIMES = 1000
SIZES = (3, 5, 10, 20, 50)
Quantiles = Callable[[np.ndarray], np.ndarray]
LAWS: dict[str, Quantiles] = {
    "normal": stats.norm.ppf,
    "exponential": stats.expon.ppf,
    "0 or 1, 20% zeros": lambda u: np.where(u > 0.2, 1.0, 0.0),
    "60% ones, else uniform": lambda u: np.minimum(u / 0.4, 1.0),
}


def truth(law: Quantiles, low: float, high: float) -> float:
    """The mean between two quantiles."""
    bends = [low, *(u for u in (0.2, 0.4) if low < u < high), high]
    return sum(integrate.quad(law, a, b)[0] for a, b in pairwise(bends)) / (high - low)


def held(low: float | None, value: float, high: float | None) -> bool:
    """Whether an interval holds the value; None is no end."""
    return (low is None or low <= value + 1e-12) and (high is None or value <= high + 1e-12)


def cell(hits: list[bool]) -> str:
    """A share of experiments."""
    return f"{np.mean(hits):.2f}"


def centres(rng: np.random.Generator) -> str:
    """Mean and interquartile mean of one task: plain quantiles, and those that are used."""
    rows = []
    for name, law in LAWS.items():
        for title, how, statistic, ends in (
            ("mean", "mean", average, (0.0, 1.0)),
            ("interquartile mean", "iqm", middle, (0.25, 0.75)),
        ):
            value, plain, ours = truth(law, *ends), [], []
            for n in SIZES:
                drawn = law(rng.random((TIMES, n)))
                lines = [band(np.zeros(1), [one[:, None]], how, rng) for one in drawn]
                plain.append(cell([held(line.low[0], value, line.high[0]) for line in lines]))
                found = [resampled(statistic, [one], 0.95, rng) for one in drawn]
                ours.append(cell([held(one.low, value, one.high) for one in found]))
            rows.append([name, title, *(f"{a}, {b}" for a, b in zip(plain, ours, strict=True))])
    return table(["law of a run", "of", *(f"n = {n}" for n in SIZES)], rows, 2)


def medians(rng: np.random.Generator) -> str:
    """The median of times, with runs that end before."""
    rows = []
    for ties in (False, True):
        value = np.log(2.0)
        value = np.ceil(4 * value) / 4 if ties else value
        for name, end in (("none", (np.inf, np.inf)), ("all at 1.5 medians", (1.05, 1.05)), ("anywhere", (0.2, 2.5))):
            cells = []
            for n in SIZES:
                hits, opened = [], []
                for _ in range(TIMES):
                    times = rng.exponential(size=n)
                    times = np.ceil(4 * times) / 4 if ties else times
                    ends = np.full(n, end[0]) if end[0] == end[1] else rng.uniform(*end, n)
                    found = median(Waits(np.minimum(times, ends), times <= ends), 0.95)
                    beyond = found.low is None and value <= found.beyond
                    hits.append(not beyond and held(found.low, value, found.high))
                    opened.append(found.high is None)
                cells.append(f"{cell(hits)} ({cell(opened)})")
            rows.append([f"exponential{', ties' if ties else ''}", name, *cells])
    return table(["times", "runs that end before", *(f"n = {n}" for n in SIZES)], rows, 2)


def improvements(rng: np.random.Generator) -> str:
    """Probability of improvement of two normal laws, one task or three."""
    rows = []
    for shift in (0.0, 1.0, 3.0):
        value = float(stats.norm.cdf(shift / np.sqrt(2.0)))
        for tasks in (1, 3):
            cells = []
            for n in SIZES[:-1]:
                x, y = rng.normal(shift, 1.0, (TIMES, tasks, n)), rng.normal(0.0, 1.0, (TIMES, tasks, n))
                found = [improved(list(a), list(b), 0.95, rng) for a, b in zip(x, y, strict=True)]
                cells.append(cell([held(one.low, value, one.high) for one in found]))
            rows.append([f"{value:.2f}", f"{tasks}", *cells])
    return table(["probability", "tasks", *(f"n = {n}" for n in SIZES[:-1])], rows, 2)


def alarms(rng: np.random.Generator) -> str:
    """False alarms of the log-rank test."""
    rows = []
    for name, ends in (("of one length", (1.5, 1.5)), ("half as long in one sample", (1.5, 0.75))):
        cells = []
        for n in SIZES[:-1]:
            hits = []
            for _ in range(TIMES // 2):
                samples = []
                for end in ends:
                    times = rng.exponential(size=n)
                    samples.append(Waits(np.minimum(times, end), times <= end))
                hits.append(log_rank(samples[0], samples[1], rng).p <= 0.05)
            cells.append(cell(hits))
        rows.append([name, *cells])
    return table(["runs", *(f"n = {n}" for n in SIZES[:-1])], rows, 1)


def table(head: list[str], rows: list[list[str]], names: int) -> str:
    """Markdown."""
    lines = [head, ["---"] * names + ["---:"] * (len(head) - names), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Replace the tables between their marks."""
    began = time.perf_counter()
    for make in (centres, medians, improvements, alarms):
        made, name = make(np.random.default_rng(0)), make.__name__
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        text = mark.sub(lambda found, made=made: f"{found[1]}{made}\n{found[2]}", PAGE.read_text(encoding="utf-8"))  # type: ignore[misc]
        PAGE.write_text(text, encoding="utf-8")
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
