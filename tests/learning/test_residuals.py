"""What a model leaves open: nothing if it is right, a share that can be computed if it is not."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank.episodes.replay import Replay
from tailrank.learning.observed import residuals
from tailrank.learning.observed.residuals import LEAST_EPISODES, left_open


def walks(n, H, rng, push=0.0, means=(-2.0, 2.0, 1.0, -1.0)):
    """x' = push x + mean of the class of (x > 0, a) + noise, in one dimension; the classes [n, H] too."""
    x, actions = np.zeros((n, H, 1), dtype=np.float32), rng.integers(2, size=(n, H))
    x[:, 0, 0] = rng.normal(size=n)
    pair = np.zeros((n, H), dtype=np.int64)
    for h in range(H):
        pair[:, h] = 2 * (x[:, h, 0] > 0) + actions[:, h]
        if h + 1 < H:
            x[:, h + 1, 0] = push * x[:, h, 0] + np.array(means)[pair[:, h]] + rng.normal(size=n)
    replay = Replay(H, 1)
    replay.add(x, actions, np.zeros((n, H), dtype=int), np.full(n, H))
    return replay, pair


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_right_model_leaves_nothing_open(seed, shared):
    rng = np.random.default_rng(seed)
    replay, pair = walks(300, 5, rng)
    found = left_open(replay, pair, 2, shared=shared, rng=rng)
    assert found.share < 0.005
    assert not found.clear
    one_hot = left_open(replay, np.eye(4)[pair], 2, shared=shared, rng=np.random.default_rng(1))
    again = left_open(replay, pair, 2, shared=shared, rng=np.random.default_rng(1))
    assert one_hot.share == pytest.approx(again.share, abs=1e-6)


def test_the_share_is_that_of_the_variance_within_classes():
    rng = np.random.default_rng(5)
    replay, _ = walks(4000, 4, rng, push=0.7, means=(-2.0, 2.0, -2.0, 2.0))
    found = left_open(replay, replay.actions, 2, shared=True, rng=rng)
    x, after = replay.features[:, :-1, 0].ravel(), replay.features[:, 1:, 0].ravel()
    where = replay.actions[:, :-1].ravel()
    rest, told = after.astype(float), 0.7 * x.astype(float)
    for k in range(2):
        rest[where == k] -= rest[where == k].mean()
        told[where == k] -= told[where == k].mean()
    assert found.share == pytest.approx(told.var() / rest.var(), abs=0.02)
    assert found.clear


def test_many_episodes_are_thinned_and_both_halves_stay(monkeypatch):
    monkeypatch.setattr(residuals, "MOST_EPISODES", 500)
    replay, _ = walks(1000, 4, np.random.default_rng(0), push=0.7)
    thinned = left_open(replay, replay.actions, 2, shared=True, rng=np.random.default_rng(0))
    monkeypatch.undo()
    full = left_open(replay, replay.actions, 2, shared=True, rng=np.random.default_rng(0))
    assert thinned.clear
    assert thinned.error > 1.2 * full.error
    assert thinned.share == pytest.approx(full.share, abs=4 * thinned.error)


def test_few_episodes_say_nothing():
    replay, pair = walks(LEAST_EPISODES - 1, 4, np.random.default_rng(0), push=0.9)
    assert not left_open(replay, pair, 2, shared=True, rng=np.random.default_rng(0)).clear
