"""The continuous low-rank simulators: what they say about themselves is what they play."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank.checks import InputError
from tailrank.envs import make_simulator


@pytest.mark.parametrize("name", ["continuous-lowrank", "lowrank-lock"])
def test_an_episode_is_the_same_bits_alone_and_in_a_batch(name):
    env = make_simulator(name, horizon=4, n_features=5)
    rng = np.random.default_rng(0)
    seeds, actions = np.arange(7), rng.integers(env.n_actions, size=(4, 7))
    together = [env.reset(seeds), *(env.step(a)[1] for a in actions)]
    alone = [env.reset(seeds[3:4]), *(env.step(a[3:4])[1] for a in actions)]
    assert all(np.array_equal(x[3], y[0]) for x, y in zip(together, alone, strict=True))
    assert env.step(actions[0][3:4])[2].all()


@pytest.mark.parametrize("name", ["continuous-lowrank", "lowrank-lock"])
def test_laws_are_laws_and_episodes_follow_them(name):
    env = make_simulator(name, horizon=3)
    first = env.reset(np.arange(20_000) % env.width)[: env.width]
    phi, law = env.features(0, first[:500]), env.reward_laws(0, first[:500])
    assert phi.sum(axis=2) == pytest.approx(1.0)
    assert law.sum(axis=2) == pytest.approx(1.0)
    assert phi.min() >= 0
    assert law.min() >= 0
    x = env.reset(np.arange(5000))
    rewards, after, _ = env.step(np.zeros(5000, dtype=int))
    expected = (env.reward_laws(0, x)[:, 0] @ env.levels).mean()
    assert rewards.mean() == pytest.approx(expected, abs=0.03)
    mixture = env.features(0, x)[:, 0].mean(axis=0)
    share = np.exp(env.log_densities(after)) * mixture
    share /= share.sum(axis=1, keepdims=True)
    assert share.mean(axis=0) == pytest.approx(mixture, abs=0.03)


def test_leaving_the_lock_pays_the_more_the_sooner_but_not_in_the_tail():
    env = make_simulator("lowrank-lock", horizon=6)
    x = env.reset(np.arange(200))
    paid = np.array([env.reward_laws(h, x)[:, :, 1].max(axis=1).mean() for h in range(5)])
    assert paid == pytest.approx(0.8 * (1 - np.arange(5) / 5), abs=1e-3)
    assert paid.max() < 1 - 0.1  # nothing more often than in a tenth of the episodes
    assert env.reward_laws(2, x)[:, :, 2:].max() == 0.0


def test_bad_settings_are_named():
    with pytest.raises(InputError, match="n_actions"):
        make_simulator("lowrank-lock", n_actions=2)
    with pytest.raises(InputError, match="instance"):
        make_simulator("continuous-lowrank", instance=-1)
