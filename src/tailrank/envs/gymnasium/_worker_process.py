"""A process that plays rows for `_workers.InWorkers`: messages from stdin are answered on stdout until it is closed."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import warnings
from typing import Any, BinaryIO

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.gymnasium._frames import read_frame, write_frame
from tailrank.envs.gymnasium._masks import MaskReader, in_letters


def main() -> None:
    """Answer messages; what the environment prints goes to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    warnings.simplefilter("ignore")
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked, messages), daemon=True).start()
    played: Any = None
    while True:
        message = messages.get()
        try:
            if "film" in message:
                write_frame(answers, *filmed(played, **message["film"]))
                continue
            if "calls" in message:
                found = [
                    played.begin_row(row, seed_or_h) if action is None else played.advance_row(row, action, seed_or_h)
                    for row, action, seed_or_h in message["calls"]
                ]
            else:
                played, found = opened(message), []
        except InputError as error:
            write_frame(answers, {"error": str(error)})
            continue
        seen = [row.features for row in found if not isinstance(row, str)]
        plain = [row if isinstance(row, str) else [row.reward, row.over, in_letters(row.allowed)] for row in found]
        write_frame(answers, {"rows": plain}, np.concatenate(seen) if seen else None)


def _listen(asked: BinaryIO, messages: queue.SimpleQueue[Any]) -> None:
    """Hand on messages; where nobody asks any more the process ends, even in a step that does not return."""
    try:
        while True:
            messages.put(read_frame(asked)[0])
    except EOFError:
        os._exit(0)


def opened(about: dict[str, Any]) -> Any:
    """The rows that a first message asks for."""
    sys.path[:] = about["path"]
    import gymnasium

    from tailrank.envs.gymnasium._rows import RowsHere
    from tailrank.envs.gymnasium._workers import found_again
    from tailrank.envs.gymnasium.actions import Actions, finer_levels
    from tailrank.envs.gymnasium.making import maker
    from tailrank.envs.gymnasium.spaces import Encoder

    source = about["source"] if isinstance(about["source"], str) else found_again(*about["source"])
    make = maker(source, about["settings"], about["imports"])
    spec = gymnasium.envs.registration.EnvSpec.from_json(about["spec"]) if "spec" in about else None
    if spec is not None and spec.id not in gymnasium.registry:
        gymnasium.registry[spec.id] = spec
    if make is None:
        raise InputError("workers: need an id or a function that makes the environment")
    envs = [make() for _ in range(about["copies"])]
    levels, moves = about["levels"], envs[0].action_space
    levels = finer_levels(moves, levels, about["refine"]) if about.get("refine") else levels
    encoder, actions = Encoder.of(envs[0].observation_space), Actions.of(moves, levels)
    masks = MaskReader.of(envs[0], moves, actions, about.get("masks"))
    return RowsHere(envs, about["name"], encoder, actions, skip=True, masks=masks)


def filmed(played: Any, seed: int, actions: list[int], at: list[int]) -> tuple[dict[str, Any], np.ndarray]:
    """The rewards of an episode that is played again, and pictures of it after so many steps, [frames, y, x, 3]."""
    outcomes, pictures = [played.begin_row(0, seed)], []
    for h, action in enumerate([*actions, None]):
        if isinstance(outcomes[-1], str):
            raise InputError(outcomes[-1])
        if h in at:
            pictures.append(smaller(played.picture(0)))
        if action is not None:
            outcomes.append(played.advance_row(0, action, h))
    shown = np.stack(pictures)
    return {"shape": shown.shape, "rewards": [found.reward for found in outcomes[1:]]}, shown.ravel()


def smaller(picture: np.ndarray, most: int = 160) -> np.ndarray:
    """A picture [y, x, 3] of at most so many points across, each the mean of those it stands for."""
    block = max(1, -(-picture.shape[1] // most))
    y, x = (n // block * block for n in picture.shape[:2])
    cut = picture[: max(y, 1), : max(x, 1)].astype(np.float64)
    if y == 0 or block == 1:
        return cut
    return np.asarray(cut.reshape(y // block, block, x // block, block, 3).mean(axis=(1, 3)))


if __name__ == "__main__":
    main()
