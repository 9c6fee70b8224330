"""Runs by task and by method: what a run has to do, and how it does it.

A task is an environment with its settings and tau. What differs between runs of one task is the method; settings that
only change with the task (iterations, rank) belong to the task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from tailrank.comparison.groups import RunGroup, differences, flat, named
from tailrank.runs.read import Run

TASK = {
    "environment",
    "settings",
    "tau",
    "horizon",
    "discount",
    "start",
    "upsilon",
    "index_base",
    "axis_order",
    "imports",
}
"""What a run has to do; everything else is how it does it."""
EFFORT = ("iterations", "episodes", "stop_cvar", "output_episodes", "evaluate_every", "evaluation_episodes")
"""How long a run is and how it is judged: methods have names of these only where nothing else tells them apart."""
OWN_SEED = "settings.seed"
Settings = dict[str, str]
"""Settings of a task or a method, by name."""


@dataclass(frozen=True)
class Crossed:
    """Runs by task and method: cells[t, m], where a method ran on a task."""

    tasks: tuple[Settings, ...]
    methods: tuple[Settings, ...]
    cells: dict[tuple[int, int], tuple[Run, ...]]


def tasks(runs: Sequence[Run], labels: Sequence[str] = ()) -> list[tuple[RunGroup, list[list[Run]]]]:
    """Runs by method, and within each method by task. A method is everything that differs within a task."""
    found = crossed(runs, differing)
    by_method = [[list(cell) for (_, m), cell in found.cells.items() if m == i] for i in range(len(found.methods))]
    groups = named([[run for cell in cells for run in cell] for cells in by_method], list(found.methods), labels)
    return list(zip(groups, by_method, strict=True))


def crossed(runs: Sequence[Run], telling: Callable[[list[list[Settings]]], set[str]]) -> Crossed:
    """Tasks and methods in the order in which they first come. telling: the settings that make a method."""
    methods: dict[str, list[Settings]] = {}
    for run in runs:
        methods.setdefault(task_key(run), []).append(method_of(run))
    keys = telling(list(methods.values()))
    tasks_at: dict[str, Settings] = {}
    methods_at: dict[str, Settings] = {}
    cells: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        method = {key: value for key, value in method_of(run).items() if key in keys}
        tasks_at.setdefault(task_key(run), task_of(run))
        methods_at.setdefault(_key(method), method)
        cells.setdefault((task_key(run), _key(method)), []).append(run)
    rows, columns = list(tasks_at), list(methods_at)
    placed = {(rows.index(t), columns.index(m)): tuple(members) for (t, m), members in cells.items()}
    return Crossed(tuple(tasks_at.values()), tuple(methods_at.values()), placed)


def differing(by_task: list[list[Settings]]) -> set[str]:
    """Every setting that differs within some task."""
    keys = {key for methods in by_task for one in methods for key in one}
    return {key for key in keys if any(len({one.get(key) for one in methods}) > 1 for methods in by_task)}


def separating(by_task: list[list[Settings]]) -> set[str]:
    """The algorithm, and as few other settings, found one by one, as tell the methods of every task apart."""
    pairs = []
    for methods in by_task:
        different = list({_key(one): one for one in methods}.values())
        pairs += [{k for k in a.keys() | b.keys() if a.get(k) != b.get(k)} for a, b in combinations(different, 2)]
    keys = sorted({key for pair in pairs for key in pair}, key=lambda key: (key != "algorithm", key in EFFORT, key))
    chosen: list[str] = []
    for key in keys:
        if any(key in pair and not pair.intersection(chosen) for pair in pairs):
            chosen.append(key)
    return {"algorithm", *chosen}


def task_names(settings: Sequence[Settings]) -> list[str]:
    """`risky-lock, horizon = 5, tau = 0.1`: the environment, the settings in which tasks differ, and tau."""
    rest = [{key: value for key, value in one.items() if key not in ("environment", "tau")} for one in settings]
    return [
        ", ".join(part for part in (one.get("environment", "?"), extra, f"tau = {one.get('tau', '?')}") if part)
        for one, extra in zip(settings, differences(rest), strict=True)
    ]


def method_names(settings: Sequence[Settings]) -> list[str]:
    """What tells the methods apart; the algorithm where it is the same for all and nothing else is said of one."""
    names = differences(list(settings), absent="")
    return [name or one.get("algorithm", "runs").upper() for name, one in zip(names, settings, strict=True)]


def seeded(runs: Sequence[Run]) -> bool:
    """Whether every run has an environment of its own, drawn with its seed."""
    own = [run.config.get("settings", {}).get("seed") for run in runs]
    return len({run.seed for run in runs}) > 1 and own == [run.seed for run in runs]


def without(run: Run, names: set[str]) -> Run:
    """The run with a configuration that does not say these settings (`settings.seed`)."""
    config = {}
    for key, value in run.config.items():
        if isinstance(value, dict):
            value = {inner: x for inner, x in value.items() if f"{key}.{inner}" not in names}
        if key not in names and value != {}:
            config[key] = value
    return replace(run, config=config)


def task_of(run: Run) -> Settings:
    """The settings that make the task."""
    return flat({key: value for key, value in run.config.items() if key in TASK})


def method_of(run: Run) -> Settings:
    """The settings that make the method."""
    return flat({key: value for key, value in run.config.items() if key not in TASK})


def _key(settings: Settings) -> str:
    return str(sorted(settings.items()))


def task_key(run: Run) -> str:
    """The task as it was written: environments in two files of one name are two tasks."""
    return str(sorted((key, str(value)) for key, value in run.config.items() if key in TASK))
