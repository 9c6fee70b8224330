"""QR-DQN for the tail. What needs PyTorch is skipped where Stable-Baselines3 is missing."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from small_simulators import Choice, Gamble, Lock

from brute_force import cvar_by_sorting
from tailrank import InputError
from tailrank.episodes.streams import Streams
from tailrank.learning.learn import learn
from tailrank.learning.registry import make_learner
from tailrank.learning.rivals.observations.playing import roll
from tailrank.learning.rivals.observations.qr_dqn import C51, QrDqn
from tailrank.policies.distributional import DistributionalPolicy, category_tail
from tailrank.risk.law import tail_weights

MISSING = find_spec("stable_baselines3") is None or find_spec("sb3_contrib") is None
needs_sb3 = pytest.mark.skipif(MISSING, reason="stable-baselines3 and sb3-contrib are not installed (tailrank[deep])")


@pytest.mark.parametrize("tau", [0.03, 0.1, 0.35, 0.5, 1.0])
def test_lowest_quantiles(tau):
    x = np.sort(np.random.default_rng(0).normal(size=11))
    assert tail_weights(11, tau) @ x == pytest.approx(cvar_by_sorting(x, [1 / 11] * 11, tau))
    assert tail_weights(11, tau).sum() == pytest.approx(1.0)


def test_bad_settings():
    with pytest.raises(InputError, match="act = 'worst'"):
        QrDqn(0.1, act="worst")
    with pytest.raises(InputError, match="quantiles = 0"):
        QrDqn(0.1, quantiles=0)


@pytest.mark.skipif(not MISSING, reason="stable-baselines3 is installed")
def test_says_what_is_missing():
    with pytest.raises(InputError, match=r"needs stable-baselines3 .* tailrank\[deep\]"):
        learn(Choice(), QrDqn(0.1), episodes=10)


@pytest.mark.filterwarnings("ignore:.*infinity:UserWarning")
def test_simulator_as_gymnasium():
    from gymnasium.utils.env_checker import check_env

    from tailrank.learning.rivals.observations._simulator_env import FiniteHorizon, SimulatorEnv

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

    from tailrank.learning.rivals.observations._simulator_env import FiniteHorizon

    env = FiniteHorizon(gymnasium.make("CartPole-v1", max_episode_steps=5), 5)
    env.reset(seed=0)
    ends = [env.step(i % 2)[2:4] for i in range(5)]
    assert ends == [(False, False)] * 4 + [(True, False)]
    with pytest.raises(InputError, match="flat Box"):
        FiniteHorizon(gymnasium.make("FrozenLake-v1"), 5)


@needs_sb3
def test_acts_by_the_tail():
    import torch

    from tailrank.learning.rivals.observations._qr_torch import TailNetwork

    quantiles = torch.tensor([[[3.0, 1.0], [-2.0, 0.9], [9.0, 1.1], [2.0, 1.2]]])  # [1, 4, 2], not sorted
    for tau, want in ((0.25, [-2.0, 0.9]), (0.375, [-2.0 * 2 / 3 + 2 / 3, (0.9 + 0.5) / 1.5]), (1.0, [3.0, 1.05])):
        network = TailNetwork.__new__(TailNetwork)
        torch.nn.Module.__init__(network)
        network.weights, network.support = torch.tensor(tail_weights(4, tau), dtype=torch.float32), torch.zeros(0)
        np.testing.assert_allclose(network.worth(quantiles).numpy()[0], want, rtol=1e-6)


@pytest.mark.parametrize("tau", [0.03, 0.1, 0.35, 0.5, 1.0])
def test_tail_of_categories(tau):
    rng = np.random.default_rng(1)
    logits, support = rng.normal(size=(2, 7, 3)), np.sort(rng.normal(size=7))
    found = category_tail(logits, support, tau)
    for i in range(2):
        for a in range(3):
            p = np.exp(logits[i, :, a]) / np.exp(logits[i, :, a]).sum()
            assert found[i, a] == pytest.approx(cvar_by_sorting(support, p, tau))


@needs_sb3
def test_projection_keeps_mass_and_mean():
    """C51's projection: a law of numbers within the support keeps its mean; what lies beyond goes to the ends."""
    import torch

    from tailrank.learning.rivals.observations._qr_torch import projected

    support, rng = torch.linspace(0.0, 1.0, 11), np.random.default_rng(0)
    p = torch.tensor(rng.dirichlet(np.ones(11), size=3), dtype=torch.float32)
    values = torch.tensor(rng.uniform(0, 1, size=(3, 11)), dtype=torch.float32)
    found = projected(p, values, support)
    np.testing.assert_allclose(found.sum(1).numpy(), 1.0, rtol=1e-5)
    np.testing.assert_allclose((found * support).sum(1).numpy(), (p * values).sum(1).numpy(), rtol=1e-5)
    np.testing.assert_allclose(projected(p, values + 5.0, support)[:, -1].numpy(), 1.0, rtol=1e-5)


@needs_sb3
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["qr-dqn", "c51"])
def test_policy_without_torch_plays_what_the_network_says(name):
    import torch

    from tailrank.policies.distributional import with_step

    more = {"low": 0.0, "high": 1.0} if name == "c51" else {}
    rival, streams = make_learner(name, "simulator", report=100, **more), Streams(0)
    lock = Lock(horizon=3, n_actions=3, noise=0.3)
    rival = rival.prepared(lock, streams, 300)
    progress, _ = rival.step(rival.init(lock, streams), lock, streams)
    policy, x = rival.policy(progress, lock, streams), np.random.default_rng(0).normal(size=(500, 4))
    assert isinstance(policy, DistributionalPolicy)
    for h in range(3):
        told = progress.model.policy.quantile_net._predict(torch.as_tensor(with_step(x, h, 3))).numpy()
        assert (policy.act(h, x, policy.start(500)) == told).mean() > 0.995  # the last bits of a sum may differ


@needs_sb3
@pytest.mark.filterwarnings("default")
def test_goes_on_by_playing_again():
    rival, lock = QrDqn(0.1, quantiles=5, hidden=(8,), report=50, batch=16), Lock(horizon=3, n_actions=3, noise=0.1)
    streams = Streams(3)
    rival = rival.prepared(lock, streams, 200)
    progress = rival.init(lock, streams)
    for _ in range(2):
        progress, _ = rival.step(progress, lock, streams)
    played, arrays = progress.episodes, progress.to_arrays()
    _, third = rival.step(progress, lock, streams)
    again = rival.restored(arrays, lock, streams)  # seeds the generators that both of them use
    assert again.episodes == played
    assert rival.step(again, lock, streams)[1] == third


def test_c51_needs_a_range():
    with pytest.raises(InputError, match="low, high: the range"):
        C51(0.1).support(Lock())
    assert C51(0.1, low=-1.0, high=1.0).support(Lock())[[0, -1]].tolist() == [-1.0, 1.0]
    with pytest.raises(InputError, match=r"low = 2\.0: must lie below"):
        QrDqn(0.1, low=2.0, high=1.0)


@needs_sb3
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("act", "action"), [("cvar", 0), ("mean", 1)])
def test_learns_the_choice_it_acts_for(act, action):
    learner = QrDqn(0.1, act=act, quantiles=20, hidden=(16,), rate=5e-3, train_every=1)
    policy = learn(Choice(), learner, episodes=1500, seed=0).policy
    chosen = policy.act(0, np.random.default_rng(0).normal(size=(200, 2)), policy.start(200))
    assert (chosen == action).mean() > 0.7


@needs_sb3
@pytest.mark.filterwarnings("default")
def test_gymnasium_environments_and_rows():
    import gymnasium

    ends = []
    learner = QrDqn(0.1, hidden=(8,), quantiles=5, report=20)
    env = gymnasium.make("CartPole-v1")
    found = learn(env, learner, episodes=150, horizon=30, callback=lambda state, info: ends.append(state.episodes))
    policy = found.policy
    assert len(ends) > 3
    assert (np.diff([0, *ends[:-1]]) >= 20).all()
    assert (np.diff([0, *ends]) < 25).all()
    assert ends[-1] == 150
    assert policy.act(0, np.zeros((3, 4)), policy.start(3)).shape == (3,)


@needs_sb3
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("target", ["same", "mean"])
def test_learns_a_short_lock(target):
    lock = Lock(horizon=2, n_actions=2)
    learner = QrDqn(0.1, target=target, quantiles=20, hidden=(16,), rate=5e-3, copy_every=100)
    policy = learn(lock, learner, episodes=1500, seed=0).policy
    assert roll(lock, policy, 2 * np.arange(200) + 1).returns.min() == pytest.approx(0.8)


@needs_sb3
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("target", "first"), [("same", 0), ("mean", 1)])
def test_target_plays_for_the_tail(target, first):
    """Going on is worth it only for a player who is careful later: QR-DQN's own target believes it is not."""
    learner = QrDqn(0.1, target=target, quantiles=20, hidden=(16,), rate=5e-3, copy_every=100, train_every=2)
    policy = learn(Gamble(), learner, episodes=1500, seed=0).policy
    assert policy.act(0, np.zeros((1, 1)), policy.start(1)) == [first]
    assert policy.act(1, np.zeros((1, 1)), policy.start(1)) == [0]
