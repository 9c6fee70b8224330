"""Latents of whole episodes: the best path by trying all of them, and fewer mistakes than decoding one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tailrank.episodes.replay import Replay
from tailrank.learning.decoding.choose import moves
from tailrank.learning.decoding.smoothing import DOUBT, _paths, smoothed
from tailrank.models.latent_counts import LatentCounts
from tailrank.policies.decoders.base import decode
from tailrank.policies.decoders.mixture import MixtureDecoder

K, A, H = 3, 2, 4


def random_replay(rng, n, absent=False):
    replay = Replay(H, 2)
    lengths = rng.integers(1, H + 1, size=n)
    replay.add(rng.normal(size=(n, H, 2)), rng.integers(0, A, size=(n, H)), np.zeros((n, H)), lengths)
    labels = rng.integers(0, K - absent, size=(n, H))
    labels[np.arange(H) >= lengths[:, None]] = -1
    return replay, labels


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_path_is_the_best_of_all(seed, shared, absent):
    rng = np.random.default_rng(seed)
    replay, labels = random_replay(rng, 25, absent)
    counts = LatentCounts(1 if shared else H, K, A, 0)
    m = moves(replay, labels, K, shared)
    counts.add(m.h, m.z, m.a, m.after, m.units)
    odds = rng.normal(size=(H, 25, K))
    if absent:
        odds[..., K - 1] = -np.inf
    found = _paths(odds, replay, counts)
    met, seen = counts.visits().sum(axis=2), counts.transitions()[..., :K]
    for i, length in enumerate(replay.lengths):
        best, winner = -np.inf, None
        for path in product(range(K - absent), repeat=int(length)):
            value = odds[0, i, path[0]]
            for h in range(1, length):
                t, here = (0, 0) if shared else (h - 1, h)
                if met[here, path[h]] == 0:
                    value = -np.inf
                    break
                row = seen[t, path[h - 1], replay.actions[i, h - 1]] + DOUBT / K
                value += np.log(row[path[h]] / row.sum())
                value += odds[h, i, path[h]] - np.log(met[here, path[h]] / met[here].sum())
            if value > best:
                best, winner = value, path
        assert found[i].tolist() == [*winner, *[-1] * (H - length)]


def test_neighbours_help():
    """A chain that nearly always stays where it is, seen through noise that hides the latent one time in six."""
    rng = np.random.default_rng(1)
    n, steps = 200, 8
    truth = np.repeat(rng.integers(0, 2, size=(n, 1)), steps, axis=1)
    jump = rng.random((n, steps)).cumsum(axis=1) > 7.0  # a few change once
    truth = np.where(jump, 1 - truth, truth)
    replay = Replay(steps, 1)
    nothing = np.zeros((n, steps))
    seen = 2 * truth - 1.0 + rng.normal(size=(n, steps))
    replay.add(seen[..., None], nothing, nothing, np.full(n, steps))
    decoder = MixtureDecoder(
        np.eye(1), np.tile([[-1.0], [1.0]], (steps, 1, 1)), np.full((steps, 2), np.log(0.5)), np.eye(1)
    )
    alone = np.stack([decode(decoder, h, replay.features[:, h]) for h in range(steps)], axis=1)
    together = smoothed(decoder, replay, 1, 0, False)
    mistakes = (alone != truth).mean(), (together != truth).mean()
    assert mistakes[0] > 0.12
    assert mistakes[1] < mistakes[0] / 2


def test_sure_observations_stay_as_they_are():
    rng = np.random.default_rng(2)
    replay, _ = random_replay(rng, 30)
    decoder = MixtureDecoder(1e4 * np.eye(2), 1e4 * rng.normal(size=(H, K, 2)), np.zeros((H, K)), np.eye(2))
    found = smoothed(decoder, replay, A, 0, False)
    for h in range(H):
        alive = replay.alive(h)
        np.testing.assert_array_equal(found[alive, h], decode(decoder, h, replay.features[alive, h]))
        assert (np.delete(found[:, h], alive) == -1).all()
