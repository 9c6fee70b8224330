"""A comparison as tables of text, for the terminal and the page: every cell is `value (low to high)`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tailrank.comparison.across import ABOVE
from tailrank.comparison.compare import Comparison
from tailrank.comparison.measures import Options, Reached, TaskResults
from tailrank.risk.over_runs.intervals import SeedInterval
from tailrank.risk.over_runs.survival import PERMUTATIONS, Median

NOTHING = "-"


@dataclass(frozen=True)
class Table:
    """Columns and rows of text; the first column is of names."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def of_task(found: Comparison, task: TaskResults) -> Iterator[Table]:
    """The tables of one task, those that have anything to say."""
    names, options = found.methods, found.options
    if any(cell.first is not None for cell in task.cells):
        yield _episodes(names, task, options)
    if task.tests:
        yield _tests(names, task)
    yield _worth(names, task, options)
    if any(cell.seconds is not None for cell in task.cells):
        yield _time(names, task)


def over_all(found: Comparison) -> Iterator[Table]:
    """The tables over all tasks."""
    names = found.methods
    if len(found.tasks) > 1 and any(cell.first is not None for task in found.tasks for cell in task.cells):
        yield _medians(found)
    if found.overall:
        shares = tuple(f"runs above {limit:g}" for limit in ABOVE)
        rows = tuple((names[one.method], *map(interval, (one.iqm, one.mean, *one.above))) for one in found.overall)
        count = f"{found.overall[0].tasks} tasks" if found.overall[0].tasks > 1 else "one task"
        title = f"Score ({share_name(found.options)} of the {found.options.score} plan) over {count}"
        yield Table(title, ("configuration", "interquartile mean", "mean", *shares), rows)
    if found.pairs:
        rows = tuple(
            (f"{names[one.pair[0]]} above {names[one.pair[1]]}", f"{one.tasks}", interval(one.improvement))
            for one in found.pairs
        )
        title = f"Probability that a run of one ends above a run of the other ({found.options.score} plan)"
        yield Table(title, ("configurations", "tasks", "probability"), rows)


def _medians(found: Comparison) -> Table:
    rows = []
    for task in found.tasks:
        cell = {one.method: one.first for one in task.cells}
        known = [cell.get(m) for m in range(len(found.methods))]
        rows.append((task.name, *(NOTHING if one is None else median(one.median) for one in known)))
    title = f"Median episodes to within {100 * found.options.within:g}% of CVaR*"
    return Table(title, ("task", *found.methods), tuple(rows))


def task_title(task: TaskResults) -> str:
    """Its name and CVaR*."""
    return task.name if task.star is None else f"{task.name}: CVaR* = {short(task.star)}"


def share_name(options: Options) -> str:
    """What a score is."""
    if options.floor == 0:
        return "CVaR / CVaR*"
    return f"(CVaR - {options.floor:g}) / (CVaR* - {options.floor:g})"


def _episodes(names: tuple[str, ...], task: TaskResults, options: Options) -> Table:
    known = [cell.first for cell in task.cells if cell.first is not None]
    columns = (
        "configuration",
        "runs",
        "share\nthere",
        "median",
        f"mean up to\n{short(known[0].until)}",
        "share\nto stay",
        "median\nto stay",
    )
    rows = tuple(
        (
            names[cell.method],
            f"{len(cell.records)}",
            *_reading(cell.first),
            NOTHING if cell.first is None else interval(cell.first.mean),
            *_reading(cell.stay),
        )
        for cell in task.cells
    )
    return Table(f"Episodes to within {100 * options.within:g}% of CVaR*", columns, rows)


def _reading(found: Reached | None) -> tuple[str, str]:
    if found is None:
        return NOTHING, NOTHING
    return interval(found.solved), median(found.median)


def _worth(names: tuple[str, ...], task: TaskResults, options: Options) -> Table:
    at = "" if task.at is None else f"\nat {short(task.at)} episodes"
    columns = ("configuration", f"last plan{at}", "returned plan", "score", f"regret{at}")
    rows = tuple(
        (names[cell.method], *map(interval, (cell.last, cell.returned, cell.score, cell.regret))) for cell in task.cells
    )
    title = f"CVaR and regret, means over runs (score: {share_name(options)} of the {options.score} plan)"
    return Table(title, columns, rows)


def _time(names: tuple[str, ...], task: TaskResults) -> Table:
    rows = tuple((names[cell.method], interval(cell.seconds), interval(cell.rate)) for cell in task.cells)
    return Table("Time, means over runs", ("configuration", "seconds", "episodes a second"), rows)


def _tests(names: tuple[str, ...], task: TaskResults) -> Table:
    rows = []
    for test in task.tests:
        a, b = (names[i] for i in test.pair)
        sooner = NOTHING if abs(test.first.excess) < 1e-9 else (a if test.first.excess > 0 else b)
        numbers = (f"{test.first.chi2:.2f}", small(test.first.p), small(test.adjusted), small(test.stay.p))
        rows.append((f"{a} and {b}", sooner, *numbers))
    exact = all(test.first.exact for test in task.tests)
    how = "all permutations" if exact else f"up to {PERMUTATIONS:,} permutations"
    columns = ("configurations", "sooner", "chi2", "p", "p (Holm)", "p, to stay")
    return Table(f"Log-rank test of episodes to CVaR* ({how})", columns, tuple(rows))


def interval(found: SeedInterval | None) -> str:
    """`0.8 (0.75 to 0.82)`, without the ends where there are none."""
    if found is None:
        return NOTHING
    if found.low is None or found.high is None:
        return short(found.value)
    return f"{short(found.value)} ({short(found.low)} to {short(found.high)})"


def median(found: Median) -> str:
    """`30 (25 to 40)`, `> 300 (180 or more)`: ends that were not seen are open."""
    value = f"> {short(found.beyond)}" if found.value is None else short(found.value)
    if found.low is None:
        return value
    return f"{value} ({short(found.low)} {'or more' if found.high is None else f'to {short(found.high)}'})"


def short(value: float) -> str:
    """A number in four digits, whole numbers in full."""
    return f"{value:.0f}" if abs(value) >= 1000 or value == int(value) else f"{value + 0.0:.3g}"


def small(p: float) -> str:
    """A p-value."""
    return f"{p:.2g}" if p >= 0.001 else f"{p:.1e}"
