"""Episodes of a simulator as files in the folder of a run: what a checkpoint added, whole or not there."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from tailrank.atomic import write_bytes
from tailrank.checks import InputError
from tailrank.protocols import Simulator
from tailrank.replay import Replay

NAMES = ("features", "actions", "units", "lengths")


def write(folder: Path, replay: Replay, since: int) -> None:
    """Write the episodes from `since` on, if there are any."""
    from safetensors.numpy import save

    if replay.n == since:
        return
    arrays = {name: np.ascontiguousarray(getattr(replay, name)[since:]) for name in NAMES}
    metadata = {"format": "tailrank-episodes", "since": str(since), "sha256": _sha(arrays)}
    write_bytes(folder / f"episodes-{since:08d}.safetensors", save(arrays, metadata=metadata))


def read(folder: Path, simulator: Simulator, n: int) -> Replay:
    """The first n episodes; raises if some are missing or damaged."""
    from safetensors import SafetensorError, safe_open

    replay = Replay(simulator.horizon, simulator.n_features)
    while replay.n < n:
        path = folder / f"episodes-{replay.n:08d}.safetensors"
        try:
            with safe_open(str(path), framework="numpy") as file:
                metadata = file.metadata() or {}
                arrays = {name: file.get_tensor(name).copy() for name in NAMES}
        except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{path}: is missing or damaged ({reason}); the run cannot go on") from None
        if metadata.get("sha256") != _sha(arrays) or arrays["features"].shape[1:] != (
            replay.horizon,
            replay.n_features,
        ):
            raise InputError(f"{path}: is damaged (its checksum does not match its content); the run cannot go on")
        replay.add(*(arrays[name][: n - replay.n] for name in NAMES))
    return replay


def _sha(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in NAMES:
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()
