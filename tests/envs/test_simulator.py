"""Gymnasium environments as simulators: against the environment played by hand, whatever it is wrapped in."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import toys
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from toys import SPACES, Clean, Walk, copies

from tailrank import InputError
from tailrank.envs import GymSimulator, open_simulator
from tailrank.envs.gymnasium._players import number
from tailrank.envs.gymnasium.simulator import simulator_with
from tailrank.envs.gymnasium.spaces import Encoder

MODES = list(AutoresetMode)
H = 5
forks = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
"""Other packages warn of forks once they run threads of their own."""


def script(seed):
    """The numbers of the actions that are played in the episode with this seed."""
    return np.random.default_rng(seed).integers(0, 3, H)


def by_hand(env, seed, actions, horizon=H):
    """Features [L + 1, m] and rewards [L] of an episode, played without the simulator."""
    encoder = Encoder.of(env.observation_space)
    seen, rewards = [env.reset(seed=int(seed))[0]], []
    for a in actions[:horizon]:
        observation, reward, terminated, truncated, _ = env.step(np.int64(a + 1))
        seen.append(observation)
        rewards.append(reward)
        if terminated or truncated:
            break
    return encoder.encode(seen), np.array(rewards)


def played(simulator, seeds):
    """The same of every seed, through the simulator, and what it returned after each end."""
    features = [simulator.reset(np.array(seeds))]
    rewards, overs = [], []
    scripts = [script(seed) for seed in seeds]
    for h in range(H):
        paid, seen, over = simulator.step(np.array([actions[h] for actions in scripts]))
        rewards.append(paid)
        features.append(seen)
        overs.append(over)
    assert over.all()
    lengths = [1 + int(np.argmax([o[i] for o in overs])) for i in range(len(seeds))]
    return np.array(features), np.array(rewards), np.array(overs), lengths


def agrees(simulator, seeds, kind="box", longest=6):
    """Whether every episode is the one played by hand, and nothing happens after its end."""
    features, rewards, overs, lengths = played(simulator, seeds)
    for i, seed in enumerate(seeds):
        expected, paid = by_hand(Walk(kind, longest), seed, script(seed))
        n = len(paid)
        assert lengths[i] == n
        assert np.array_equal(features[: n + 1, i], expected)
        assert np.array_equal(rewards[:n, i], paid)
        assert not overs[: n - 1, i].any()
        assert overs[n - 1 :, i].all()
        assert (rewards[n:, i] == 0).all()
        assert (features[n:, i] == features[n, i]).all()
    return True


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("width", [1, 4])
def test_copies_play_the_episodes_of_their_seeds(kind, width):
    with open_simulator(Walk, width=width, horizon=H, kind=kind) as simulator:
        assert (simulator.width, simulator.horizon, simulator.n_actions, simulator.name) == (width, H, 3, "Walk")
        for first in range(0, 40, width):
            assert agrees(simulator, list(range(first, first + width)), kind)
        assert agrees(simulator, [7], kind)


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_vector_environments_in_every_reset_mode(kind, mode):
    # Ends come at different steps, so parts are reset while others play on; then all begin anew.
    env = copies(Walk, 4, mode, kind=kind)
    with open_simulator(env, horizon=H) as simulator:
        assert simulator.width == 4
        for first in range(0, 60, 4):
            assert agrees(simulator, list(range(first, first + 4)), kind)
        assert agrees(simulator, [3, 8], kind)
        assert agrees(simulator, [5], kind)
    env.close()


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_vector_environments_of_short_episodes(mode):
    env = copies(Walk, 3, mode, longest=2)
    simulator = open_simulator(env, horizon=H)
    for first in range(0, 30, 3):
        assert agrees(simulator, list(range(first, first + 3)), longest=2)


def test_a_vector_environment_that_reuses_its_arrays():
    env = gymnasium.vector.SyncVectorEnv([Walk] * 3, copy=False)
    assert agrees(open_simulator(env, horizon=H), [1, 2, 3])


@forks
@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_parts_in_other_processes(mode):
    env = gymnasium.vector.AsyncVectorEnv([Walk] * 2, autoreset_mode=AutoresetMode[mode])
    try:
        simulator = open_simulator(env, horizon=H)
        for first in (0, 2, 4):
            assert agrees(simulator, [first, first + 1])
    finally:
        env.close()


@forks
def test_a_reset_that_would_leak_into_the_next_episode_is_refused():
    env = gymnasium.vector.AsyncVectorEnv([Walk] * 2, shared_memory=False)
    try:
        with pytest.raises(InputError, match="use shared_memory=True or mode SAME_STEP"):
            open_simulator(env, horizon=H)
    finally:
        env.close()


def test_vector_environments_that_cannot_be_played():
    native = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    simulator = open_simulator(native)
    assert simulator.horizon == 500
    with pytest.raises(InputError, match=r"CartPole-v1, seeds 0\.\.2 \(2 of them\), reset: .* seeded one by one"):
        simulator.reset(np.array([0, 2]))
    undeclared = toys.Pooled()
    undeclared.metadata = {}
    with pytest.raises(InputError, match=r"metadata.'autoreset_mode'. of this vector environment is NONE"):
        open_simulator(undeclared, horizon=3)


def test_a_missing_last_observation_is_an_error():
    env = copies(Walk, 2, AutoresetMode.NEXT_STEP, longest=1)
    env.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    simulator = open_simulator(env, horizon=H)
    simulator.reset(np.array([0, 1]))
    with pytest.raises(InputError, match="Walk, seed 0, step 0: its last observation is missing"):
        simulator.step(np.zeros(2, dtype=int))


def test_other_parts_may_observe_what_they_like():
    class Late(Clean):
        """Observes NaN in every episode but the first of each seed."""

        times = 0

        def reset(self, *, seed=None, options=None):
            if seed is None:
                super().reset()
                return np.full(2, np.nan), {}
            return super().reset(seed=seed)

        def step(self, action):
            observation, reward, _, _, info = super().step(action)
            return observation, reward, bool(self.state[0] > 0.5), False, info

    for mode in MODES:
        simulator = open_simulator(copies(Late, 4, mode), horizon=6)
        simulator.reset(np.arange(4))
        for _ in range(6):
            _, features, over = simulator.step(np.zeros(4, dtype=int))
            assert np.isfinite(features).all()
        assert over.all()


# Sources and horizons


def test_ids_settings_and_imports():
    with open_simulator("FrozenLake-v1", is_slippery=False, width=2) as simulator:
        assert (simulator.name, simulator.horizon, simulator.n_features, simulator.encoder.n_values) == (
            "FrozenLake-v1",
            100,
            16,
            16,
        )
        simulator.reset(np.array([0, 1]))
        # Without slipping: down, down, right, right, down, right reaches the goal.
        for a in (1, 1, 2, 2, 1):
            assert simulator.step(np.array([a, 0]))[0].tolist() == [0, 0]
        rewards, features, over = simulator.step(np.array([2, 0]))
        assert rewards.tolist() == [1, 0]
        assert over.tolist() == [True, False]
        assert features.argmax(axis=1).tolist() == [15, 0]
        assert simulator.notes == ("horizon 100, the environment's own limit (change with horizon=...)",)
    assert open_simulator("tailrank/RiskyLock-v0", horizon=5).n_actions == 4
    assert (
        open_simulator("tailrank.envs.gymnasium.registered:tailrank/RiskyLock-v0", horizon=5).name
        == "tailrank/RiskyLock-v0"
    )
    inner = simulator_with(
        "tailrank/RiskyLock-v0", {"horizon": 7}, horizon=5, imports=["tailrank.envs.gymnasium.registered"]
    )
    assert inner.horizon == 5


@pytest.mark.parametrize(
    "name", ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "Taxi-v4", "CliffWalking-v1"]
)
def test_environments_of_gymnasium(name):
    if name not in gymnasium.registry:
        pytest.skip(f"this Gymnasium has no {name}")
    env = gymnasium.make(name, max_episode_steps=20)
    with open_simulator(name, width=2, max_episode_steps=20) as simulator:
        assert simulator.horizon == 20
        actions = np.random.default_rng(0).integers(0, simulator.n_actions, (20, 2))
        features = [simulator.reset(np.array([4, 6]))]
        rewards = []
        for a in actions:
            paid, seen, over = simulator.step(a)
            features.append(seen)
            rewards.append(paid)
        assert over.all()
        for i, seed in enumerate((4, 6)):
            seen = [env.reset(seed=seed)[0]]
            for h in range(20):
                observation, reward, terminated, truncated, _ = env.step(simulator.actions.decode(actions[h, i]))
                seen.append(observation)
                assert reward == rewards[h][i]
                if terminated or truncated:
                    break
            expected = simulator.encoder.encode(seen)
            assert np.array_equal(np.array(features)[: len(seen), i], expected)


def test_wrapped_instances():
    inner = PassiveEnvChecker(OrderEnforcing(TimeLimit(Walk(), 4)))
    simulator = open_simulator(inner)
    assert (simulator.width, simulator.horizon) == (1, 4)
    features, rewards = by_hand(Walk(), 3, script(3), 4)
    simulator.reset(np.array([3]))
    for h, reward in enumerate(rewards):
        paid, seen, over = simulator.step(script(3)[h : h + 1])
        assert paid[0] == reward
        assert np.array_equal(seen[0], features[h + 1])
    assert over.all()
    simulator.close()
    inner.reset(seed=1)  # what was handed in stays open


@forks
def test_horizons():
    with pytest.raises(InputError, match=r"horizon: Walk has no limit on the steps of an episode; give horizon=..."):
        open_simulator(Walk)
    assert open_simulator(TimeLimit(Walk(), 9)).horizon == 9
    assert open_simulator(copies(lambda: TimeLimit(Walk(), 9), 2, AutoresetMode.NEXT_STEP)).horizon == 9
    assert open_simulator(gymnasium.make_vec("FrozenLake-v1", num_envs=2)).horizon == 100
    long = open_simulator("CartPole-v1", horizon=600)
    assert "beyond the environment's own limit of 500 steps" in long.notes[0]
    box = open_simulator("Pendulum-v1", levels=3)
    assert box.n_actions == 3
    assert "3 points of Box" in box.notes[1]
    env = gymnasium.vector.AsyncVectorEnv([lambda: TimeLimit(Walk(), 8)] * 2)
    try:
        assert open_simulator(env).horizon == 8
        assert agrees(open_simulator(env, horizon=H), [0, 1])  # asking did not harm it
    finally:
        env.close()


def test_the_horizon_cuts_and_does_not_touch_the_environment():
    calls = []

    class Counting(Clean):
        def step(self, action):
            calls.append(action)
            return super().step(action)

    simulator = open_simulator(Counting, horizon=3)
    simulator.reset(np.array([0]))
    overs = [bool(simulator.step(np.array([0]))[2][0]) for _ in range(5)]
    assert overs == [False, False, True, True, True]
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"source": "CartPol-v1"},
            "'CartPol-v1': is no Gymnasium environment that is known .did you mean 'CartPole-v1'",
        ),
        ({"source": "nowhere:X-v0"}, "import nowhere: failed with ModuleNotFoundError"),
        ({"source": "CartPole-v1", "imports": ["nowhere"]}, "import nowhere: failed"),
        ({"source": "CartPole-v1", "wheels": 4}, "CartPole-v1: failed with TypeError: .*wheels"),
        ({"source": 7}, "environment = 7: must be an id, a function"),
        ({"source": lambda: 7}, "made 7, must make a gymnasium.Env"),
        ({"source": "CartPole-v1", "width": 0}, "width = 0: must be a whole number of at least 1"),
        ({"source": "CartPole-v1", "horizon": 0}, "horizon = 0: must be"),
        ({"source": toys.Text, "horizon": 3}, "a Text space"),
        ({"source": Clean(), "horizon": 3, "width": 2}, "width = 2: Clean was given as it is, it plays 1 at once"),
        ({"source": Clean(), "horizon": 3, "speed": 2}, "speed: settings belong to an id or a function"),
    ],
)
def test_bad_sources(arguments, message):
    with pytest.raises(InputError, match=message):
        open_simulator(**arguments)


def test_copies_must_have_one_space():
    sizes = iter(range(2, 9))

    class Grows(Clean):
        def __init__(self):
            super().__init__()
            self.observation_space = gymnasium.spaces.Box(-1, 1, (next(sizes),))

    with pytest.raises(InputError, match="Grows: copies have different spaces"):
        open_simulator(Grows, horizon=3, width=2)


# What goes wrong while playing


def to_the_end(simulator, seeds):
    simulator.reset(np.array(seeds))
    for _ in range(simulator.horizon):
        simulator.step(np.zeros(len(seeds), dtype=int))


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (toys.NanSeen, r"NanSeen, seed 6, step 3: observation\[1\] = nan: must be finite"),
        (toys.InfiniteSeen, r"InfiniteSeen, seed 6, step 3: observation\[0\] = -inf: must be finite"),
        (toys.WrongShape, r"WrongShape, seed 6, step 1: observation: has shape \(3,\), the space says \(2,\)"),
        (toys.NanPaid, "NanPaid, seed 6, step 4: reward = nan, must be finite"),
        (toys.TextPaid, "TextPaid, seed 6, step 0: reward = 'much', must be one number"),
        (toys.TwoPaid, r"TwoPaid, seed 6, step 0: reward = array\(\[1., 2.\]\), must be one number"),
        (toys.ArrayFlag, "ArrayFlag, seed 6, step 0: terminated or truncated = array"),
        (toys.TextFlag, "TextFlag, seed 6, step 0: terminated or truncated = 'no', must be True or False"),
        (toys.NoFlag, "NoFlag, seed 6, step 0: terminated or truncated = None, must be True or False"),
        (toys.Raises, "^Raises, seed 6, step 6: failed with ZeroDivisionError: no more fuel$"),
        (toys.Exits, "^Exits, seed 6, step 6: failed with SystemExit: 0$"),
        (toys.NoReset, "NoReset, seed 6, reset: failed with OSError: cannot start"),
        (toys.OldReset, r"OldReset, seed 6, reset: returned a ndarray, must be \(observation, info\)"),
        (toys.OldStep, "OldStep, seed 6, step 0: step returned 4 values, .*old Gym interface"),
    ],
)
def test_errors_name_environment_seed_and_step(env, message):
    simulator = open_simulator(env, horizon=20, width=2)
    with pytest.raises(InputError, match=message):
        to_the_end(simulator, [6, 8])


@pytest.mark.parametrize("env", [toys.NanSeen, toys.NanPaid, toys.Raises])
def test_errors_in_a_vector_environment(env):
    simulator = open_simulator(copies(env, 2, AutoresetMode.NEXT_STEP), horizon=20)
    with pytest.raises(InputError, match=f"{env.__name__}, seeds? 6(..8 .2 of them.)?, step"):
        to_the_end(simulator, [6, 8])


def test_interrupts_pass():
    class Stops(Clean):
        def move(self, action):
            raise KeyboardInterrupt

    simulator = open_simulator(Stops, horizon=3)
    simulator.reset(np.array([0]))
    with pytest.raises(KeyboardInterrupt):
        simulator.step(np.array([0]))


@pytest.mark.parametrize("reward", [1, 1.5, True, np.float32(0.5), np.int8(3), np.array(2.0), np.array([[4]])])
def test_rewards_that_are_numbers(reward):
    assert number(reward, "here") == float(np.asarray(reward).ravel()[0])


@pytest.mark.parametrize("reward", [None, "1", [1, 2], np.zeros(0), 1j, np.inf, {"r": 1}, np.array(["1"])])
def test_rewards_that_are_not(reward):
    with pytest.raises(InputError, match="here: reward"):
        number(reward, "here")


@pytest.mark.parametrize("seeds", [[], [0, 1, 2], [-1], [0.5], 3, [[0]]], ids=str)
def test_bad_seeds(seeds):
    with pytest.raises(InputError, match=r"must be 1\.\.2 whole numbers"):
        open_simulator(Clean, horizon=3, width=2).reset(np.array(seeds))


def test_bad_actions_and_order_of_calls():
    simulator = open_simulator(Clean, horizon=3, width=2)
    with pytest.raises(InputError, match="step needs episodes"):
        simulator.step(np.array([0]))
    simulator.reset(np.array([0, 2]))
    with pytest.raises(InputError, match=r"action = 2: must lie in 0\.\.1"):
        simulator.step(np.array([0, 2]))
    with pytest.raises(InputError, match="actions: must be 2 whole numbers"):
        simulator.step(np.array([0]))
    with pytest.raises(InputError, match="actions: must be 2 whole numbers"):
        simulator.step(np.array([0.0, 1.0]))
    simulator.close()
    simulator.close()
    for call in (lambda: simulator.reset(np.array([0])), lambda: simulator.step(np.array([0]))):
        with pytest.raises(InputError):
            call()


def test_what_is_returned_may_be_changed():
    simulator = open_simulator(Clean, horizon=3)
    first = simulator.reset(np.array([0]))
    first[:] = 9
    _, features, over = simulator.step(np.array([0]))
    kept = features.copy()
    features[:], over[:] = 9, True
    simulator.step(np.array([0]))
    assert np.abs(simulator.step(np.array([0]))[1]).max() <= 1
    assert (kept != 9).all()


def test_close_closes_what_was_made():
    closed = []

    class Closes(Clean):
        def close(self):
            closed.append(self)

    open_simulator(Closes, horizon=3, width=3).close()
    assert len(closed) == 3
    open_simulator(Closes(), horizon=3).close()
    assert len(closed) == 3
    with pytest.raises(InputError, match="horizon"):
        open_simulator(Closes)
    assert len(closed) == 4


def test_about_is_plain_and_enough_to_act_again():
    import json

    from tailrank.envs.gymnasium.actions import Actions

    simulator = open_simulator(Walk, horizon=H, kind="dict")
    about = json.loads(json.dumps(simulator.about(), allow_nan=False))
    assert about["horizon"] == H
    assert Encoder.from_json(about["encoder"]) == simulator.encoder
    assert Actions.from_json(about["actions"]) == simulator.actions
    assert isinstance(simulator, GymSimulator)
