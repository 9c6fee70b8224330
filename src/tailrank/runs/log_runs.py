"""The folder of a plan that was learned from records: the plan, and what was found about it.

plan.safetensors is the policy with the labels of its states and actions, logs.json everything else. logs.json is
written last, as a whole: a folder without it holds nothing.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import tailrank
from tailrank._system.atomic import write_bytes
from tailrank._system.reading import read_json
from tailrank.checks import InputError
from tailrank.learning.offline.learned import LearnedFromLogs
from tailrank.runs.folder import PLAN
from tailrank.runs.policy_files import storage

LOGS = "logs.json"
FORMAT, SCHEMA = "tailrank-logs", 1


def is_log_run(folder: str | Path) -> bool:
    """Whether `folder` holds a plan from records."""
    return (Path(folder) / LOGS).is_file()


def check_free(folder: Path) -> None:
    """Raise unless `folder` can become one: it is new, empty, or held another plan from records."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder}: must be a folder")
    if folder.is_dir() and any(folder.iterdir()) and not is_log_run(folder):
        raise InputError(f"--out {folder}: holds other files; choose a new folder")


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
