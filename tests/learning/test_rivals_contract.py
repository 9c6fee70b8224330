"""What all rivals promise: rows, the number of episodes, even seeds, reproducible by seed, a playable policy."""

from __future__ import annotations

import numpy as np
import pytest
from small_simulators import Lock
from test_qr_dqn import needs_sb3

from tailrank import InputError
from tailrank.episodes.streams import Streams
from tailrank.learning.learn import learn
from tailrank.learning.registry import SIMULATED, make_learner
from tailrank.learning.rivals.observations.playing import roll

SMALL = {
    "policy-gradient": {"batch": 64, "soft": True},
    "qr-dqn": {"quantiles": 8, "hidden": (8,), "report": 50, "batch": 16},
    "c51": {"quantiles": 11, "hidden": (8,), "report": 50, "batch": 16, "low": 0.0, "high": 1.0},
    "bins": {"batch": 40, "projections": 3},
    "kernel": {"representatives": 30},
    "search": {"policies": 8, "rounds": 2},
    "shortfall-dqn": {"hidden": (8,), "effort": 2.0},
    "budget-ppo": {"gradient_steps": 100, "gradient_hidden": (8,)},
    "auto": {"representatives": 30, "policies": 8, "rounds": 2},
}
PAIRED = ("kernel", "search", "shortfall-dqn", "budget-ppo", "auto")
"""Compare what they may return on the same seeds."""
EACH = pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=needs_sb3) if n in ("qr-dqn", "c51") else n for n in SIMULATED if n not in ("ela", "ella")],
)
pytestmark = pytest.mark.filterwarnings("default::DeprecationWarning")


class Counting(Lock):
    """A lock that writes down its seeds."""

    def __init__(self):
        super().__init__(horizon=3, n_actions=3, noise=0.1)
        self.seeds = []

    def reset(self, seeds):
        self.seeds += [int(s) for s in seeds]
        return super().reset(seeds)


@EACH
def test_contract(name):
    lock, rows, halfway = Counting(), [], []

    rival = make_learner(name, "simulator", tau=0.1, **SMALL[name])

    def note(state, info):
        rows.append({"episodes": state.episodes, "cvar": info.cvar, "mean": info.mean})
        halfway.append(rival.policy(state, lock, Streams(7)))

    policy = learn(lock, rival, episodes=300, seed=7, callback=note).policy
    assert rows[-1]["episodes"] == 300
    assert np.all(np.diff([row["episodes"] for row in rows]) > 0)
    assert all(set(row) >= {"episodes", "cvar", "mean"} for row in rows)
    assert all(-1e-9 <= row["cvar"] <= row["mean"] + 1e-9 <= 1.0 + 1e-9 for row in rows)
    assert 300 <= len(lock.seeds) <= 301  # others reset once more when the last episode has ended
    assert all(s % 2 == 0 for s in lock.seeds)
    assert len(set(lock.seeds)) > (200 if name in PAIRED else 290)

    fresh = Lock(horizon=3, n_actions=3, noise=0.1)
    for play in (policy, halfway[0]):
        batch = roll(fresh, play, 2 * np.arange(150) + 1)  # more than its width
        assert batch.features.shape == (4, 150, 4)
        assert batch.actions.min() >= 0
        assert batch.actions.max() < 3
        assert policy.start(5).shape == (5,)

    again = Counting()
    other = learn(again, rival, episodes=300, seed=7).policy
    assert again.seeds == lock.seeds
    np.testing.assert_array_equal(
        roll(fresh, policy, 2 * np.arange(100) + 1).actions, roll(fresh, other, 2 * np.arange(100) + 1).actions
    )
    third = Counting()
    learn(third, rival, episodes=40, seed=8)
    assert third.seeds[:40] != lock.seeds[:40]


@EACH
def test_bad_input(name):
    with pytest.raises(InputError, match="tau"):
        make_learner(name, "simulator", tau=1.5)
    with pytest.raises(InputError, match="episodes = 0"):
        learn(Lock(), make_learner(name, "simulator", **SMALL[name]), episodes=0)


def test_roll_keeps_the_rules():
    """Step by step, more episodes than the width; what is not alive pays nothing."""

    class Fixed:
        def __init__(self, shift):
            self.shift = shift

        def start(self, n):
            return np.zeros(n, dtype=np.int64)

        def act(self, h, states, memory):
            assert (memory == h).all()
            return (h + states[:, :3].argmax(axis=1) + self.shift * (h == 1)) % 3

        def update(self, h, moved, memory):
            return memory + 1

    lock = Lock(horizon=3, n_actions=3)
    batch = roll(lock, Fixed(0), np.arange(150))
    np.testing.assert_array_equal(batch.returns, 0.8)
    assert batch.alive.all()
    assert batch.features.shape == (4, 150, 4)
    batch = roll(lock, Fixed(1), np.arange(150))
    assert batch.alive[:2].all()
    assert not batch.alive[2].any()
    assert (batch.rewards[[0, 2]] == 0).all()
    assert (batch.features[2, :, 2] == 1).all()
    assert 0.03 < batch.returns.mean() < 0.07
