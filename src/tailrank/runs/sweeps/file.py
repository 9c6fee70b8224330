"""A sweep as a TOML file, and the runs that it describes: environments x algorithms x tau x grid x seeds.

Every setting is an axis: a list, of one value where nothing varies. Settings at the top are for all runs; what an
[[environment]] says goes before them, and what an [[algorithm]] says before both. The folder of a run is named after
its own values alone, so a sweep can grow and keep what is finished.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tailrank import checks
from tailrank.checks import InputError
from tailrank.runs import build
from tailrank.runs.config import RunConfig, read_toml
from tailrank.runs.flat import KEYS, TABLES
from tailrank.runs.run import located

Axes = dict[tuple[str, ...], tuple[list[Any], bool]]
"""Values by setting, ("settings", "horizon") for one in a table; and whether folders are named after them."""
OWN = {
    "": ("seeds", "grid", "seeded"),
    "environment": ("name", "seeds", "grid", "seeded"),
    "algorithm": ("name", "seeds", "grid"),
}
"""What the top and the two tables know beside the settings of a run."""
OTHER = {"": "", "environment": "algorithm", "algorithm": "environment"}
NAME = re.compile(r"\w[\w.-]*")
MOST_RUNS = 10**4


@dataclass(frozen=True)
class Planned:
    """A run of a sweep: the name of its folder, what it is, and `labels`, the values it is named after."""

    name: str
    config: RunConfig
    labels: dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """The runs in the order of the file, and the folder that theirs lie in."""

    runs: tuple[Planned, ...]
    out: Path

    def checked(self) -> Sweep:
        """Itself, if it is not too long."""
        if len(self.runs) > MOST_RUNS:
            raise InputError(f"runs: must be at most {MOST_RUNS}, found more")
        return self


def read_sweep(
    path: str | Path,
    out: str | Path | None = None,
    make: Callable[[RunConfig], Any] = build.environment,
    *,
    imports: Collection[str] = (),
) -> Sweep:
    """The sweep in a TOML file; `out` goes before what the file says. make: the environment of a run.

    imports: packages that the file may have imported.
    """
    values = read_toml(path)

    def trusted(config: RunConfig) -> Any:
        build.check_trusted(config, imports)
        return make(config)

    try:
        named = values.pop("out", f"runs/{Path(path).stem}")
        if not isinstance(named, str) or not named:
            raise InputError(f"out = {named!r:.60}: must be the name of a folder")
        return Sweep(tuple(itertools.islice(expand(values, trusted), MOST_RUNS + 1)), Path(out or named)).checked()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def expand(values: Mapping[str, Any], make: Callable[[RunConfig], Any] = build.environment) -> Iterator[Planned]:
    """The runs that these values describe; every name is checked, and an environment of each kind is made once."""
    _check_names(values, "")
    common = {name: value for name, value in values.items() if name not in ("environment", "algorithm")}
    known, made = set[str](), _Made(make)
    for pair in itertools.product(_entries(values, "environment"), _entries(values, "algorithm")):
        names = pair[0]["name"], pair[1]["name"]
        try:
            axes = _axes(common) | _axes(pair[0]) | _axes(pair[1])
            for planned in _combined(names, axes, pair[0].get("seeded", common.get("seeded", False)), made):
                if planned.name in known:
                    raise InputError(f"two runs would have the folder {planned.name}; give each table a name")
                known.add(planned.name)
                yield planned
        except InputError as error:
            raise InputError(f"{', '.join(names)}: {error}") from None


def _entries(values: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """The tables [[environment]] or [[algorithm]], each with a name; a text stands for a table with nothing else."""
    found = values.get(kind, ["ela"] if kind == "algorithm" else [])
    entries = []
    for i, entry in enumerate(found if isinstance(found, list) else [found]):
        table, where = {kind: entry} if isinstance(entry, str) else entry, f"[[{kind}]] {i + 1}: "
        if not isinstance(table, dict):
            raise InputError(f"{kind} = {entry!r:.60}: must be a name or a table [[{kind}]]")
        _check_names(table, kind, where)
        what = table.get(kind)
        if not isinstance(what, str) or not what:
            raise InputError(f"{where}{kind} = {what!r:.60}: must be a name")
        table = {"name": _slug(what)} | table
        if not isinstance(table["name"], str) or not NAME.fullmatch(table["name"]):
            raise InputError(f"{where}name = {table['name']!r:.60}: must be letters, digits, dots, _ and -")
        entries.append(table)
    if not entries:
        raise InputError(f"{kind}: must be given, as a name or as a table [[{kind}]]")
    return entries


def _slug(what: str) -> str:
    """A name for an environment or algorithm; that of a file is what stands before its suffix."""
    stem = Path(what).name.removesuffix(".gz")
    stem = Path(stem).stem if Path(stem).suffix in (".csv", ".json", ".npz") else what
    return re.sub(r"[^\w.-]+", "-", stem).strip("-._") or "run"


def _check_names(table: Mapping[str, Any], kind: str, where: str = "") -> None:
    known = [*OWN[kind], *(key for key in KEYS if key not in ("seed", OTHER[kind]))]
    for name in table:
        if name not in known:
            near = checks.did_you_mean(name, known)
            raise InputError(f"{where}{name}: is no setting here{near or '; known are ' + ', '.join(known)}")
    if not isinstance(table.get("seeded", False), bool):
        raise InputError(f"{where}seeded = {table['seeded']!r:.60}: must be true or false")


def _axes(layer: Mapping[str, Any]) -> Axes:
    """The axes of a layer: one value each, but for tau, seeds and the grid."""
    axes: Axes = {}
    for name, value in layer.items():
        if name == "tau":
            axes["tau",] = _values(value if isinstance(value, list) else [value], "tau"), True
        elif name == "seeds":
            axes["seed",] = _seeds(value), True
        elif name in TABLES:
            axes |= {(name, key): ([x], False) for key, x in _table(value, name).items()}
        elif name in KEYS:
            axes[name,] = [value], False
    for name, value in _table(layer.get("grid", {}), "grid").items():
        if name not in KEYS or name in ("tau", "seed", "environment", "algorithm"):
            near = checks.did_you_mean(name, KEYS)
            raise InputError(f"grid.{name}: must be a setting that has no list of its own outside the grid{near}")
        inside = _table(value, f"grid.{name}") if name in TABLES else {"": value}
        for key, values in inside.items():
            path = (name, key) if key else (name,)
            if path in axes:
                raise InputError(f"{'.'.join(path)}: stands in the grid and outside of it; give one of them")
            axes[path] = _values(values, f"grid.{'.'.join(path)}"), True
    return axes


def _table(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name} = {value!r:.60}: must be a table of values by name")
    return value


def _values(value: object, name: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise InputError(f"{name} = {value!r:.60}: must be a list of at least one value")
    return value


def _seeds(value: object) -> list[int]:
    """A number n is 0, ..., n - 1; else a list, or {first, count}."""
    if isinstance(value, list):
        return [checks.whole(seed, "seeds", least=0) for seed in _values(value, "seeds")]
    table = value if isinstance(value, dict) else {"count": value}
    if "count" not in table or not set(table) <= {"first", "count"}:
        raise InputError(f"seeds = {value!r:.60}: must be a number, a list, or a table of first and count")
    first, count = checks.whole(table.get("first", 0), "seeds.first", least=0), checks.whole(table["count"], "seeds")
    if count > MOST_RUNS:
        raise InputError(f"seeds = {count}: must be at most {MOST_RUNS}")
    return list(range(first, first + count))


def _combined(names: tuple[str, str], axes: Axes, seeded: bool, made: _Made) -> Iterator[Planned]:
    """Every combination of the axes, seeds last."""
    axes.setdefault(("tau",), ([0.1], True))
    axes["seed",] = axes.pop(("seed",), ([0], True))
    if seeded and ("settings", "seed") in axes:
        raise InputError("seeded and settings.seed: give one of them")
    grid = sorted(path for path, (_, shown) in axes.items() if shown and path not in (("tau",), ("seed",)))
    for combination in itertools.product(*(values for values, _ in axes.values())):
        chosen = dict(zip(axes, combination, strict=True))
        values: dict[str, Any] = {}
        for path, value in chosen.items():
            if len(path) == 1:
                values[path[0]] = value
            else:
                values.setdefault(path[0], {})[path[1]] = value
        if seeded:
            values.setdefault("settings", {})["seed"] = values["seed"]
        config = made.config(values)
        shown = {"tau": config.tau} | {".".join(path): chosen[path] for path in grid} | {"seed": config.seed}
        parts = [f"{key.split('.')[-1]}{_short(value)}" for key, value in shown.items()]
        labels = {"environment": names[0], "algorithm": names[1]} | shown
        yield Planned("_".join((*names, *parts)), config, labels)


def _short(value: object) -> str:
    if isinstance(value, list):
        return "x".join(map(_short, value))
    return f"{value:.12g}" if isinstance(value, float) else re.sub(r"[^\w.+-]+", "-", str(value))


class _Made:
    """Configurations from values; an environment is made once, whatever the seeds."""

    def __init__(self, make: Callable[[RunConfig], Any]) -> None:
        self.make = make
        self.known: dict[str, Any] = {}

    def config(self, values: dict[str, Any]) -> RunConfig:
        """The configuration; `episodes` in a finite environment become the iterations that play them."""
        values = dict(values)
        episodes = values.pop("episodes", None)
        config = located(RunConfig.from_dict(({} if episodes is None else {"iterations": 1}) | values))
        env = self._environment(config)
        if episodes is None:
            return config
        if "iterations" in values and not config.simulated:
            raise InputError("iterations and episodes: give one of them")
        config = build.with_episodes(config, episodes, env)
        if "iterations" in values:
            config = replace(config, run=replace(config.run, iterations=values["iterations"]))
        return config

    def _environment(self, config: RunConfig) -> Any:
        given = config.environment
        settings = {name: value for name, value in given.settings.items() if name != "seed"}
        key = json.dumps([asdict(replace(given, settings=settings)), config.simulated], sort_keys=True)
        if key not in self.known:
            self.known[key] = self.make(config)
        return self.known[key]
