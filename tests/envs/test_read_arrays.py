"""NPZ arrays: axis orders, reward shapes, labels, and files that are not what they claim."""

import io
import zipfile

import numpy as np
import pytest

from tailrank.checks import InputError
from tailrank.envs import read_mdp
from tailrank.envs.mdp_files import _npz
from tailrank.models.mdp import FiniteMDP

rng = np.random.default_rng(7)
S, A, H = 4, 2, 3
P = rng.dirichlet(np.ones(S), size=(S, A))
R = rng.normal(size=(S, A, S))


@pytest.fixture
def read(tmp_path):
    def reader(options=None, **content):
        np.savez(tmp_path / "m.npz", **content)
        return read_mdp(tmp_path / "m.npz", **({"horizon": H} | (options or {})))

    return reader


def by_action(x):
    return np.swapaxes(x, -3, -2)


def rewards(mdp):
    return mdp.reward.reshape(-1, S, A, S)


@pytest.mark.parametrize(
    ("kernel", "given", "full"),
    [
        (P, R, R),
        (P, R[:, 0, 0], R[:, :1, :1]),
        (P, R[:, :, 0], R[:, :, :1]),
        (by_action(P), by_action(R), R),
        (by_action(P), R[:, :, 0], R[:, :, :1]),
        (by_action(P), R[:, :, 0].T, R[:, :, :1]),
        (by_action(P), R[:, 0, 0], R[:, :1, :1]),
    ],
)
def test_both_axis_orders_with_every_reward_shape(read, kernel, given, full):
    source = read(P=kernel, R=given)
    np.testing.assert_array_equal(source.mdp.prob, P.ravel())
    np.testing.assert_array_equal(rewards(source.mdp)[0], np.broadcast_to(full, P.shape))
    assert source.notes[0].endswith("4 states, 2 actions")
    stacked = np.stack([kernel] * H)
    for many in (np.stack([given] * H), given):
        timed = read({"horizon": None}, P=stacked, R=many).mdp
        assert (timed.horizon, timed.n_blocks) == (H, H)
        np.testing.assert_array_equal(rewards(timed), np.broadcast_to(full, (H, *P.shape)))


def test_as_many_states_as_actions_asks_for_the_order(read):
    square = rng.dirichlet(np.ones(3), size=(3, 3))
    reward = rng.normal(size=(3, 3, 3))
    with pytest.raises(
        InputError, match=r"m\.npz: P: has shape \[3, 3, 3\].*axis_order=... \(state-first or action-first\)"
    ):
        read(P=square, R=reward)
    first = read({"axis_order": "state-first"}, P=square, R=reward).mdp
    second = read({"axis_order": "action-first"}, P=by_action(square), R=by_action(reward)).mdp
    np.testing.assert_array_equal(first.prob, second.prob)
    np.testing.assert_array_equal(first.reward, second.reward)
    with pytest.raises(InputError, match="axis_order = action-first: the file says 'state-first'"):
        read({"axis_order": "action-first"}, P=square, R=reward, axis_order="state-first")
    with pytest.raises(InputError, match=r"P: has shape \[4, 2, 4\], which cannot be action-first"):
        read({"axis_order": "action-first"}, P=P, R=R)


def test_all_zero_pairs_are_not_available(read):
    part = P.copy()
    part[1, 1] = part[2] = 0
    source = read(P=part, R=R)
    assert source.mdp.absorbing == (2,)
    assert np.diff(source.mdp.ptr).tolist() == [4, 4, 4, 0, 1, 0, 4, 4]
    assert source.notes[-1] == "1 state without rows made absorbing, reward 0: 2"


def test_labels_start_and_settings_from_the_file(read):
    source = read({"horizon": None}, P=P, R=R, start=np.array("b"), horizon=5, discount=0.5, states=list("abcd"), x=1)
    mdp = source.mdp
    assert (mdp.labels, mdp.horizon, mdp.discount, mdp.start.tolist()) == (
        tuple("abcd"),
        5,
        0.5,
        [0, 1, 0, 0],
    )
    assert "arrays not used: x" in source.notes
    assert read({"index_base": 1, "start": 4}, P=P, R=R).mdp.start.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"P": P}, "R: there is no such array in the file, found P"),
        ({"T": P, "R": R}, "P: there is no such array in the file, found R, T"),
        ({"P": P[0], "R": R}, r"P: must have shape \[S, A, S\] or \[A, S, S\].*found \[2, 4\]"),
        ({"P": P[:3], "R": R}, r"P: must have shape .*found \[3, 2, 4\]"),
        ({"P": P, "R": R[:3]}, r"R: must have shape \[S\], .* with S = 4, A = 2, found \[3, 2, 4\]"),
        ({"P": P, "R": R[:, :, 0].T}, r"R: must have shape .*found \[2, 4\]"),
        ({"P": P * 0.9, "R": R}, r"probabilities at state 0, action 0 sum to 0\.9, expected 1"),
        ({"P": P * 0, "R": R}, "no outcome with a probability above 0"),
        ({"P": np.stack([P, P * 0, P]), "R": R}, r"P\[1\]: is zero everywhere, so step 1 has no outcomes"),
        ({"P": P.astype(complex), "R": R}, "P: must be an array of real numbers, found complex128"),
        ({"P": P, "R": R.astype(str)}, "R: must be an array of real numbers, found <U"),
        ({"P": P, "R": R, "horizon": [1, 2]}, r"horizon: must be one number, found shape \[2\]"),
        ({"P": P, "R": R, "horizon": 4}, r"horizon = 3: the file says 4\.0"),
        ({"P": P, "R": R, "states": [1, 1, 2, 3]}, "states: must be 4 different labels, found 3 in 4"),
        ({"P": P, "R": R * np.inf}, "reward = -?inf at state 0, action 0"),
        ({"P": P, "R": R, "start": [0.5, 0.5]}, r"start: must be 4 probabilities, found shape \(2,\)"),
    ],
)
def test_errors_name_the_array_and_what_was_found(read, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read({"horizon": None} if np.ndim(content.get("P")) == 4 else None, **content)
    assert "\n" not in str(caught.value)


def test_reward_shape_that_may_or_may_not_have_steps(read):
    cube = rng.dirichlet(np.ones(2), size=(2, 2, 2))
    with pytest.raises(InputError, match=r"R: has shape \[2, 2\], which may or may not begin with the steps"):
        read({"horizon": None, "axis_order": "state-first"}, P=cube, R=np.zeros((2, 2)))


def test_nothing_is_unpickled(tmp_path):
    np.savez(tmp_path / "m.npz", P=np.array([{}], dtype=object), R=R)
    with pytest.raises(InputError, match="P: must be an array of real numbers, found object"):
        read_mdp(tmp_path / "m.npz", horizon=2)


def test_a_huge_declared_shape_is_refused_before_its_data(tmp_path):
    head = io.BytesIO()
    declared = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10, 10**6)}
    np.lib.format.write_array_header_1_0(head, declared)
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as out:
        out.writestr("P.npy", head.getvalue())
    with pytest.raises(InputError, match=r"P: has shape \[1000000, 10, 1000000\] and takes 80000000000000 bytes"):
        read_mdp(tmp_path / "m.npz", horizon=2)


def test_the_export_is_bounded_too(tmp_path, monkeypatch):
    from tailrank.envs import write_mdp
    from tailrank.envs.mdp_files import _export

    monkeypatch.setattr(_export, "MAX_ARRAYS", 100)
    mdp = FiniteMDP.from_arrays(P, R, horizon=2)
    with pytest.raises(InputError, match=r"P and R would take 512 bytes, more than 100: use \.csv or \.json"):
        write_mdp(mdp, tmp_path / "m.npz")
    assert _npz.MAX_ARRAYS == 2**31
