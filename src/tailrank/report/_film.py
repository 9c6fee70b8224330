"""Strips of pictures of the worst and the median episode, where the environment draws itself.

The pictures are PNG files inside the page. A PNG is a few bytes around compressed lines, so no library writes it here.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.runs.beside import Beside

ROOM = 250_000
"""Bytes of all pictures of a page, at most."""
SMALLEST = 24
"""Points across below which a picture is not worth showing."""


def film_strips(recipe: dict[str, Any] | str, beside: Beside | None) -> list[dict[str, Any]] | str:
    """The strips for the page, worst first, or why there are none. recipe: what the environment is made from."""
    if beside is None:
        return "No episodes of the policy were kept, and so none can be drawn."
    if isinstance(recipe, str):
        return f"No pictures of episodes: {recipe}."
    from tailrank.envs.gymnasium.filming import film

    strips, last = [], len(beside.seeds) - 1
    for name, episode in {"worst": 0, "median": max(last - 1, 0)}.items():
        steps = int(beside.lengths[episode])
        actions, rewards = beside.actions[episode, :steps], beside.rewards[episode, :steps]
        try:
            pictures, at = film(recipe, int(beside.seeds[episode]), actions.tolist(), rewards)
        except InputError as error:
            return f"No pictures of episodes: {error}."
        strips.append({"name": name, "return": float(rewards.sum()), "at": at, "pictures": pictures})
    return _fitting(strips)


def _fitting(strips: list[dict[str, Any]]) -> list[dict[str, Any]] | str:
    """The strips with their pictures as data, made smaller until they fit."""
    while True:
        files = [[png(picture) for picture in strip["pictures"]] for strip in strips]
        if sum(len(file) for row in files for file in row) <= ROOM:
            return [
                strip
                | {"size": list(strip["pictures"].shape[2:0:-1])}
                | {"pictures": [base64.b64encode(file).decode("ascii") for file in row]}
                for strip, row in zip(strips, files, strict=True)
            ]
        strips = [strip | {"pictures": halved(strip["pictures"])} for strip in strips]
        if min(strip["pictures"].shape[2] for strip in strips) < SMALLEST:
            return "No pictures of episodes: they would make the page too large."


def halved(pictures: np.ndarray) -> np.ndarray:
    """Pictures [n, y, x, 3] with every four points as one."""
    y, x = pictures.shape[1] // 2, pictures.shape[2] // 2
    cut = pictures[:, : 2 * y, : 2 * x].astype(np.float64).reshape(-1, y, 2, x, 2, 3)
    return np.asarray(np.rint(cut.mean(axis=(2, 4))).astype(np.uint8))


def png(pixels: np.ndarray) -> bytes:
    """The PNG file of a picture, bytes [y, x, 3]."""
    y, x, _ = pixels.shape
    lines = np.zeros((y, 1 + 3 * x), dtype=np.uint8)  # a line begins with the number of its filter: none
    lines[:, 1:] = pixels.reshape(y, 3 * x)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", x, y, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
