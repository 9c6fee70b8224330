"""Episodes of a simulator as files in the folder of a run: what a checkpoint added, whole or not there."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from tailrank._system.atomic import write_bytes
from tailrank._system.reading import read_arrays
from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.episodes.replay import Replay

NAMES = ("features", "actions", "units", "lengths", "rewards")


def write(folder: Path, replay: Replay, since: int) -> None:
    """Write the episodes from `since` on, if there are any."""
    from safetensors.numpy import save

    if replay.n == since:
        return
    arrays = {name: np.ascontiguousarray(getattr(replay, name)[since:]) for name in NAMES}
    metadata = {"format": "tailrank-episodes", "since": str(since), "sha256": _sha(arrays)}
    write_bytes(folder / f"episodes-{since:08d}.safetensors", save(arrays, metadata=metadata), inside=True)


def read(folder: Path, simulator: Simulator, n: int, grid: tuple[float, float] = (0.0, 1.0)) -> Replay:
    """The first n episodes; raises if some are missing or damaged.

    grid: least reward and unit of the run's grid, on which 0.1 kept rewards.
    """
    replay = Replay(simulator.horizon, simulator.n_features)
    while replay.n < n:
        path = folder / f"episodes-{replay.n:08d}.safetensors"
        try:
            arrays, metadata = read_arrays(path)
        except (InputError, OSError) as error:
            raise InputError(f"{path}: is missing or damaged ({error}); the run cannot go on") from None
        whole = set(arrays) in (set(NAMES), set(NAMES) - {"rewards"}) and metadata.get("sha256") == _sha(arrays)
        if whole and "rewards" not in arrays and arrays["units"].ndim == 2:
            arrays["rewards"] = grid[0] + grid[1] * arrays["units"].astype(np.float64)
        if not whole or "rewards" not in arrays:
            raise InputError(f"{path}: is damaged (its checksum does not match its content); the run cannot go on")
        if not _fit(arrays, simulator):
            raise InputError(f"{path}: holds no episodes of {simulator.name}; the run cannot go on")
        replay.add(*(arrays[name][: n - replay.n] for name in NAMES))
    return replay


def _fit(arrays: dict[str, np.ndarray], simulator: Simulator) -> bool:
    """Whether these are episodes of the simulator, at least one."""
    features, actions, units, lengths, rewards = (arrays[name] for name in NAMES)
    n, H = len(features) if features.ndim else 0, simulator.horizon
    shapes = features.shape == (n, H, simulator.n_features) and actions.shape == units.shape == rewards.shape == (n, H)
    if n == 0 or not shapes or lengths.shape != (n,):
        return False
    if features.dtype.kind != "f" or rewards.dtype != np.float64 or not np.isfinite(rewards).all():
        return False
    if any(x.dtype.kind not in "iu" for x in (actions, units, lengths)):
        return False
    played = actions.min() >= 0 and actions.max() < simulator.n_actions
    return bool(played and lengths.min() >= 1 and lengths.max() <= H and np.isfinite(features).all())


def _sha(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in NAMES:
        if name not in arrays:
            continue
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()
