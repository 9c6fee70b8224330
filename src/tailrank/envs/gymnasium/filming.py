"""Pictures of episodes that were played before: they are played again, in a process of its own, and drawn.

Drawing is other people's code with other people's libraries below it: it may hang, end its process or need a display.
So nothing of it happens in this process, and it has `LIMIT` seconds an episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.gymnasium._workers import WorkerLost, WorkerProcess

LIMIT = 30.0
FRAMES = 7


def film(
    about: Mapping[str, Any], seed: int, actions: Sequence[int], rewards: np.ndarray
) -> tuple[np.ndarray, list[int]]:
    """Pictures [frames, y, x, 3] (bytes) of the episode with this seed and these actions, and after which steps.

    about: what the environment is made from (`GymSimulator.recipe`). rewards: what it paid when it was played. Raises
    an `InputError` where the environment does not draw, or plays another episode when it does.
    """
    at = sorted({int(h) for h in np.linspace(0, len(actions), FRAMES)})
    settings = {**about["settings"], "render_mode": "rgb_array"}
    try:
        process = WorkerProcess({**about, "settings": settings, "copies": 1}, LIMIT, silent=True)
        try:
            process.send({"film": {"seed": int(seed), "actions": [int(a) for a in actions], "at": at}})
            found, pixels = process.reply(1)
        finally:
            process.close(0.0)
    except WorkerLost as error:
        raise InputError(f"{about['name']}: drawing it {error}") from None
    if not np.array_equal(np.asarray(found["rewards"]), np.asarray(rewards)):
        raise InputError(f"{about['name']}, seed {seed}: paid other rewards when it was played again to be drawn")
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8).reshape(found["shape"]), at
