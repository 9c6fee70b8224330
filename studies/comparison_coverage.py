"""How often the intervals of `tailrank compare` hold: writes the tables of docs/compare.md (some minutes).

    python studies/comparison_coverage.py [TABLE ...]

Every cell is how often a 95% interval held the true value, of 10,000; those of the tests, how often p was at most 0.05
though nothing differed. Experiments are resampled alike, some hundred at a time, with 1,000 resamples (5,000 below ten
runs) and 2,000 permutations.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import integrate, stats

from tailrank.risk.over_runs import intervals, survival
from tailrank.risk.over_runs.intervals import average, improvement, interquartile_mean, interval_ends, separated_end
from tailrank.risk.over_runs.survival import Waits, log_rank, median_of, survival_curve

PAGE = Path(__file__).resolve().parent.parent / "docs" / "compare.md"
TIMES, AT_ONCE = 10_000, 500
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


def holds(low: np.ndarray | None, value: float, high: np.ndarray | None) -> np.ndarray:
    """Which of many intervals hold the value."""
    return (np.asarray(low) <= value + 1e-12) & (value <= np.asarray(high) + 1e-12)


def cell(hits: list[bool] | np.ndarray) -> str:
    """A share of experiments."""
    return f"{np.mean(hits):.3f}"


def batches(n: int) -> range:
    """Where batches of experiments with n runs begin; sets how often they are resampled."""
    intervals.RESAMPLES = 5000 if n < 10 else 1000
    return range(0, TIMES, AT_ONCE)


def centres(rng: np.random.Generator) -> str:
    """Mean and interquartile mean of one task: plain quantiles, and those that are used."""
    rows = []
    for name, law in LAWS.items():
        for title, statistic, between in (
            ("mean", average, (0.0, 1.0)),
            ("interquartile mean", interquartile_mean, (0.25, 0.75)),
        ):
            value, cells = truth(law, *between), []
            for n in SIZES:
                plain, ours = [], []
                for _ in batches(n):
                    drawn = law(rng.random((AT_ONCE, n)))
                    narrow = stats.bootstrap(
                        [drawn], statistic, axis=-1, n_resamples=2000, batch=200, method="percentile", random_state=rng
                    ).confidence_interval
                    plain.append(holds(narrow.low, value, narrow.high))
                    low, high = interval_ends(statistic, [drawn], 0.95, rng)
                    ours.append(holds(low, value, high))
                cells.append(f"{cell(np.array(plain))}, {cell(np.array(ours))}")
            rows.append([name, title, *cells])
    return table(["law of a run", "of", *(f"n = {n}" for n in SIZES)], rows, 2)


def medians(rng: np.random.Generator) -> str:
    """The median of times, and the share that still waits at the true median, with runs that end before."""
    rows = []
    for ties in (False, True):
        value = np.log(2.0)
        value = np.ceil(4 * value) / 4 if ties else value
        for name, end in (("none", (np.inf, np.inf)), ("all at 1.5 medians", (1.05, 1.05)), ("anywhere", (0.2, 2.5))):
            cells, shares = [], []
            for n in SIZES:
                hits, opened, inside = [], [], []
                for _ in range(TIMES):
                    times = rng.exponential(size=n)
                    times = np.ceil(4 * times) / 4 if ties else times
                    last = np.full(n, end[0]) if end[0] == end[1] else rng.uniform(*end, n)
                    waits = Waits(np.minimum(times, last), times <= last)
                    line = survival_curve(waits, 0.95)
                    found = median_of(line, waits.longest)
                    beyond = found.low is None and value <= found.beyond
                    hits.append(not beyond and held(found.low, value, found.high))
                    opened.append(found.high is None)
                    if waits.longest >= value:  # later, nothing is said
                        k = int(np.searchsorted(line.x, value, side="right")) - 1
                        inside.append(k < 0 or held(line.low[k], np.exp(-value), line.high[k]))
                cells.append(f"{cell(hits)} ({cell(opened)})")
                shares.append(cell(inside))
            what = f"exponential{', ties' if ties else ''}"
            rows += [["median", what, name, *cells], ["share at the median", what, name, *shares]]
    return table(["of", "times", "runs that end before", *(f"n = {n}" for n in SIZES)], rows, 3)


def improvements(rng: np.random.Generator) -> str:
    """Probability of improvement of two normal laws, one task or three."""
    rows = []
    for shift in (0.0, 1.0, 3.0):
        value = float(stats.norm.cdf(shift / np.sqrt(2.0)))
        for tasks in (1, 3):
            cells = []
            for n in SIZES[:-1]:
                hits = []
                for _ in batches(n):
                    x, y = (rng.normal(mean, 1.0, (tasks, AT_ONCE, n)) for mean in (shift, 0.0))
                    low, high = interval_ends(improvement, [*x, *y], 0.95, rng)
                    # Where all runs of one are above all of the other, as in `intervals.improvement_interval`.
                    won, end = improvement(*x, *y), separated_end([n] * tasks, 0.95)
                    low, high = np.where(won == 1.0, end, low), np.where(won == 0.0, 1.0 - end, high)
                    hits.append(holds(low, value, high))
                cells.append(cell(np.array(hits)))
            rows.append([f"{value:.2f}", f"{tasks}", *cells])
    return table(["probability", "tasks", *(f"n = {n}" for n in SIZES[:-1])], rows, 2)


def alarms(rng: np.random.Generator) -> str:
    """False alarms of the log-rank test."""
    survival.PERMUTATIONS = 2000
    rows = []
    for name, lengths in (("of one length", (1.5, 1.5)), ("half as long in one sample", (1.5, 0.75))):
        cells = []
        for n in SIZES[:-1]:
            hits = []
            for _ in range(TIMES):
                samples = []
                for end in lengths:
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
    for make in (medians, centres, improvements, alarms):
        name = make.__name__
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        made = make(np.random.default_rng(0))
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        text = mark.sub(lambda found, made=made: f"{found[1]}{made}\n{found[2]}", PAGE.read_text(encoding="utf-8"))  # type: ignore[misc]
        PAGE.write_text(text, encoding="utf-8")
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
