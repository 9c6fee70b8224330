"""QR-DQN for the tail. What needs PyTorch is skipped where Stable-Baselines3 is missing."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from small_simulators import Choice, Gamble, Lock

from oracles import cvar_by_sorting
from tailrank import InputError
from tailrank.rivals_rich import QrDqn
from tailrank.rivals_rich.qr_dqn import lowest
from tailrank.rivals_rich.rolling import roll

MISSING = find_spec("stable_baselines3") is None or find_spec("sb3_contrib") is None
needs_sb3 = pytest.mark.skipif(MISSING, reason="stable-baselines3 and sb3-contrib are not installed (tailrank[deep])")


@pytest.mark.parametrize("tau", [0.03, 0.1, 0.35, 0.5, 1.0])
def test_lowest_quantiles(tau):
    x = np.sort(np.random.default_rng(0).normal(size=11))
    assert lowest(11, tau) @ x == pytest.approx(cvar_by_sorting(x, [1 / 11] * 11, tau))
    assert lowest(11, tau).sum() == pytest.approx(1.0)


def test_bad_settings():
    with pytest.raises(InputError, match="act = 'worst'"):
        QrDqn(0.1, act="worst")
    with pytest.raises(InputError, match="quantiles = 0"):
        QrDqn(0.1, quantiles=0)


@pytest.mark.skipif(not MISSING, reason="stable-baselines3 is installed")
def test_says_what_is_missing():
    with pytest.raises(InputError, match=r"needs stable-baselines3 .* tailrank\[deep\]"):
        QrDqn(0.1).train(Choice(), 10, 0)


@pytest.mark.filterwarnings("ignore:.*infinity:UserWarning")
def test_simulator_as_gymnasium():
    from gymnasium.utils.env_checker import check_env

    from tailrank.rivals_rich.simulator_env import FiniteHorizon, SimulatorEnv

    lock = Lock(horizon=3, n_actions=3)
    check_env(SimulatorEnv(lock), skip_render_check=True)
    env = FiniteHorizon(SimulatorEnv(lock), 3)
    seen, _ = env.reset(seed=1)
    for h in range(3):
        z = int(lock.latent[0])
        np.testing.assert_array_equal(seen, [*np.eye(4)[z], *np.eye(3)[h]])
        assert env.observation_space.contains(seen)
        seen, reward, over, cut, _ = env.step(lock.right(h, z))
        assert (reward, over, cut) == ((0.8, True, False) if h == 2 else (0.0, False, False))
    assert (seen[4:] == 0).all()


def test_cut_off_is_the_end():
    import gymnasium

    from tailrank.rivals_rich.simulator_env import FiniteHorizon

    env = FiniteHorizon(gymnasium.make("CartPole-v1", max_episode_steps=5), 5)
    env.reset(seed=0)
    ends = [env.step(i % 2)[2:4] for i in range(5)]
    assert ends == [(False, False)] * 4 + [(True, False)]
    with pytest.raises(InputError, match="flat Box"):
        FiniteHorizon(gymnasium.make("FrozenLake-v1"), 5)


@needs_sb3
def test_acts_by_the_tail():
    import torch

    from tailrank.rivals_rich.qr_torch import TailNetwork

    quantiles = torch.tensor([[[3.0, 1.0], [-2.0, 0.9], [9.0, 1.1], [2.0, 1.2]]])  # [1, 4, 2], not sorted
    for tau, want in ((0.25, [-2.0, 0.9]), (0.375, [-2.0 * 2 / 3 + 2 / 3, (0.9 + 0.5) / 1.5]), (1.0, [3.0, 1.05])):
        network = TailNetwork.__new__(TailNetwork)
        torch.nn.Module.__init__(network)
        network.weights = torch.tensor(lowest(4, tau), dtype=torch.float32)
        np.testing.assert_allclose(network.worth(quantiles).numpy()[0], want, rtol=1e-6)


@needs_sb3
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("act", "action"), [("cvar", 0), ("mean", 1)])
def test_learns_the_choice_it_acts_for(act, action):
    learner = QrDqn(0.1, act=act, quantiles=20, hidden=(16,), rate=5e-3, train_every=1)
    policy = learner.train(Choice(), 1500, seed=0)
    chosen = policy.act(0, np.random.default_rng(0).normal(size=(200, 2)), policy.start(200))
    assert (chosen == action).mean() > 0.7


@needs_sb3
@pytest.mark.filterwarnings("default")
def test_gymnasium_environments_and_rows():
    import gymnasium

    rows = []
    learner = QrDqn(0.1, hidden=(8,), quantiles=5, report=20)
    policy = learner.train(gymnasium.make("CartPole-v1"), 50, 0, lambda row, _: rows.append(row))
    assert [row["episodes"] for row in rows] == [20, 40, 50]
    assert policy.act(0, np.zeros((3, 4)), policy.start(3)).shape == (3,)


@needs_sb3
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("target", ["same", "mean"])
def test_learns_a_short_lock(target):
    lock = Lock(horizon=2, n_actions=2)
    policy = QrDqn(0.1, target=target, quantiles=20, hidden=(16,), rate=5e-3, copy_every=100).train(lock, 1500, seed=0)
    assert roll(lock, policy, 2 * np.arange(200) + 1).returns.min() == pytest.approx(0.8)


@needs_sb3
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("target", "first"), [("same", 0), ("mean", 1)])
def test_target_plays_for_the_tail(target, first):
    """Going on is worth it only for a player who is careful later: QR-DQN's own target believes it is not."""
    learner = QrDqn(0.1, target=target, quantiles=20, hidden=(16,), rate=5e-3, copy_every=100, train_every=2)
    policy = learner.train(Gamble(), 1500, seed=0)
    assert policy.act(0, np.zeros((1, 1)), policy.start(1)) == [first]
    assert policy.act(1, np.zeros((1, 1)), policy.start(1)) == [0]
