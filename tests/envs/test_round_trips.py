"""What is written is what is read, bit for bit."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrank.checks import InputError
from tailrank.envs import read_mdp, write_mdp
from tailrank.models.mdp import FiniteMDP

DOMAINS = Path(__file__).parents[1] / "golden" / "domains"
FIELDS = ("ptr", "next_state", "prob", "reward", "start")
REWARDS = st.floats(-1e99, 1e99, width=64)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def assert_same(found: FiniteMDP, expected: FiniteMDP) -> None:
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    for name in ("n_actions", "horizon", "discount", "labels", "action_labels", "absorbing"):
        assert getattr(found, name) == getattr(expected, name), name


@st.composite
def mdps(draw, one_reward=False):
    S, A = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    H = draw(st.integers(1, 3))
    timed = draw(st.booleans())
    blocks = H if timed else 1
    rows = []
    for b in range(blocks):
        for s in range(S):
            # State 0 plays every action and the last state has rows, so that CSV can hold the labels.
            for a in range(A):
                if s and not draw(st.booleans()) and s < S - 1:
                    continue
                n = draw(st.integers(1, 1 if one_reward else 3))
                weights = np.array([draw(st.integers(1, 9)) for _ in range(n)]) / 1.0
                for w in weights / weights.sum():
                    rows.append((b, s, a, draw(st.integers(0, S - 1)), w, draw(REWARDS)))
    step, s, a, t, p, r = zip(*rows)
    base = draw(st.sampled_from([0, 1]))
    names = draw(st.booleans())
    start = np.array([draw(st.integers(1, 5)) for _ in range(S)]) / 1.0
    return FiniteMDP.from_rows(
        s,
        a,
        t,
        p,
        r,
        step=step if timed else None,
        horizon=None if timed else H,
        n_states=S,
        n_actions=A,
        start=start / start.sum(),
        discount=draw(st.sampled_from([1.0, 1 / 3])),
        labels=tuple(f"room {i}, é" for i in range(S)) if names else tuple(range(base, base + S)),
        action_labels=tuple('l"r|'[i] * 2 for i in range(A)) if names else tuple(range(base, base + A)),
    )


@QUICK
@given(mdp=mdps())
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".json"])
def test_rows_round_trip_exactly(mdp, suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    write_mdp(mdp, path)
    given_again = {} if suffix == ".json" else {"horizon": mdp.horizon, "discount": mdp.discount, "start": mdp.start}
    found = read_mdp(path, **given_again).mdp
    if suffix != ".json" and mdp.labels[0] not in (0, 1):
        # Names get their order from rows: those of absorbing states may have to be written out.
        assert found.absorbing in ((), mdp.absorbing)
        found = replace(found, absorbing=mdp.absorbing)
    assert_same(found, mdp)


@QUICK
@given(mdp=mdps(one_reward=True))
def test_arrays_round_trip_exactly(mdp, tmp_path):
    write_mdp(mdp, tmp_path / "x.npz")
    assert_same(read_mdp(tmp_path / "x.npz").mdp, mdp)


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_different_rewards_for_one_next_state_stay_apart(suffix, tmp_path):
    mdp = FiniteMDP.from_rows([0, 0, 0], [0, 0, 0], [1, 1, 0], [0.25, 0.25, 0.5], [1.0, -1.0, 0.0], horizon=2)
    write_mdp(mdp, tmp_path / f"x{suffix}")
    found = read_mdp(tmp_path / f"x{suffix}", horizon=2).mdp
    assert_same(found, mdp)
    assert found.absorbing == (1,)


def test_arrays_add_up_equal_outcomes_and_refuse_different_rewards(tmp_path):
    same = FiniteMDP.from_rows([1, 1, 1], [0, 0, 0], [0, 0, 1], [0.25, 0.25, 0.5], [2.0, 2.0, 0.0], horizon=2)
    write_mdp(same, tmp_path / "x.npz")
    found = read_mdp(tmp_path / "x.npz").mdp
    assert found.prob.tolist() == [1.0, 0.5, 0.5]
    assert found.reward.tolist() == [0.0, 2.0, 0.0]
    unlike = FiniteMDP.from_rows([1, 1], [0, 0], [0, 0], [0.5, 0.5], [2.0, 3.0], horizon=2, labels=("p", "q"))
    with pytest.raises(InputError, match=r"state q, action 0, next state p: .*different rewards.*use \.csv or \.json"):
        write_mdp(unlike, tmp_path / "y.npz")
    assert not (tmp_path / "y.npz").exists()


def test_states_and_actions_without_rows_survive_in_json_and_are_refused_in_csv(tmp_path):
    mdp = FiniteMDP.from_rows([1], [1], [1], [1.0], [2.0], horizon=2, n_states=5, n_actions=4, start=1)
    write_mdp(mdp, tmp_path / "x.json")
    assert_same(read_mdp(tmp_path / "x.json").mdp, mdp)
    with pytest.raises(InputError, match=r"labels would not be the same.*use \.json"):
        write_mdp(mdp, tmp_path / "x.csv")


@pytest.mark.parametrize("labels", [("1", "2"), (" a", "b"), (1.5, 2), (True, 0), ("a\nb", "c"), ("", "b")])
@pytest.mark.parametrize("suffix", [".csv", ".json", ".npz"])
def test_labels_that_would_change_are_refused(labels, suffix, tmp_path):
    mdp = FiniteMDP.from_rows([0, 1], [0, 0], [1, 0], [1.0, 1.0], [0.0, 1.0], horizon=2, labels=labels)
    with pytest.raises(InputError, match="labels"):
        write_mdp(mdp, tmp_path / f"x{suffix}")


def test_numbers_with_an_added_end_keep_their_types(tmp_path):
    mdp = FiniteMDP.from_rows([0, 1], [0, 0], [1, 2], [1.0, 1.0], [0.0, 1.0], horizon=2, labels=(0, 1, "end"))
    for suffix in (".csv", ".json", ".npz"):
        write_mdp(mdp, tmp_path / f"x{suffix}")
        assert_same(read_mdp(tmp_path / f"x{suffix}", horizon=2).mdp, mdp)


@pytest.mark.parametrize(
    "name", ["inventory.csv.gz", "inventory_generic.csv", "machine.csv", "riverswim.csv", "ruin.csv"]
)
def test_published_domains_round_trip(name, tmp_path):
    mdp = read_mdp(DOMAINS / name, horizon=7, start=3).mdp
    assert mdp.labels[0] == mdp.action_labels[0] == 1
    for suffix in (".csv", ".json.gz"):
        write_mdp(mdp, tmp_path / f"x{suffix}")
        assert_same(read_mdp(tmp_path / f"x{suffix}", horizon=7, start=3).mdp, mdp)


def test_the_same_bytes_each_time_and_no_leftovers(tmp_path):
    mdp = read_mdp(DOMAINS / "ruin.csv", horizon=7).mdp
    seen = {}
    for _ in range(2):
        for suffix in (".csv.gz", ".json", ".csv"):
            path = tmp_path / f"x{suffix}"
            write_mdp(mdp, path)
            assert seen.setdefault(suffix, path.read_bytes()) == path.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["x.csv", "x.csv.gz", "x.json"]


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    mdp = read_mdp(DOMAINS / "ruin.csv", horizon=7).mdp
    path = tmp_path / "x.csv"
    path.write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match=r"x\.csv: cannot be written \(No space left on device\)"):
        write_mdp(mdp, path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["x.csv"]


def test_write_errors_name_the_path(tmp_path):
    mdp = read_mdp(DOMAINS / "ruin.csv", horizon=7).mdp
    with pytest.raises(InputError, match=r"no/x\.csv: cannot be written \(No such file or directory\)"):
        write_mdp(mdp, tmp_path / "no" / "x.csv")
    with pytest.raises(InputError, match=r"x\.txt: must be one of the file types \.csv"):
        write_mdp(mdp, tmp_path / "x.txt")
    assert "holds no horizon, discount or start" in write_mdp(mdp, tmp_path / "x.csv")[0]
