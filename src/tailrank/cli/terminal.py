"""What the command line prints for people: tables and small pictures, plain where there is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tailrank.checks import InputError, printable
from tailrank.cli.errors import flags
from tailrank.envs import Source
from tailrank.planning.plan import Plan
from tailrank.risk.law import ReturnLaw

LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
"""Tail fractions at which the frontier is printed."""

BINS = 12
"""Rows of a picture of a law."""

PLAIN_WIDTH = 120


def solved(read: Source, plans: Sequence[Plan], notes: Sequence[str], *, frontier: bool, quiet: bool) -> None:
    """Print the plans: a table, how sure it is, the frontier if asked, a picture and the notes."""
    out, mdp = console(), read.mdp
    line(
        out,
        f"{read.name}: {mdp.n_states} states, {mdp.n_actions} actions, {mdp.horizon} steps" + _gamma(mdp.discount),
    )
    out.print(_results(plans))
    line(out, _certainty(plans))
    if frontier:
        out.print(_frontier(plans[0]))
    if not quiet:
        law = neutral_law(plans[0])
        if law is not None:
            out.print(picture(plans[0].law, law, plans[0].tau, plans[0].criterion, _unicode(out)))
        _notes(out, notes)
    line(out, f"{plans[0].seconds:.3g} s")


def bounded(read: Source, result: dict[str, Any], notes: Sequence[str], *, quiet: bool) -> None:
    """Print a plan with the best mean subject to a bound."""
    out, mdp = console(), read.mdp
    line(
        out, f"{read.name}: {mdp.n_states} states, {mdp.n_actions} actions, {mdp.horizon} steps" + _gamma(mdp.discount)
    )
    table = table_of(["subject to", "is", "mean", "best is", "price of\nthe bound", "share of\nthe first", "budget"])
    best = _span(result["mean"], result["upper"]) if result["feasible"] else "infeasible"
    row = (result["subject_to"], result["bounded"], result["mean"], best, result["multiplier"], result["share"])
    add_row(table, *map(number, (*row, result["budget"][0])))
    out.print(table)
    if not quiet:
        _notes(out, notes)
    line(out, f"{result['seconds']:.3g} s")


def costs(read: Source, result: dict[str, Any], notes: Sequence[str]) -> None:
    """Print plans in costs."""
    out, mdp = console(), read.mdp
    line(
        out, f"{read.name}: {mdp.n_states} states, {mdp.n_actions} actions, {mdp.horizon} steps" + _gamma(mdp.discount)
    )
    table = table_of(
        ["tau", "least value", "best is", "CVaR of the cost\n(worst tau)", "mean cost", "least\nmean cost"]
    )
    for row in result["results"]:
        best = _span(row["lower"], row["upper"])
        cells = (row["tau"], row["value"], best, row["cvar"], row["mean"], row["risk_neutral"]["mean"])
        add_row(table, *map(number, cells))
    out.print(table)
    _notes(out, notes)
    line(out, f"{result['seconds']:.3g} s")


def efficient(points: Sequence[dict[str, float]]) -> None:
    """Print an efficient frontier."""
    table = table_of(["CVaR", "best mean", "at most", "price of a unit\nof CVaR"])
    for point in points:
        add_row(table, *map(number, (point["cvar"], point["mean"], point["upper"], point["price"])))
    console().print(table)


def _results(plans: Sequence[Plan]) -> Table:
    columns = ["tau", "CVaR", "best is", "budget", "VaR", "mean", "risk-neutral\nmean", "its\nCVaR"]
    claims = any(plan.claim is not None for plan in plans)
    other = plans[0].objective is not None and plans[0].objective.name != "cvar"
    if other:
        columns = ["objective", "value", "best is", "budget", "tau", "CVaR", "VaR", *columns[5:]]
    table = table_of([*columns, "criterion\nclaims"] if claims else columns)
    for plan in plans:
        best = _span(plan.lower, plan.upper)
        row: list[object] = [plan.tau, plan.cvar, best, plan.budget, plan.var]
        if other:
            row = [str(plan.objective), plan.value, best, plan.budget, plan.tau, plan.cvar, plan.var]
        row += [plan.mean, plan.risk_neutral.mean, plan.risk_neutral.cvar]
        add_row(table, *map(number, [*row, plan.claim] if claims else row))
    return table


def _certainty(plans: Sequence[Plan]) -> str:
    objective = plans[0].objective
    others = "" if objective is not None else f" (policy of criterion {plans[0].criterion})"
    if all(plan.status == "exact" for plan in plans):
        if objective is not None and not objective.budgets:
            return "exact: this objective needs no budgets"
        return f"exact: all rewards lie on one grid of budgets{others}"
    gap = max(plan.upper - plan.lower for plan in plans)
    what = "CVaR" if objective is None or objective.name == "cvar" else "value"
    return f"bracketed: the best {what} lies within the bounds, at most {number(gap)} apart{others}"


def _frontier(plan: Plan) -> Table:
    pieces = plan.frontier()
    best = "best CVaR" if plan.status == "exact" else "best CVaR, at most"
    table = table_of(["tau", best, "budget"])
    for tau in LEVELS:
        piece = min(int(np.searchsorted(pieces.tau_to, tau)), pieces.budget.size - 1)
        value = min(pieces.cvar(tau), plan.risk_neutral.mean)
        add_row(table, number(tau), number(value), number(float(pieces.budget[piece])))
    return table


def neutral_law(plan: Plan) -> ReturnLaw | None:
    """The return law of the risk-neutral policy, or None where it is too long to list."""
    try:
        return plan.risk_neutral.evaluation.law
    except InputError:
        return None


def picture(plan: ReturnLaw, neutral: ReturnLaw, tau: float, criterion: str, unicode: bool) -> Text:
    """Two laws side by side, a bar a range of returns; the worst `tau` of each is drawn solid."""
    tail, rest = ("█", "░") if unicode else ("#", "-")
    labels, where = _bins(plan, neutral, tau)
    sides = [_masses(law, tau, where) for law in (plan, neutral)]
    largest = max(float((worst + other).max()) for worst, other in sides)
    width, bar = max(map(len, [*labels, "return"])), 24
    name = f"tau = {tau:g}" if criterion == "cvar" else criterion
    text = Text(f"{'return':>{width}}  {name:<{bar + 7}}  risk-neutral\n", style="bold")
    for i, label in enumerate(labels):
        text.append(f"{label:>{width}}  ", style="default not bold")
        for worst, other in sides:
            solid = _cells(worst[i], largest, bar)
            light = max(_cells(worst[i] + other[i], largest, bar) - solid, 0)
            text.append(tail * solid, style="red not bold")
            text.append(rest * light, style="cyan not bold")
            share = worst[i] + other[i]
            percent = f"{100 * share:5.1f}%" if share >= 5e-4 else ("  <.1%" if share > 0 else "")
            text.append(f"{'':{bar - solid - light}}{percent:<7}  ", style="default not bold")
        text.append("\n")
    text.append(f"{tail} the worst {100 * tau:g}% of the returns; their mean is the CVaR\n", style="default not bold")
    return text


def _bins(first: ReturnLaw, second: ReturnLaw, tau: float) -> tuple[list[str], np.ndarray]:
    """Labels [m] and the upper ends [m] of the ranges that the returns of both laws are put in."""
    values = np.unique(np.concatenate([first.values, second.values]))
    scale = max(float(np.abs(values).max()), 1e-300)
    values = values[np.concatenate([[True], np.diff(values) > 1e-9 * scale])]
    if values.size <= BINS:
        return [number(float(x)) for x in values], values + 1e-9 * scale
    # The extreme thousandths would squeeze all the rest into a few rows.
    low = min(law.var(0.001) for law in (first, second))
    high = max(law.var(0.999) for law in (first, second))
    split = max(law.var(tau) for law in (first, second))
    third = BINS // 3
    if low < split < high:
        tail, rest = np.linspace(low, split, third + 1), np.linspace(split, high, BINS - third + 1)
        ends = np.concatenate([tail, rest[1:]])
    else:
        ends = np.linspace(low, high, BINS + 1)
    labels = [f"{_short(a)} .. {_short(b)}" for a, b in pairwise(ends)]
    labels[0], labels[-1] = f"to {_short(ends[1])}", f"from {_short(ends[-2])}"
    upper = ends[1:] + 1e-9 * scale
    upper[-1] = np.inf
    return labels, upper


def _masses(law: ReturnLaw, tau: float, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probability of the worst `tau` and of the rest, [m] each."""
    worst = law.tail_masses(tau)
    where = np.minimum(np.searchsorted(upper, law.values), upper.size - 1)
    m = upper.size
    return np.bincount(where, worst, minlength=m), np.bincount(where, law.probs - worst, minlength=m)


def _cells(share: float, largest: float, bar: int) -> int:
    return 0 if share < 1e-12 else max(1, round(bar * share / largest))


def summary(read: Source) -> dict[str, object]:
    """What was read, as plain data."""
    mdp = read.mdp
    first = np.flatnonzero(mdp.start)
    return {
        "name": read.name,
        "states": mdp.n_states,
        "actions": mdp.n_actions,
        "horizon": mdp.horizon,
        "discount": mdp.discount,
        "rows": int(mdp.prob.size),
        "rows_change_with_step": mdp.n_blocks > 1,
        "reward_min": float(mdp.reward.min()),
        "reward_max": float(mdp.reward.max()),
        "start": {str(mdp.labels[s]): float(mdp.start[s]) for s in first[:10]},
        "start_states": int(first.size),
    }


def described(summary: dict[str, object], notes: Sequence[str]) -> None:
    """Print a summary, a line each."""
    out = console()
    for name, value in summary.items():
        shown = ", ".join(f"{s}: {p:g}" for s, p in value.items()) if isinstance(value, dict) else number(value)
        line(out, f"{name.replace('_', ' '):<22}{shown}")
    _notes(out, notes)


def evaluated(results: Sequence[dict[str, object]], notes: Sequence[str]) -> None:
    """Print what a policy earns: CVaR and VaR for each tau, then the mean, with intervals and their methods."""
    out, first = console(), results[0]
    table = table_of(["", "tau", "estimate", "interval", "method"])
    for row in results:
        for name, key, ends in (("CVaR", "cvar", ""), ("VaR", "var", "var_")):
            span = _span(row[f"{ends}lower"], row[f"{ends}upper"])
            add_row(table, name, *map(number, (row["tau"], row[key], span, row[f"{ends}method"])))
        if "value" in row:
            span = _span(row["value_lower"], row["value_upper"])
            add_row(table, row["objective"], "", *map(number, (row["value"], span, row["value_method"])))
    span = _span(first["mean_lower"], first["mean_upper"])
    add_row(table, "mean", "", *map(number, (first["mean"], span, first["mean_method"])))
    out.print(table)
    if first["episodes"]:
        how = "" if first["status"] == "played" else f", {first['status']}"
        line(
            out, f"{first['episodes']} episodes{how}; each interval holds with confidence {number(first['confidence'])}"
        )
    _notes(out, notes)


def number(value: object) -> str:
    """A number in at most six digits, a dash for None, other things as they are."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value + 0.0:.6g}"


def _span(lower: object, upper: object) -> str:
    if lower is None or upper is None:
        return f"{'...' if lower is None else number(lower)} .. {'...' if upper is None else number(upper)}"
    return number(lower) if lower == upper else f"{number(lower)} .. {number(upper)}"


def _short(value: float) -> str:
    return f"{value + 0.0:.4g}"


def _gamma(discount: float) -> str:
    return "" if discount == 1.0 else f", discount {discount:g}"


def table_of(columns: Sequence[str]) -> Table:
    """An empty table with these columns."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for name in columns:
        table.add_column(Text("\n".join(map(printable, name.split("\n")))), justify="right", no_wrap=True)
    return table


def console() -> Console:
    """Standard output, wide enough for a table."""
    out = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    # A number cut short is worse than a line that wraps.
    out.width = max(out.width, PLAIN_WIDTH)
    return out


def _unicode(out: Console) -> bool:
    return out.encoding.lower().replace("-", "").startswith("utf")


def line(out: Console, text: str) -> None:
    """Print a line; where it is too long, the terminal breaks it."""
    out.print(Text(printable(text)), soft_wrap=True)


def add_row(table: Table, *cells: object) -> None:
    """A row of texts, whatever is in them."""
    table.add_row(*(Text(printable(str(cell))) for cell in cells))


def _notes(out: Console, notes: Sequence[str]) -> None:
    for note in notes:
        line(out, flags(f"note: {note}"))
