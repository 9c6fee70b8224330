"""PCID: backward probabilities, what it joins and what it tells apart, the decoded lock."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank import InputError
from tailrank.envs import make_episodic
from tailrank.episodes.streams import Streams
from tailrank.learning.rivals.states.pcid import PCID, forward, latent_moves, reaching
from tailrank.learning.train import train
from tailrank.models.counts import SparseCounts
from tailrank.planning.solve import solve


def lock(split, seed, **settings):
    return make_episodic("risky-lock", horizon=5, n_actions=4, n_states=30, split=split, seed=seed, **settings)


def purity(labels, group):
    """Share of states, from step 1 on, that belong to the group which most states of their latent belong to."""
    right = sum(np.bincount(g[label == z]).max() for label, g in zip(labels[1:], group[1:]) for z in np.unique(label))
    return right / sum(g.size for g in group[1:])


@pytest.mark.parametrize("seed", range(5))
def test_decodes_the_lock_whose_latents_come_from_different_pairs(seed):
    env = lock(0.25, seed)
    *_, (state, row) = train(PCID(0.1), env, iterations=6, seed=100 + seed)
    assert purity(state.labels, env.group) > 0.99
    assert row["cvar"] > 0.95 * 0.8
    assert solve(env.truth, tau=0.1).cvar == pytest.approx(0.8) == env.optimum(0.1)


@pytest.mark.parametrize("seed", range(5))
def test_joins_latents_that_come_from_the_same_pairs(seed):
    """The lock itself: the two good latents have the same backward probabilities, and more data does not help."""
    env = lock(0.5, seed)
    *_, (state, row) = train(PCID(0.1), env, iterations=8, seed=100 + seed)
    assert purity(state.labels, env.group) < 0.7
    for h in range(1, 5):
        good = [state.labels[h][env.group[h] == g] for g in (0, 1)]
        assert (good[0] == good[0][0]).mean() > 0.9
        assert (good[1] == good[0][0]).mean() > 0.9
    assert row["cvar"] < 0.6 * 0.8


def test_split_changes_where_latents_come_from():
    """Backward probabilities in closed form: equal at 1/2, apart by sqrt(1/2) (1 - 2 split) sqrt(2) otherwise."""
    for split, apart in ((0.5, 0.0), (0.25, np.sqrt(0.5))):
        env = lock(split, 0)
        for step in env.model.steps:
            kernel = step.kernel  # [3, A, 3]
            pairs = kernel.reshape(-1, 3)
            if step is env.model.steps[0]:
                pairs = kernel[0]  # the first step begins in latent 0
            back = (pairs / pairs.sum(axis=0)).T
            assert np.linalg.norm(back[0] - back[1]) == pytest.approx(apart, abs=1e-12)
    with pytest.raises(InputError, match="split = 1"):
        lock(1, 0)


def test_forward_and_moves_are_relative_frequencies():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 5, size=(4, 2, 6)).astype(float)
    counts[3] = 0.0
    label, after = np.array([0, 1, 0, 2]), np.array([0, 0, 1, 1, 2, 2])
    found = forward(SparseCounts.from_dense(counts), label)
    joined = np.stack([counts[label == z].sum(axis=0) for z in range(3)])
    np.testing.assert_allclose(found[:2], joined[:2] / joined[:2].sum(axis=2, keepdims=True))
    assert (found[2] == 0).all()
    moves = latent_moves(found, after)
    np.testing.assert_allclose(moves[2], 1 / 3)
    want = np.stack([joined[:2, :, after == z].sum(axis=2) for z in range(3)], axis=2)
    np.testing.assert_allclose(moves[:2], want / want.sum(axis=2, keepdims=True))


def test_reaching_is_the_best_way():
    """Against all policies of two steps, listed."""
    rng = np.random.default_rng(1)
    moves = [rng.dirichlet(np.ones(2), size=(1, 3)), rng.dirichlet(np.ones(3), size=(2, 3))]
    ways = reaching(moves, 3)
    for target in range(3):
        chance = 0.0
        for a in range(3):
            ahead = [moves[1][z, :, target].max() for z in range(2)]
            chance = max(chance, moves[0][0, a] @ ahead)
        first = ways[0][target, 0]
        got = sum(moves[0][0, first, z] * moves[1][z, ways[1][target, z], target] for z in range(2))
        assert got == pytest.approx(chance)


def test_goes_on_from_arrays():
    env, learner = lock(0.25, 0), PCID(0.1, samples=30)
    states = [s for s, _ in train(learner, env, iterations=4, seed=1)]
    again = learner.init(env, Streams(0)).from_arrays(states[1].to_arrays())
    for _ in range(2):
        again, _ = learner.step(again, env, Streams(1))
    for h in range(5):
        np.testing.assert_array_equal(again.labels[h], states[3].labels[h])
        np.testing.assert_array_equal(again.plan.actions[h], states[3].plan.actions[h])
    assert again.episodes == states[3].episodes


def test_bad_settings():
    with pytest.raises(InputError, match="samples = 0"):
        PCID(0.1, samples=0)
    with pytest.raises(InputError, match="radius = 3"):
        PCID(0.1, radius=3)
    with pytest.raises(InputError, match="no iteration has been run"):
        PCID(0.1).greedy(PCID(0.1).init(lock(0.25, 0), Streams(0)), lock(0.25, 0), Streams(0))
