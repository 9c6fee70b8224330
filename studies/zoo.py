"""Run the sweeps in studies/sweeps, keep their tables in its folder results, and write docs/bench.md from those.

    python studies/zoo.py [NAME ...] [--runs DIR] [--tables]

Each NAME is a sweep (`tailrank sweep studies/sweeps/NAME.toml`) whose runs are compared (`tailrank compare`);
finished runs are skipped. --tables only writes the page anew, from the tables that are kept.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SWEEPS, PAGE = ROOT / "studies" / "sweeps", ROOT / "docs" / "bench.md"
RESULTS = SWEEPS / "results"
NAMES = ("tuning", "headline", "ella", "ucbvi")
PACKAGES = ("tailrank", "numpy", "numba", "scipy")


def measure(name: str, folder: Path) -> dict[str, object]:
    """Run the sweep, compare its runs, keep the tables and what they come from."""
    from tailrank.comparison import compare
    from tailrank.comparison.export import as_dict, runs_csv

    sweep = [sys.executable, "-m", "tailrank", "sweep", str(SWEEPS / f"{name}.toml"), "--out", str(folder)]
    subprocess.run([*sweep, "--backend", "processes"], check=True)
    runs = sorted(path for path in folder.iterdir() if path.is_dir())
    first = json.loads((runs[0] / "manifest.json").read_text())
    found = compare([folder], baseline=None)
    RESULTS.mkdir(exist_ok=True)
    table = runs_csv(found).replace(f"{folder}/", "")
    (RESULTS / f"{name}.csv").write_text(table)
    about = {
        "sweep": hashlib.sha256((SWEEPS / f"{name}.toml").read_bytes()).hexdigest(),
        "runs": len(runs),
        "python": first["python"],
        "versions": {p: metadata.version(p) for p in PACKAGES},
        "comparison": thin(as_dict(found)) | {"slopes": slopes(runs) if name == "ucbvi" else {}},
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(about) + "\n")
    return about


def thin(found: dict) -> dict:
    """What the tables need of the comparison."""
    tasks = [
        {
            "name": task["name"],
            "tau": task["tau"],
            "cells": [
                {
                    "settings": {key: cell["settings"].get(key) for key in ("algorithm", "alpha_scale")},
                    "first": {key: cell["first"][key] for key in ("solved", "median")} if cell["first"] else None,
                    "regret": cell["regret"],
                    "seconds": cell["seconds"],
                }
                for cell in task["cells"]
            ],
        }
        for task in found["tasks"]
    ]
    return {"tasks": tasks, "notes": [note for note in found["notes"] if "(/" not in note]}


def slopes(runs: Iterable[Path]) -> dict[str, float]:
    """Of log regret against log episodes over the last decade of episodes, for each run; regret is by episode."""
    result = {}
    for run in runs:
        rows = [json.loads(line) for line in (run / "rows.jsonl").read_text().splitlines()]
        star = json.loads((run / "manifest.json").read_text())["result"]["cvar_star"]
        episodes = np.array([row["episodes"] for row in rows], dtype=float)
        regret = np.cumsum((star - np.array([row["cvar"] for row in rows])) * np.diff(episodes, prepend=0.0))
        late = (episodes >= episodes[-1] / 10) & (regret > 1e-9)
        if late.sum() > 2:
            result[run.name] = round(float(np.polyfit(np.log(episodes[late]), np.log(regret[late]), 1)[0]), 4)
    return result


# Tables


def cells_of(about: dict) -> list[dict]:
    """Every cell with the numbers that say where it stands: task, tau, algorithm, scale."""
    return [
        cell
        | {
            "task": task["name"],
            "tau": task["tau"],
            "algorithm": cell["settings"]["algorithm"],
            "scale": cell["settings"]["alpha_scale"],
        }
        for task in about["comparison"]["tasks"]
        for cell in task["cells"]
    ]


def episodes(cell: dict) -> str:
    """The median of the episodes to within 5%, with its interval; how many got there, if not all."""
    first = cell["first"]
    median, solved = first["median"], first["solved"]["value"]
    text = f"> {median['beyond']:,.0f}" if median["value"] is None else f"{median['value']:,.0f}"
    if median["value"] is not None and median["low"] is not None:
        high = f"{median['high']:,.0f}" if median["high"] is not None else "..."
        text += f" ({median['low']:,.0f} to {high})"
    return text if solved in (0.0, 1.0) else f"{text}, {solved:.0%} there"


def short(x: float) -> str:
    """Three digits, whole thousands in full."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def interval(name: str) -> Callable[[dict], str]:
    """A mean with its interval."""

    def text(cell: dict) -> str:
        x = cell[name]
        if x is None or x["value"] is None:
            return ""
        return short(x["value"]) + (f" ({short(x['low'])} to {short(x['high'])})" if x["low"] is not None else "")

    return text


def pivot(cells: list[dict], row: Callable[[dict], str], text: Callable[[dict], str], title: str) -> list[str]:
    """A table with a row for each value of `row` and a column for each algorithm."""
    columns = list(dict.fromkeys(cell["algorithm"] for cell in cells))
    rows: dict[str, dict[str, str]] = {}
    for cell in cells:
        rows.setdefault(row(cell), {})[cell["algorithm"]] = text(cell)
    lines = [f"| {title} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    return lines + [f"| {name} | {' | '.join(found.get(c, '') for c in columns)} |" for name, found in rows.items()]


def best_scale(cells: list[dict], key: Callable[[dict], float]) -> list[dict]:
    """For every task and algorithm the cell whose scale did best."""
    best: dict[tuple[str, str], dict] = {}
    for cell in cells:
        at = cell["task"], cell["algorithm"]
        if at not in best or key(cell) < key(best[at]):
            best[at] = cell
    return list(best.values())


def page(found: dict[str, dict]) -> str:
    """docs/bench.md."""
    lines = [TOP]
    if "tuning" in found:
        cells = cells_of(found["tuning"])
        lines += ["## Tuning", "", TUNING, "", *pivot(cells, lambda c: f"{c['scale']:g}", episodes, "scale"), ""]
    if "headline" in found:
        cells = cells_of(found["headline"])
        lines += ["## Episodes to within 5% of CVaR*", "", HEADLINE, ""]
        lines += [*pivot(cells, lambda c: c["task"], episodes, "task"), "", wrong_models(), ""]
    if "ella" in found:
        cells = cells_of(found["ella"])
        lines += ["## ELLA", "", ELLA, "", *pivot(cells, lambda c: c["task"], episodes, "episodes"), ""]
        lines += [*pivot(cells, lambda c: c["task"], interval("seconds"), "seconds"), ""]
    if "ucbvi" in found:
        cells = cells_of(found["ucbvi"])
        lines += ["## Hoeffding or Bernstein", "", UCBVI, "", "Regret, mean over the seeds:", ""]
        lines += [*pivot(cells, lambda c: f"{c['task']}, c = {c['scale']:g}", interval("regret"), "task"), ""]
        lines += ["With the best of the scales for each:", ""]
        best = best_scale(cells, lambda c: c["regret"]["value"])
        lines += [*pivot(best, lambda c: c["task"], interval("regret"), "task"), ""]
        lines += [*slope_table(found["ucbvi"]), ""]
    return "\n".join(lines).rstrip() + "\n"


def wrong_models(locks: int = 10, others: int = 5, tau: float = 0.1) -> str:
    """What plans made in the models of other locks earn in each lock, exactly."""
    from tailrank import evaluate, make_episodic, solve

    settings = {"horizon": 10, "n_actions": 5, "n_states": 30}
    plans = [solve(make_episodic("walled-lock", **settings, seed=locks + i).truth, tau) for i in range(others)]
    shares = []
    for seed in range(locks):
        lock = make_episodic("walled-lock", **settings, seed=seed)
        shares += [evaluate(plan.policy, lock.truth, tau).cvar / lock.optimum(tau) for plan in plans]
    return WRONG.format(n=others, most=max(shares), share=np.mean(np.array(shares) > 0.95))


def slope_table(about: dict) -> list[str]:
    """Median and largest slope of each configuration over tasks and seeds."""
    groups: dict[str, list[float]] = {}
    for run, slope in about["comparison"]["slopes"].items():
        parts = run.split("_")
        groups.setdefault(f"{parts[1]}, {parts[2].replace('tau', 'tau = ')}", []).append(slope)
    lines = ["| slope of regret over the last decade of episodes | median | largest |", "|---|---|---|"]
    return lines + [f"| {name} | {np.median(s):.2f} | {max(s):.2f} |" for name, s in groups.items()]


TOP = """# The bench: ELA and its rivals

Written by `make study` (`python studies/zoo.py`) from the sweeps in `studies/sweeps`; their tables, a row a run,
are in `studies/sweeps/results`. Every number is a median or mean over seeds with a 95% interval; how those are made is
in [Compare](compare.md), what the rivals are in [Rivals](rivals.md). An environment is drawn anew for every seed.
"""
TUNING = """Every algorithm gets the same grid of bonus scales, on seeds that are used for nothing else (walled lock,
H = 10, A = 5, 30 states, tau = .1, five seeds). Median episodes until a plan is within 5% of CVaR*:"""
HEADLINE = """Walled locks ([what they are](learning.md); H = 10, A = 5) with 30 and 3,000 states. Medians over ten
seeds; "> N" where fewer than half got there in N episodes. The way through is ten steps long, and leaving it pays a
little at once, so whoever does not look for it never sees it: greedy (ELA without bonus) and uniform (random actions,
then ELA's plan) fail, and so does a plan that is made in a wrong model, below.

What each was told:

- *ELA, ela-bernstein, Rep-UCB, greedy and uniform*: the laws of rewards and the class F. It knows the decoder
  (which states look alike) and holds 36 models a step; 11 of them have a wall, and those come first. Rep-UCB maximises
  the mean.
- *CVaR-UCBVI and Bastani's learner*: the laws of rewards. They see single states.

That is the paper's comparison: what a realizable class buys. That the number of states does not matter to those with
the class is so by construction; with the decoder unknown, see
[a class of functions](lowrank.md#a-class-of-functions)."""
WRONG = """A plan that is made in the model of another seed, exact CVaR at tau = .1 over CVaR\\*, on the locks of the
table with 30 states (ten seeds, each with the models of {n} others): {most:.0%} at most; {share:.0%} of the plans are
within 5%."""
ELLA = """The same episodes, planned by CVaR-LSVI instead of the exact planner: walled locks with H = 5, A = 5, 30
states and a bait of .1 a step (rewards then have 11 values, and CVaR-LSVI works through every budget), five seeds."""
UCBVI = """CVaR-UCBVI on the risky shortcut (five states, random transitions), 20,000 episodes, ten seeds, the same
scales c for both bonuses and for Bastani's learner.

Found: Bernstein has about a fifth of Hoeffding's regret at tau = .05 and .1, a third at .25, and about the same at 1,
each with its better scale. Bernstein's slope is below 1/2 in the median at every tau; Hoeffding's is not within
20,000 episodes (it is still burning in), and single runs that explore late have slopes above 1."""


def main() -> None:
    """Run what is asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], default=[])
    parser.add_argument("--runs", type=Path, default=ROOT / "runs")
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    if not options.tables:
        for name in options.names or NAMES:
            measure(name, options.runs / name)
    found = {n: json.loads((RESULTS / f"{n}.json").read_text()) for n in NAMES if (RESULTS / f"{n}.json").is_file()}
    PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
