"""Gymnasium tables and icu-sepsis: the MDP read is the environment that runs."""

import importlib.util
import sys
import types

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from tailrank.checks import InputError
from tailrank.envs import read_mdp
from tailrank.envs.gymnasium.tables import make


class Table(gym.Env):
    """An environment with whatever table it is given."""

    def __init__(self, P=None, first=(0,), **attributes):
        self.observation_space, self.action_space = spaces.Discrete(2), spaces.Discrete(1)
        self.P, self.first = P, first
        vars(self).update(attributes)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.first[seed % len(self.first)], {}


class Broken(gym.Env):
    def __init__(self):
        print("noise")
        raise ZeroDivisionError("the pump\nburst")


@pytest.fixture
def table():
    ids = []

    def register(P, steps=5, entry_point=Table, **attributes):
        name = f"Fake{len(ids)}-v0"
        kwargs = {"P": P, **attributes} if entry_point is Table else {}
        gym.register(name, entry_point=entry_point, max_episode_steps=steps, kwargs=kwargs)
        ids.append(name)
        return name

    yield register
    for name in ids:
        del gym.registry[name]


GOOD = {0: {0: [(0.5, 0, 1.0, False), (0.5, 1, 2, True)]}, 1: {0: [(1.0, 1, 0, True)]}}


def test_frozen_lake_keeps_its_sixteen_states():
    source = read_mdp("FrozenLake-v1")
    mdp = source.mdp
    assert (mdp.n_states, mdp.n_actions, mdp.horizon, mdp.prob.size) == (16, 4, 100, 152)
    assert source.name == "FrozenLake-v1"
    assert source.notes == ("horizon 100, the environment's own limit (change with horizon=...)",)
    assert mdp.start[0] == 1
    assert "beyond the environment's own limit of 100" in read_mdp("FrozenLake-v1", horizon=200).notes[0]


def test_cliff_walking_ends_in_an_added_state():
    source = read_mdp("CliffWalking-v1", horizon=13)
    mdp = source.mdp
    assert (mdp.n_states, mdp.labels[48], mdp.absorbing) == (49, "end", (48,))
    assert mdp.start[36] == 1
    assert source.notes[0] == "4 terminating outcomes lead to the added state end"
    values = backward(mdp, 13)
    assert values[36] == -13  # the shortest way along the cliff: thirteen steps of -1
    with pytest.raises(InputError, match=r"horizon: CliffWalking-v1 has no limit on the steps.*horizon=..."):
        read_mdp("CliffWalking-v1")


def test_slippery_cliff_keeps_outcomes_that_differ_in_reward():
    mdp = read_mdp("CliffWalkingSlippery-v1", horizon=20).mdp
    table = mdp.table()
    key = list(zip(table["state"].tolist(), table["action"].tolist(), table["next_state"].tolist()))
    assert len(key) == 577
    rewards = {}
    for k, r in zip(key, table["reward"].tolist()):
        rewards.setdefault(k, set()).add(r)
    assert sum(len(r) > 1 for r in rewards.values()) == sum_of_different_rewards("CliffWalkingSlippery-v1") > 0


def sum_of_different_rewards(name):
    P = gym.make(name).unwrapped.P
    found = 0
    for actions in P.values():
        for outcomes in actions.values():
            by_next = {}
            for _, t, r, done in outcomes:
                by_next.setdefault((t, done), set()).add(r)
            found += sum(len(r) > 1 for r in by_next.values())
    return found


def test_taxi():
    mdp = read_mdp("Taxi-v4").mdp
    assert (mdp.n_states, mdp.n_actions, mdp.horizon) == (501, 6, 200)
    assert np.count_nonzero(mdp.start) == 300
    assert read_mdp("Taxi-v4", start="3:0.5,end:0.5").mdp.start[[3, 500]].tolist() == [0.5, 0.5]


def test_rows_agree_with_the_running_environment():
    mdp = read_mdp("CliffWalkingSlippery-v1", horizon=20).mdp
    rows = {}
    table = mdp.table()
    for s, a, t, p, r in zip(*(table[k].tolist() for k in ("state", "action", "next_state", "probability", "reward"))):
        rows.setdefault((s, a), {})[(t, r)] = rows.get((s, a), {}).get((t, r), 0) + p
    env = gym.make("CliffWalkingSlippery-v1")
    state, _ = env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(300):
        action = env.action_space.sample()
        after, reward, ended, _, _ = env.step(action)
        assert (48 if ended else after, reward) in rows[state, action]
        state = env.reset()[0] if ended else after


@pytest.mark.parametrize("name", ["Blackjack-v1", "CartPole-v1"])
def test_environments_without_a_table(name):
    with pytest.raises(
        InputError, match=f"{name}: this environment exposes no transition table .it has no attribute P"
    ):
        read_mdp(name)


@pytest.mark.parametrize(
    ("P", "message"),
    [
        (None, r"Fake0-v0: this environment exposes no transition table \(P is None\)"),
        (np.ones((3, 4)), r"no transition table \(P is a float64 array of shape \[3, 4\]\)"),
        ({}, r"no transition table \(P is a dict without entries\)"),
        ("text", r"no transition table \(P is a str\)"),
        ([1.0, 2.0], r"P\[0\] is a float: must be a table of outcomes"),
        ({"a": {0: []}}, "a key of P = 'a': must be a whole number"),
        ({0: {0: 0.5}}, r"P\[0\]\[0\] is a float: must be a list of outcomes"),
        ({0: {0: [(1.0, 0)]}}, r"P\[0\]\[0\]\[0\] = \(1\.0, 0\): must be \(probability, next state"),
        ({0: {0: [(1.0, 0.5, 0, False)]}}, r"P\[0\]\[0\]\[0\], next state = 0\.5: must be a whole number"),
        ({0: {0: [(1.0, 10**12, 0, False)]}}, "next state = 1000000000000: must be a whole number below"),
        ({0: {0: [(1.0, 10**8, 0, False)]}}, "P: 100000001 states and 1 actions are too many for 1 outcomes"),
        ({0: {0: [("x", 0, 0, False)]}}, r"P\[0\]\[0\]\[0\], probability = 'x': must be a number"),
        ({0: {0: [(1.0, 0, float("nan"), False)]}}, r"reward = nan: must be finite"),
        ({0: {0: [(1.0, 0, 0, "no")]}}, r"terminated = 'no', must be true or false"),
        ({0: {0: [(0.5, 0, 0, False)]}}, r"probabilities at state 0, action 0 sum to 0\.5"),
        ({0: {0: []}}, "P: this transition table has no outcomes"),
    ],
)
def test_an_attribute_p_proves_nothing(table, P, message):
    with pytest.raises(InputError, match=message) as caught:
        read_mdp(table(P))
    assert "\n" not in str(caught.value)


def test_a_fixed_start_is_found_by_reset(table):
    source = read_mdp(table(GOOD, first=(1,)))
    assert source.mdp.n_states == 2  # state 1 is absorbing with reward 0 already
    assert source.mdp.start.tolist() == [0, 1]
    assert source.mdp.absorbing == ()
    with pytest.raises(InputError, match=r"begins in different states \(0, 1\).*give start=..."):
        read_mdp(table(GOOD, first=(0, 1)))
    assert read_mdp(table(GOOD, first=(0, 1)), start=1).mdp.start.tolist() == [0, 1]
    with pytest.raises(
        InputError, match=r"reset gives a float64 array of shape \[2\], not a state number; give start=..."
    ):
        read_mdp(table(GOOD, first=(np.zeros(2),)))


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ([0.5, 0.4], r"initial_state_distrib sums to 0\.9, expected 1"),
        ([0.5, 0.25, 0.25], "initial_state_distrib: has 3 entries for 2 states"),
        ("x", "initial_state_distrib: must be an array of numbers, found a str"),
    ],
)
def test_a_start_law_is_checked(table, law, message):
    assert read_mdp(table(GOOD, initial_state_distrib=[0.25, 0.75])).mdp.start.tolist() == [0.25, 0.75]
    with pytest.raises(InputError, match=message):
        read_mdp(table(GOOD, initial_state_distrib=law))


def test_failures_of_foreign_code_are_one_line(table, monkeypatch, capfd):
    with pytest.raises(InputError, match=r"^Fake0-v0: failed with ZeroDivisionError: the pump$"):
        read_mdp(table(None, entry_point=Broken))
    with pytest.raises(InputError, match="import no_such_package: failed with ModuleNotFoundError: No module named"):
        read_mdp("FrozenLake-v1", imports=["no_such_package"])
    with pytest.raises(InputError, match="import no_such_package: failed with ModuleNotFoundError"):
        read_mdp("no_such_package:FrozenLake-v1")
    monkeypatch.setitem(sys.modules, "a_package", types.ModuleType("a_package"))
    assert read_mdp("a_package:FrozenLake-v1").mdp.n_states == 16
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("name", "near"), [("frozenlake-v1", "FrozenLake-v1"), ("Taxi-v3", "Taxi-v4")])
def test_unknown_ids_suggest_the_nearest(name, near):
    with pytest.raises(
        InputError, match=rf"'{name}': is neither .* nor a Gymnasium environment .*did you mean '{near}'.*imports=..."
    ):
        read_mdp(name)
    with pytest.raises(InputError, match="index_base = 1: the states of an environment are numbered from 0"):
        read_mdp("FrozenLake-v1", index_base=1)


@pytest.mark.skipif(importlib.util.find_spec("icu_sepsis") is None, reason="needs icu-sepsis")
def test_icu_sepsis(capfd):
    source = read_mdp("Sepsis/ICU-Sepsis-v2", imports=["icu_sepsis"])
    mdp = source.mdp
    assert (mdp.n_states, mdp.n_actions, mdp.horizon) == (716, 25, 500)
    assert source.notes[0] == "15587 of 17900 state-action pairs are inadmissible and left out"
    dynamics = make("Sepsis/ICU-Sepsis-v2").unwrapped.dynamics
    np.testing.assert_allclose(mdp.start, dynamics["d_0"], atol=1e-15)
    available = (np.diff(mdp.ptr) > 0).reshape(716, 25)
    assert [np.flatnonzero(row).tolist() for row in available] == [sorted(a) for a in dynamics["admissible_actions"]]
    # Death and survival end an episode; in the table they pay nothing and lead to the state after the end.
    rows = np.isin(mdp.pair // 25, (713, 714, 715))
    assert set(mdp.next_state[rows].tolist()) == {715}
    assert not mdp.reward[rows].any()
    assert round(float(mdp.start @ backward(mdp, 500)), 2) == 0.88  # published survival of the best policy
    # With inadmissible actions, which behave as the mean of the admissible ones, nothing better can be done.
    P, R = dynamics["tx_mat"].reshape(-1, 716), dynamics["r_mat"].reshape(-1, 716)
    expected, values = (P * R).sum(axis=1), np.zeros(716)
    for _ in range(10):
        values = (expected + P @ values).reshape(716, 25).max(axis=1)
    np.testing.assert_allclose(backward(mdp, 10), values, atol=1e-12)
    assert capfd.readouterr() == ("", "")


def backward(mdp, steps):
    """The best mean return of every state, [S]."""
    pairs = np.diff(mdp.ptr) > 0
    values = np.zeros(mdp.n_states)
    for _ in range(steps):
        q = np.full(pairs.size, -np.inf)
        q[pairs] = np.add.reduceat(mdp.prob * (mdp.reward + values[mdp.next_state]), mdp.ptr[:-1][pairs])
        values = q.reshape(mdp.n_states, mdp.n_actions).max(axis=1)
    return values
