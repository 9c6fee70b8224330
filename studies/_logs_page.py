"""docs/logs_results.md, made from what studies/logs.py measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.stats import beta

PAGE = Path(__file__).resolve().parent.parent / "docs" / "logs_results.md"
HEAD = """\
# Plans from records: what was measured

Written by `python studies/logs.py` from `studies/results/logs.jsonl`; [logs](logs.md) explains the command. {cells}
cells, {logs} logs in all, delta = {delta}; a cell has as many logs as fitted into its time, at most 1,000, which {full}
cells have. Measured on commits {commits}. No setting was chosen on these seeds. One thing was mended after looking at
them: in the first log of lock, near, 100 a bound by weights was above the budget that it belongs to, and above the
truth (none of 395 further logs had that); since then no such bound is above its budget.
Behaviours: *uniform*; *half* and *near* play the best plan, but uniformly in 50% and 10% of the steps; *hole* is
uniform but never takes one action in every other state; *expert* is the one of ICU-Sepsis. The command is told all
states and actions, the range of the rewards, and whether the dynamics are the same at every step.

## How often bounds failed

Allowed is {delta}. *lower*: the bound on the returned plan was above its exact CVaR. *upper*: the bound on every
policy was below the best. *limit*: the largest rate of failure that the worse of these two leaves possible, with 95%
confidence (Clopper and Pearson); where logs are few it says little. *own*: the interval for the behaviour missed its
exact CVaR (`-`: no exact value at hand). *improved*: how often the plan was called improved; *wrongly*: and was worse
than the behaviour. *chosen*: as many of the logs were learned from as the command does by default; the others with the
usual doubt (`--caution 0.1`), because choosing the doubt takes most of the time and no bound depends on it.

All cells together: {lower} of {logs} lower and {upper} of {logs} upper bounds failed, which leaves rates up to
{all_limit} possible. {enough} cells have logs enough to show by themselves that both rates are below {delta} (59 logs
without a failure do).

| process | behaviour | episodes | logs | chosen | lower | upper | limit | own | improved | wrongly |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""
EARNED = """
## What the plans earn

Means over the logs of exact CVaRs at the process's tau: of the best plan, of the behaviour, of the returned plan, of
the plan that takes the counts for the truth, of the action taken most often, and of the pessimistic plan for the mean;
then the mean bounds. *gain*: returned less plain counts on the same logs, with one standard error.

| process (tau) | behaviour | episodes | best | own | returned | counts | gain | cloned | mean plan | lower | upper |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""
TOTAL = """
Gain by the number of episodes, each cell's in parts of the distance between the best CVaR and the lowest in its row of
own, counts and cloned: mean over the small processes' cells, and how many cells have gained or lost more than two
standard errors and more than 0.1% of that distance.

| episodes | cells | mean gain | gained | lost |
| ---: | ---: | ---: | ---: | ---: |
"""
GAPS = """
## How fast the gap closes

Best CVaR less that of the returned plan, where every action is tried alike, and the slope of its logarithm against that
of the number of episodes, by least squares, with its standard error where there are three gaps (-0.5: like n^-1/2; `-`:
fewer than two gaps above zero). Steeper is better: where one action is best by a margin, it is found at once.

| process | {sizes} | slope |
| --- | {lines} | ---: |
"""
APART = """
## Bounds by held-out episodes, each by itself

A plan of some episodes judged by the others, by their counts (*model*) and by importance weights (*weights*), and a
step from the behaviour (*step*), whether or not the command would have returned them. Each bound has a third of
delta / 2 = {delta} for itself. {logs} logs with probabilities, commits {commits}. In the columns: how often each bound
was above the exact CVaR of its policy; *limit* as above, for the worst of the three; the mean bounds of the plan by its
model and by weights, and its mean CVaR; the mean bound of the step, and its mean CVaR; *sure*: how often the step was
surely better than the behaviour.

| process | behaviour | n | logs | model | weights | step | limit | by model | weights | plan | bound | CVaR | sure |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""
KINDS = ("held-out episodes", "held-out episodes, by weights", "a step from the behaviour")


Cells = dict[tuple[str, str, int], dict]
"""Process, behaviour and episodes; the means over the logs."""


def page(found: Cells, bounds: Cells, apart_: Cells, sizes: tuple[int, ...], delta: float) -> str:
    """The page. bounds: other logs, of which only the bounds were looked at; apart_: bounds by held-out episodes."""
    rows, apart = (sorted(cells.values(), key=_order) for cells in (found, apart_))
    text = _covered(found, bounds, delta) + EARNED
    for row in rows:
        text += _earned(row)
    text += _totals(rows, sizes) + _gaps(rows, sizes)
    return text + (_apart(apart, delta) if apart else "")


def _covered(found: Cells, bounds: Cells, delta: float) -> str:
    """Head and table of failures, of the logs of both kinds."""
    rows = sorted((_together(key, found, bounds) for key in {*found, *bounds}), key=_order)
    logs = sum(row["logs"] for row in rows)
    lower, upper = (sum(_failures(row, key) for row in rows) for key in ("missed_lower", "missed_upper"))
    text = HEAD.format(
        cells=len(rows),
        logs=f"{logs:,}",
        delta=delta,
        full=sum(row["logs"] >= 1000 for row in rows),
        commits=_commits(rows),
        lower=lower,
        upper=upper,
        all_limit=f"{limit(max(lower, upper), logs):.4f}",
        enough=sum(_limit_of(row) < delta for row in rows),
    )
    for row in rows:
        m, known = row["mean"], row["own"] is not None
        own, wrong = (f"{m[key]:.3f}" if known else "-" for key in ("missed_behaviour", "false_improved"))
        failed = [f"{m['missed_lower']:.3f}", f"{m['missed_upper']:.3f}", f"{_limit_of(row):.3f}", own]
        text += _line(*_order(row), row["logs"], row["chosen"], *failed, f"{m['improved']:.2f}", wrong)
    return text


def _together(key: tuple[str, str, int], found: Cells, bounds: Cells) -> dict:
    """One row of both kinds of logs; chosen: those whose doubt was chosen."""
    parts = [cells[key] for cells in (found, bounds) if key in cells]
    logs = sum(part["logs"] for part in parts)
    names = set.intersection(*(set(part["mean"]) for part in parts))
    mean = {name: sum(part["mean"][name] * part["logs"] for part in parts) / logs for name in names}
    commits = sorted({one for part in parts for one in part["commits"]})
    chosen = found[key]["logs"] if key in found else 0
    return parts[0] | {"logs": logs, "mean": mean, "commits": commits, "chosen": chosen}


def _earned(row: dict) -> str:
    m = row["mean"]
    numbers = [row["best"], row["own"], *(m[key] for key in ("true", "plain", "cloned", "mean", "lower", "upper"))]
    cells = ["-" if x is None else f"{x:.3f}" for x in numbers]
    cells.insert(4, f"{m['gain']:+.3f} ({_error(row):.3f})" if row["logs"] > 1 else f"{m['gain']:+.3f}")
    return _line(f"{row['process']} ({row['tau']:g})", *_order(row)[1:], *cells)


def _totals(rows: list[dict], sizes: tuple[int, ...]) -> str:
    """Gains of the small processes by the number of episodes."""
    text = TOTAL
    for n in sizes:
        found = []
        for row in rows:
            if row["episodes"] == n and row["logs"] > 1:
                m = row["mean"]
                lowest = min(x for x in (row["own"], m["plain"], m["cloned"]) if x is not None)
                found.append((m["gain"], _error(row), max(row["best"] - lowest, 1e-9)))
        if found:
            gain, error, scale = np.array(found).T
            clear = (np.abs(gain) > 2.0 * error) & (np.abs(gain) > 1e-3 * scale)
            numbers = (int((clear & (gain > 0.0)).sum()), int((clear & (gain < 0.0)).sum()))
            text += _line(n, len(found), f"{(gain / scale).mean():+.3f}", *numbers)
    return text


def _gaps(rows: list[dict], sizes: tuple[int, ...]) -> str:
    """The table of gaps of the covered cells."""
    text = GAPS.format(sizes=" | ".join(f"n = {n}" for n in sizes), lines=" | ".join("---:" for _ in sizes))
    for name in dict.fromkeys(row["process"] for row in rows):
        found = {
            row["episodes"]: row["best"] - row["mean"]["true"]
            for row in rows
            if row["process"] == name and row["behaviour"] == "uniform"
        }
        some = np.array([(np.log(n), np.log(gap)) for n, gap in found.items() if gap > 1e-6])
        slope = "-"
        if len(some) > 2:
            (slope_, _), covariance = np.polyfit(*some.T, 1, cov=True)
            slope = f"{slope_:.2f} ({np.sqrt(covariance[0, 0]):.2f})"
        elif len(some) == 2:
            slope = f"{np.polyfit(*some.T, 1)[0]:.2f}"
        text += _line(name, *(f"{max(found[n], 0.0):.3f}" if n in found else "-" for n in sizes), slope)
    return text


def _apart(rows: list[dict], delta: float) -> str:
    text = APART.format(logs=sum(row["logs"] for row in rows), commits=_commits(rows), delta=0.5 * delta)
    for row in rows:
        m = row["mean"]
        missed = [m[f"{kind}: missed"] for kind in KINDS]
        bounds = [m[f"{KINDS[i]}: {what}"] for i, what in ((0, "bound"), (1, "bound"), (0, "true"), (2, "bound"))]
        numbers = [*bounds, m[f"{KINDS[2]}: true"]]
        most = limit(round(max(missed) * row["logs"]), row["logs"])
        cells = [*(f"{x:.3f}" for x in missed), f"{most:.3f}", *(f"{x:.3f}" for x in numbers)]
        text += _line(*_order(row), row["logs"], *cells, f"{m[f'{KINDS[2]}: sure']:.2f}")
    return text


def limit(failures: int, logs: int) -> float:
    """The largest chance of failure that so many failures leave possible, with 95% confidence."""
    return float(beta.ppf(0.95, failures + 1, logs - failures)) if failures < logs else 1.0


def _limit_of(row: dict) -> float:
    return limit(max(_failures(row, "missed_lower"), _failures(row, "missed_upper")), row["logs"])


def _failures(row: dict, key: str) -> int:
    return round(row["mean"][key] * row["logs"])


def _error(row: dict) -> float:
    """The standard error of the mean gain."""
    m = row["mean"]
    return float(np.sqrt(max(m["gain_squared"] - m["gain"] ** 2, 0.0) / max(row["logs"] - 1, 1)))


def _commits(rows: list[dict]) -> str:
    return ", ".join(sorted({one for row in rows for one in row["commits"]}))


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def _order(row: dict) -> tuple[str, str, int]:
    return row["process"], row["behaviour"], row["episodes"]
