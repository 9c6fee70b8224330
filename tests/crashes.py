"""What must hold after a run was stopped at any moment: what is there is whole, and it goes on to the same bytes."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import faults
from tailrank.cli import main
from tailrank.runs import folder as files
from tailrank.runs.config import RunConfig
from tailrank.runs.job import EVALUATION
from tailrank.runs.read import Run, is_run

LOCK = {"environment": "risky-lock", "settings": {"horizon": 3, "n_actions": 2, "n_states": 6}, "output_episodes": 20}
RICH = {
    "environment": "rich-lock",
    "settings": {"horizon": 2, "n_actions": 2},
    "evaluate_every": 2,
    "evaluation_episodes": 20,
}
SMOOTH = {
    "environment": "continuous-lowrank",
    "settings": {"horizon": 2, "n_features": 2, "d": 2, "n_actions": 2},
    "evaluate_every": 2,
    "evaluation_episodes": 20,
}
SMALL_SEARCH = {"policies": 8, "model_episodes": 10, "rounds": 2, "model_steps": 1000}
SMALL_NETWORK = {"hidden": [8], "network_budgets": 8, "batch": 8, "effort": 5.0}
SMALL_AUTO = {"hidden": [8], "network_budgets": 8, "effort": 5.0, "gradient_hidden": [8], "gradient_steps": 20}
SMALL_AUTO |= {"representatives": 20, "budgets": 8}
FEW = {"iterations": 4, "checkpoint_every": 2}
CASES = {
    "ela": LOCK | FEW,
    "ella": LOCK | FEW | {"algorithm": "ella", "planner": {"iterations": 3, "evaluations": 3}},
    "cvar-ucbvi": LOCK | FEW | {"algorithm": "cvar-ucbvi"},
    "simulator": RICH | FEW | {"output_episodes": 20, "model": "mixture"},
    "bins": RICH | FEW | {"algorithm": "bins", "planner": {"batch": 20}},
    "policy-gradient": RICH | FEW | {"algorithm": "policy-gradient", "planner": {"batch": 20}},
    "kernel": RICH | FEW | {"algorithm": "kernel", "planner": {"representatives": 20}},
    "search": SMOOTH | FEW | {"algorithm": "search", "planner": SMALL_SEARCH},
    "shortfall-dqn": SMOOTH | FEW | {"algorithm": "shortfall-dqn", "planner": SMALL_NETWORK},
    "budget-ppo": SMOOTH | FEW | {"algorithm": "budget-ppo", "planner": {"gradient_hidden": [8], "gradient_steps": 20}},
    "auto": SMOOTH
    | {"algorithm": "auto", "iterations": 40, "episodes": 200, "checkpoint_every": 4, "evaluate_every": 4}
    | {"planner": SMALL_SEARCH | SMALL_AUTO},
    "lowrank": SMOOTH | FEW | {"model": "lowrank", "rank": 2, "batch": 6, "output_episodes": 10},
}
SWEEP = """
seeds = 2
iterations = 2
checkpoint_every = 1
output_episodes = 20
environment = "risky-lock"
settings = {horizon = 3, n_actions = 2, n_states = 6}
"""


def outcome(folder: Path) -> dict[str, object]:
    """All that a finished run left, but for times and places; a name that is not known is kept as it is."""
    found: dict[str, object] = {}
    parts: list[dict[str, np.ndarray]] = []  # one for each checkpoint, however many there were
    for path in sorted(folder.iterdir()):
        if path.name == files.MANIFEST:
            manifest = files.read_manifest(folder)
            result = {key: value for key, value in manifest["result"].items() if key not in ("seconds", "out")}
            found[path.name] = manifest | {"result": result}
        elif path.name == files.CHECKPOINT:
            # The order of the entries of its header is any.
            found |= {f"{path.name}:{name}": _bits(array) for name, array in load_file(path).items()}
        elif path.name.startswith("episodes-"):
            parts.append(load_file(path))
        else:
            found[path.name] = path.read_bytes()
    for name in parts[0] if parts else ():
        found[f"episodes:{name}"] = _bits(np.concatenate([part[name] for part in parts]))
    return found


def outcome_of_sweep(folder: Path) -> dict[str, object]:
    """The same of all runs of a sweep, and its list of them."""
    return {path.name: path.read_bytes() if path.is_file() else outcome(path) for path in sorted(folder.iterdir())}


def _bits(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    return array.dtype.str, array.shape, array.tobytes()


def arguments(folder: Path, config: Path) -> list[str]:
    """What a user does about a run that was stopped: resume it if it has begun, else start it again."""
    resume = (folder / files.CONFIG).is_file()
    how = ["--resume", str(folder)] if resume else ["--config", str(config), "--out", str(folder)]
    trusted = tomllib.loads(config.read_text())["environment"].get("imports", [])
    return ["train", *how, "--quiet", *(word for package in trusted for word in ("--import", package))]


def call(given: Sequence[object], **options: object) -> None:
    """The command line."""
    main([str(word) for word in given], **options)


def whole_so_far(folder: Path, rows: bytes) -> None:
    """What readers see of a run that was stopped: whole rows that will stay, a status, a plan that is whole."""
    if not is_run(folder):
        return
    run = Run.read(folder)
    shown = [json.loads(line) for line in rows.splitlines()]
    assert run.rows == shown[: len(run.rows)]
    assert run.status in ("unknown", "stopped", "failed", "interrupted") or (run.status, len(run.rows)) == (
        "finished",
        len(shown),
    )
    _, why = run.policy
    assert "damaged" not in why, why
    if (folder / EVALUATION).is_file():
        assert run.returns() is not None


def one_line(ended: faults.Ended, root: Path) -> None:
    """An error of the file system is one line that names the file; `root` is where it lies, or the file itself."""
    assert ended.code == 2, ended.stderr
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith(f"tailrank: error: {root}"), lines[0]
    named = Path(lines[0].removeprefix("tailrank: error: ").split(":")[0])
    assert ended.failed in (named.name, named.parent.name), lines[0]  # the folder is synced for the file
    assert any(word in lines[0] for word in ("No space left", "Input/output error", "Read-only")), lines[0]


def write(folder: Path, name: str) -> Path:
    """The configuration of a case as a file."""
    path = folder / f"{name}.toml"
    path.write_text(RunConfig.from_dict(CASES[name]).toml())
    return path
