"""The page of `simulators_kernel.py`: means over seeds with intervals, and verdicts on differences of means."""

from __future__ import annotations

import numpy as np
from simulator_tasks import FOR_DEFAULTS, TASKS

from tailrank.risk.over_runs.intervals import CONFIDENCE, SeedInterval, average, bootstrap_interval

METHODS = (
    "uniform",
    "rule",
    "cvar-gradient",
    "qr-dqn-mean",
    "qr-dqn-cvar",
    "ppo",
    "kernel",
    "search",
    "shortfall-dqn",
    "budget-ppo",
    "auto",
)
TORCH = ("qr-dqn-mean", "qr-dqn-cvar", "ppo")
RIVALS = ("rule", "cvar-gradient", *TORCH)
NEUTRAL = ("qr-dqn-mean", "ppo")
FIXED = ("uniform", "rule")
"""Methods that learn nothing: their runs stand for all numbers of steps."""
STEPS = (15_000, 60_000)
"""How many steps the study plays."""


def page(found: list[dict]) -> str:
    """A table of CVaR 0.1, one of the means of what was trained for tau = 1, and processor seconds."""
    lines = table([r for r in found if r["tau"] != 1.0])
    mean = [r for r in found if r["tau"] == 1.0]
    tried = {(r["task"], r["steps"]) for r in mean}
    # PPO and QR-DQN by mean are the same runs whatever tau is.
    mean += [r | {"cvar": r["mean"]} for r in found if r["method"] in NEUTRAL and (r["task"], r["steps"]) in tried]
    if mean:
        lines += ["", "Trained for the mean (tau = 1), and judged by it:", "", *table(mean)]
    lines += ["", *counted(found)]
    times = [
        f"{m} {np.mean([r['seconds'] for r in found if r['method'] == m and r['steps'] == s]):.0f} s at {s:,}"
        for m in METHODS
        if m not in FIXED
        for s in sorted({r["steps"] for r in found if r["method"] == m})
    ]
    return "\n".join([*lines, "", "Processor seconds of a run, mean over tasks: " + ", ".join(times) + ".", ""])


def table(found: list[dict]) -> list[str]:
    """A row a task and number of steps, a column a method, the best learner in bold, and the verdict."""
    methods = [m for m in METHODS if any(r["method"] == m for r in found)]
    lines = ["| task | steps | " + " | ".join((*methods, "auto less the best rival")) + " |"]
    lines.append("| --- | ---: |" + " ---: |" * len(methods) + " --- |")
    for task in TASKS:
        for steps in sorted({r["steps"] for r in found if r["task"] == task and r["steps"]}):
            runs = {m: values(found, task, m, 0 if m in FIXED else steps) for m in methods}
            learned = {m: v.mean() for m, v in runs.items() if v.size and m not in FIXED}
            best = max(learned, key=lambda m: learned[m]) if len(learned) > 1 else ""
            cells = [f"**{cell(runs[m])}**" if m == best else cell(runs[m]) for m in methods]
            star = " (defaults)" if task in FOR_DEFAULTS else ""
            lines.append(f"| {task}{star} | {steps:,} | " + " | ".join([*cells, verdict(runs)]) + " |")
    return lines


def values(found: list[dict], task: str, method: str, steps: int) -> np.ndarray:
    """CVaR [n] of the runs of a cell, by seed."""
    mine = [r for r in found if (r["task"], r["method"], r["steps"]) == (task, method, steps)]
    return np.array([r["cvar"] for r in sorted(mine, key=lambda r: r["seed"])])


def cell(runs: np.ndarray) -> str:
    """The mean over seeds, its interval where there are enough of them, and how many there are."""
    if not runs.size:
        return ""
    found = bootstrap_interval(average, [runs], CONFIDENCE, np.random.default_rng(0))
    return f"{shown(found)} ({runs.size})"


def verdict(runs: dict[str, np.ndarray]) -> str:
    """auto less the rival with the best mean, with an interval over seeds where both have enough."""
    found = beside(runs)
    if found is None:
        return ""
    name, gap = found
    if gap.low is None or gap.high is None:
        word = "too few seeds for an interval"
    else:
        word = "better" if gap.low > 0 else "worse" if gap.high < 0 else "no difference shown"
    return f"{shown(gap)} ({name}): {word}"


def beside(runs: dict[str, np.ndarray]) -> tuple[str, SeedInterval] | None:
    """The rival with the best mean over seeds, and auto less that; None where one of them was not run."""
    theirs = {m: runs[m] for m in RIVALS if m in runs and runs[m].size}
    mine = runs.get("auto", np.zeros(0))
    if not mine.size or not theirs:
        return None
    name = max(theirs, key=lambda m: theirs[m].mean())
    return name, bootstrap_interval(difference, [mine, theirs[name]], CONFIDENCE, np.random.default_rng(0))


def counted(found: list[dict]) -> list[str]:
    """In how many tasks auto is ahead: of the best rival, of QR-DQN by CVaR with more steps, of PPO by the mean."""
    tail, mean = ([r for r in found if (r["tau"] == 1.0) == by_mean] for by_mean in (False, True))
    most, least = max(STEPS), min(STEPS)
    gaps = {task: beside({m: values(tail, task, m, 0 if m in FIXED else most) for m in METHODS}) for task in TASKS}
    known = {task: gap[1] for task, gap in gaps.items() if gap is not None}
    ahead = [task for task, gap in known.items() if gap.value >= 0]
    surely = [task for task, gap in known.items() if gap.low is not None and gap.low > 0]
    lines = [f"- CVaR with {most:,} steps at least that of the best rival: {listed(ahead, known)}."]
    lines += [f"- Better than the best rival, by the interval over seeds: {listed(surely, known)}."]
    pairs = {task: (values(tail, task, "auto", least), values(tail, task, "qr-dqn-cvar", most)) for task in TASKS}
    pairs = {task: pair for task, pair in pairs.items() if pair[0].size and pair[1].size}
    early = [task for task, (mine, theirs) in pairs.items() if mine.mean() >= theirs.mean()]
    lines += [f"- CVaR with {least:,} steps at least that of QR-DQN by CVaR with {most:,}: {listed(early, pairs)}."]
    by_mean = [r | {"cvar": r["mean"]} for r in [*mean, *(r for r in tail if r["method"] == "ppo")]]
    pairs = {task: (values(by_mean, task, "auto", most), values(by_mean, task, "ppo", most)) for task in TASKS}
    pairs = {task: pair for task, pair in pairs.items() if pair[0].size and pair[1].size}
    level = [task for task, (mine, theirs) in pairs.items() if difference(mine, theirs) >= 0]
    return [*lines, f"- Mean, trained for it (tau = 1), at least that of PPO: {listed(level, pairs)}."]


def listed(some: list[str], known: dict) -> str:
    """How many of how many, and which.

    >>> listed(["maze"], {"maze": 1, "pole": 2})
    '1 of 2 (maze)'
    """
    return f"{len(some)} of {len(known)}" + (f" ({', '.join(some)})" if some else "")


def difference(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Mean less mean: [.., n], [.., k] -> [..]."""
    return np.asarray(mine.mean(axis=-1) - theirs.mean(axis=-1))


def shown(found: SeedInterval) -> str:
    """Three digits: value [low, high]."""
    ends = "" if found.low is None or found.high is None else f" [{found.low:.3g}, {found.high:.3g}]"
    return f"{found.value:.3g}{ends}"
