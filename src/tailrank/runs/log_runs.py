"""The folder of a plan that was learned from records: the plan, and what was found about it.

plan.safetensors is the policy with the labels of its states and actions, logs.json everything else. logs.json is
written last, as a whole: a folder without it holds nothing.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tailrank
from tailrank._system.atomic import write_bytes
from tailrank._system.reading import read_json
from tailrank.checks import InputError
from tailrank.learning.offline.candidates import CAUTION
from tailrank.learning.offline.learned import LearnedFromLogs
from tailrank.runs.folder import PLAN
from tailrank.runs.policy_files import storage

LOGS, STAGES = "logs.json", "stages.json"
FORMAT, SCHEMA = "tailrank-logs", 1


def is_log_run(folder: str | Path) -> bool:
    """Whether `folder` holds a plan from records."""
    return (Path(folder) / LOGS).is_file()


def check_free(folder: Path) -> None:
    """Raise unless `folder` can become one: it is new, empty, or held another plan from records."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder}: must be a folder")
    if folder.is_dir() and not is_log_run(folder) and not all(map(_left_over, folder.iterdir())):
        raise InputError(f"--out {folder}: holds other files; choose a new folder")


def _left_over(path: Path) -> bool:
    """Whether a call that was stopped left this file: a stage, a file half written, a plan without the rest."""
    if path.name in (STAGES, *(f".{name}.tmp" for name in (STAGES, PLAN, LOGS))):
        return True
    try:
        return path.name == PLAN and storage.load(path).info.get("learned") == "logs"
    except InputError:
        return False


class KeptStages(dict[str, Any]):
    """Stages of a call that are written to a folder as they are done."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder, self.fingerprint = folder, fingerprint
        super().__init__(_stages_of(folder, fingerprint))

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"fingerprint": self.fingerprint, "stages": dict(self)})
        write_bytes(self.folder / STAGES, text.encode(), inside=True)


def _stages_of(folder: Path, fingerprint: str) -> dict[str, Any]:
    """What a call with this fingerprint has left in the folder; nothing where it is another's or damaged."""
    try:
        found = read_json(folder / STAGES)
    except (InputError, FileNotFoundError):
        return {}
    mine = isinstance(found, dict) and found.get("fingerprint") == fingerprint
    stages = found.get("stages") if mine else None
    whole = isinstance(stages, dict) and all(name in SHAPES and SHAPES[name](x) for name, x in stages.items())
    return dict(stages) if whole and stages is not None else {}


def _numbers(values: Any) -> bool:
    return all(isinstance(x, float | int) and math.isfinite(x) for x in values)


SHAPES: dict[str, Callable[[Any], bool]] = {
    "cross-fitted": lambda x: (
        isinstance(x, list) and all(isinstance(y, list) and len(y) == len(CAUTION) and _numbers(y) for y in x)
    ),
    "caution": lambda x: isinstance(x, str),
    "upper": lambda x: _numbers([x]),
    "split": lambda x: isinstance(x, dict) and _numbers(x.values()),
    "models": lambda x: isinstance(x, list) and len(x) == 2 and isinstance(x[1], dict) and _numbers(x[1].values()),
}
"""What a stage that was kept looks like; a file with anything else is not used."""


def write_log_run(folder: Path, learned: LearnedFromLogs, source: str, settings: dict[str, Any]) -> None:
    """Write the folder."""
    check_free(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOGS).unlink(missing_ok=True)
    labels = {"states": list(learned.states), "actions": list(learned.actions)}
    storage.save(
        learned.policy,
        folder / PLAN,
        info={"source": source, "tau": learned.tau, "learned": "logs"} | labels,
        inside=True,
    )
    found = {
        "format": FORMAT,
        "schema": SCHEMA,
        "version": tailrank.__version__,
        "source": source,
        "settings": settings,
        "result": learned.as_dict() | {"out": str(folder)},
        "bounds": learned.bounds,
        "coverage": dataclasses.asdict(learned.coverage) | {"share": learned.coverage.share},
        "diagnostics": learned.diagnostics,
        "assumptions": list(learned.assumptions),
        "notes": list(learned.notes),
    }
    write_bytes(folder / LOGS, (json.dumps(found, indent=1, allow_nan=False) + "\n").encode(), inside=True)
    (folder / STAGES).unlink(missing_ok=True)


def read_log_run(folder: str | Path) -> tuple[storage.Stored, dict[str, Any]]:
    """The plan of a folder with its labels, and what was found about it."""
    path = Path(folder) / LOGS
    found = read_json(path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f"{path}: is damaged; learn the plan again")
    if found.get("schema") != SCHEMA:
        raise InputError(f"{path}: has schema {found.get('schema')!r:.20}, this version reads schema {SCHEMA}")
    for part, kind in (("result", dict), ("bounds", dict), ("coverage", dict), ("diagnostics", dict), ("notes", list)):
        if not isinstance(found.get(part), kind):
            raise InputError(f"{path}: is damaged ({part}); learn the plan again")
    return storage.load(Path(folder) / PLAN), found
