"""Pictures of episodes: drawn in another process, of the same episode, as files that hold the same points."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pytest
from map_cases import Drawn, beside_of

from tailrank.checks import InputError
from tailrank.envs import open_simulator
from tailrank.envs.gymnasium._worker_process import smaller
from tailrank.envs.gymnasium.filming import film
from tailrank.report._film import ROOM, film_strips, png


def points(file):
    """The points of a PNG file without filters, [y, x, 3]; its checksums must be right."""
    assert file[:8] == b"\x89PNG\r\n\x1a\n"
    at, lines, size = 8, b"", (0, 0)
    while at < len(file):
        (length,) = struct.unpack(">I", file[at : at + 4])
        kind, body = file[at + 4 : at + 8], file[at + 8 : at + 8 + length]
        assert struct.unpack(">I", file[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        size = struct.unpack(">II", body[:8]) if kind == b"IHDR" else size
        lines += zlib.decompress(body) if kind == b"IDAT" else b""
        at += 12 + length
    rows = np.frombuffer(lines, dtype=np.uint8).reshape(size[1], 1 + 3 * size[0])
    return rows[:, 1:].reshape(size[1], size[0], 3)


def test_a_picture_as_a_file():
    drawn = np.random.default_rng(0).integers(0, 256, size=(5, 7, 3), dtype=np.uint8)
    np.testing.assert_array_equal(points(png(drawn)), drawn)


def test_a_large_picture_becomes_its_means():
    drawn = np.arange(4 * 400 * 3, dtype=np.uint8).reshape(4, 400, 3)
    found = smaller(drawn)
    assert found.shape == (1, 133, 3)
    np.testing.assert_allclose(found[0, 5], drawn[:3, 15:18].mean(axis=(0, 1)))


def test_an_episode_is_drawn_as_it_was_played():
    with open_simulator(Drawn, horizon=9) as env:
        recipe = env.recipe
        env.reset(np.array([3]))
        paid = [float(env.step(np.array([a]))[0][0]) for a in (0, 1, 1)]
    pictures, at = film(recipe, 3, [0, 1, 1], np.array(paid))
    assert at == [0, 1, 2, 3]
    # The environment paints its step and what was paid last.
    np.testing.assert_array_equal(pictures[:, 0, 0], [[h, paid[h - 1] if h else 0, 7] for h in at])
    with pytest.raises(InputError, match="Drawn, seed 3: paid other rewards"):
        film(recipe, 3, [0, 1, 1], np.array(paid) + 1)


def test_strips_fit_and_what_does_not_draw_is_said():
    assert film_strips("it is so", beside_of(2)) == "No pictures of episodes: it is so."
    with open_simulator("CliffWalking-v1", horizon=9) as env:
        assert isinstance(env.recipe, dict)
    with open_simulator(Drawn(), horizon=9) as env:
        assert "handed in as it is" in film_strips(env.recipe, beside_of(2))
    strips = {"name": "worst", "pictures": np.random.default_rng(0).integers(0, 256, (7, 160, 160, 3), dtype=np.uint8)}
    from tailrank.report._film import _fitting

    (found,) = _fitting([strips])
    files = [base64.b64decode(text) for text in found["pictures"]]
    assert sum(map(len, files)) <= ROOM
    assert points(files[0]).shape == (*found["size"][::-1], 3)
