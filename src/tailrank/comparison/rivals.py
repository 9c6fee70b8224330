"""A run on a simulator beside rivals: the same number of steps, the same fresh episodes, an interval each.

What a rival did is kept in rivals.json in the folder of the run, so that it is trained once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tailrank._system.atomic import write_bytes
from tailrank._system.reading import read_json
from tailrank.checks import InputError
from tailrank.episodes.streams import Streams
from tailrank.learning.judge import FreshJudge
from tailrank.learning.rivals.observations.equal_steps import RIVALS, missing_packages, trained_rival
from tailrank.runs.build import check_trusted, close, simulator
from tailrank.runs.config import RunConfig
from tailrank.runs.folder import CONFIG
from tailrank.runs.read import Run

KEPT = "rivals.json"
INSTALL = "qr-dqn and ppo are left out: install stable-baselines3 and sb3-contrib (tailrank[deep])"


@dataclass(frozen=True)
class RivalResult:
    """A method after so many steps: CVaR with an interval, mean, and the seconds that its training took."""

    name: str
    steps: int
    cvar: float
    cvar_low: float
    cvar_high: float
    mean: float
    seconds: float | None


def beside_rivals(
    folder: Path, imports: tuple[str, ...] = (), progress: Callable[[str], None] = lambda text: None
) -> tuple[list[RivalResult], list[str]]:
    """The run and its rivals, and notes; what was trained before is read."""
    run, config = Run.read(folder, imports), RunConfig.read(folder / CONFIG)
    if not config.simulated:
        raise InputError(f"{folder}: is no run on a simulator; rivals by equal steps are for simulators")
    check_trusted(config, imports)
    result = run.result
    if run.status != "finished" or "steps" not in result:
        raise InputError(f"{folder}: is not finished; go on with tailrank train --resume {folder}")
    own = {name: result[name] for name in ("steps", "cvar", "cvar_low", "cvar_high", "mean")}
    found = [RivalResult(config.algorithm, seconds=result.get("seconds"), **own)]
    kept = _kept(folder)
    notes = []
    for name in RIVALS:
        if name in kept:
            found.append(RivalResult(**kept[name]))
        elif missing_packages(name):
            notes = [INSTALL]
        else:
            progress(f"{folder}: {name}, {result['steps']} steps")
            found.append(_trained(name, config, int(result["steps"])))
            kept[name] = asdict(found[-1])
            write_bytes(folder / KEPT, json.dumps(kept).encode(), inside=True)
    return found, notes


def _trained(name: str, config: RunConfig, steps: int) -> RivalResult:
    env, streams = simulator(config), Streams(config.seed)
    try:
        begun = time.perf_counter()
        policy, played = trained_rival(name, env, steps, config.tau, streams)
        seconds = time.perf_counter() - begun
        judge = FreshJudge(config.tau, env, streams, config.run.evaluation_episodes)
        verdict = judge.verdict(policy, 0)
        numbers = {part: float(verdict[part]) for part in ("cvar", "cvar_low", "cvar_high", "mean")}
        return RivalResult(name, played, seconds=seconds, **numbers)
    finally:
        close(env)


def _kept(folder: Path) -> dict[str, Any]:
    """What rivals did before; nothing where the file is missing or is no such file."""
    path = folder / KEPT
    if not path.is_file():
        return {}
    try:
        return {name: asdict(RivalResult(**values)) for name, values in read_json(path).items()}
    except (ValueError, TypeError, AttributeError):
        raise InputError(f"{path}: is no file of rivals; remove it to train them again") from None
