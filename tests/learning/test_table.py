"""Decoders by table: an observation that was seen is known again, however large its numbers are."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank.episodes.replay import Replay
from tailrank.learning.decoding.table import fit_table
from tailrank.policies.decoders.base import decode


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e5, 1e12])
def test_an_observation_is_known_again(scale):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(30, 4)) * scale + 7 * scale
    points[1] = points[0] * (1 + 1e-6)  # near, but another one
    points[2, 0], points[3] = 0.0, points[2]
    points[3, 0] = -0.0  # the same as the one before
    replay = Replay(1, 4)
    replay.add(points[:, None], np.zeros((30, 1)), np.zeros((30, 1)), np.ones(30, dtype=np.int64))
    table = fit_table(replay)
    assert table.used == 29
    for seen in (points, replay.features[:, 0], points.astype(np.float32)):
        assert table.with_novel(0, seen) is table
        found = decode(table, 0, seen)
        np.testing.assert_array_equal(table.values[found], points.astype(np.float32) + 0)
        np.testing.assert_array_equal(found, table.log_odds(0, seen).argmax(axis=1))
        assert np.sort(table.log_odds(0, seen), axis=1)[:, -2].max() <= -1e6
    grown = table.with_novel(0, np.vstack([points, points[:3] * 2]))
    assert grown.used == 32
    near = points[5] * (1 + 1e-3)
    assert decode(table, 0, near[None])[0] == decode(table, 0, points[5:6])[0]
