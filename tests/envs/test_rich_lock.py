"""The lock with rich observations: its seed and its actions fix an episode, and its laws are those it states."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tailrank import InputError, make_simulator
from tailrank.envs.built_in import _counter_rng

SETTINGS = [
    {"horizon": 6, "n_actions": 3},
    {"horizon": 6, "n_actions": 3, "view": "nonlinear"},
    {"horizon": 4, "n_actions": 2, "distinct": 5},
    {"horizon": 30, "n_actions": 2, "view": "nonlinear", "noise": 0.5},
]


def played(env, seeds, actions):
    """Features [n, H, m] and rewards [n, H] of actions [n, H]."""
    features, rewards = [env.reset(np.array(seeds)).copy()], []
    for h in range(env.horizon):
        reward, seen, over = env.step(actions[:, h])
        features.append(seen.copy())
        rewards.append(reward)
        assert (over == (h == env.horizon - 1)).all()
    return np.stack(features[:-1], axis=1), np.stack(rewards, axis=1)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_an_episode_is_fixed_by_its_seed_and_its_actions(settings):
    env = make_simulator("rich-lock", **settings)
    rng = np.random.default_rng(0)
    seeds = rng.integers(0, 2**31, size=67)
    actions = rng.integers(env.n_actions, size=(seeds.size, env.horizon))
    features, rewards = played(env, seeds, actions)
    order = rng.permutation(seeds.size)
    for some in (order, order[:9], *(order[i : i + 1] for i in range(12))):
        again, earned = played(env, seeds[some], actions[some])
        np.testing.assert_array_equal(again, features[some])
        np.testing.assert_array_equal(earned, rewards[some])
    # What is done later does not change what was seen before, nor the noise of what is seen after.
    actions[:, 2] = (actions[:, 2] + 1) % env.n_actions
    other, _ = played(env, seeds, actions)
    np.testing.assert_array_equal(other[:, :3], features[:, :3])


def test_latents_rewards_and_noise_have_their_laws():
    env = make_simulator("rich-lock", horizon=3, n_actions=2, noise=0.3)
    right, n = env.lock.rewards.which, 20_000
    env.reset(np.arange(n))
    met, paid = [], []
    for h in range(3):
        nothing = right[h, :, :] == right[0, 2, 0]
        good = np.array([int(np.flatnonzero(nothing[g])[0]) if h < 2 else 0 for g in (0, 1)] + [0])
        met.append(env.latent.copy())
        rewards, _, _ = env.step(good[env.latent])
        paid.append(rewards)
    assert set(np.unique(met[1])) == set(np.unique(met[2])) == {0, 1}
    for z in met[1:]:
        assert abs(z.mean() - 0.5) < 4 * 0.5 / np.sqrt(n)
    assert abs(np.corrcoef(met[1], met[2])[0, 1]) < 4 / np.sqrt(n)
    assert not np.any(paid[:2])
    env.reset(np.arange(n))
    wrong = 1 - int(np.flatnonzero(right[0, 0] == right[0, 2, 0])[0])
    bait, seen, _ = env.step(np.full(n, wrong))
    assert (env.latent == 2).all()
    assert abs((bait > 0).mean() - 0.5) < 4 * 0.5 / np.sqrt(n)
    signal = env._rotation[:, 2] + env._rotation[:, 3 + 1]
    noise = (seen - signal) / 0.3
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-3
    np.testing.assert_allclose(np.cov(noise.T), np.eye(env.n_features), atol=5 * np.sqrt(2 / n))
    with pytest.raises(InputError, match=r"actions\[0\] = 2 at step 1: must lie in 0\.\.1"):
        env.step(np.full(n, 2))


def test_counted_numbers():
    # The stream of SplitMix64 from state 0, as its authors publish it.
    first = _counter_rng._mix_bits(np.arange(1, 4, dtype=np.uint64) * _counter_rng.GOLDEN)
    assert [hex(int(x)) for x in first] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f"]
    key = _counter_rng.keys(np.arange(4000))
    u = _counter_rng.uniforms(key, 0, 50)
    np.testing.assert_array_equal(_counter_rng.uniforms(key[7:9], 20, 5), u[7:9, 20:25])
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef(u.T) - np.eye(50)).max() < 5 / np.sqrt(4000)
    assert np.abs(np.corrcoef(u[:200]) - np.eye(200)).max() < 6 / np.sqrt(50)
    assert np.unique(u).size == u.size
    z = _counter_rng.normals(u)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(z.T) - np.eye(50)).max() < 5 / np.sqrt(4000)
