"""Whatever people have becomes the same MDP: a file, a frame, rows, arrays, an environment."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tailrank.checks import InputError
from tailrank.envs.sources import make, read
from tailrank.models.mdp import FiniteMDP

ROWS = [
    ("on", "keep", "on", 0.9, 1.0),
    ("on", "keep", "off", 0.1, -2.0),
    ("on", "mend", "on", 1.0, 0.5),
    ("off", "mend", "on", 1.0, -1.0),
]
NAMES = ("state", "action", "next_state", "probability", "reward")


def same(one: FiniteMDP, other: FiniteMDP) -> bool:
    columns = [m.table() for m in (one, other)]
    return (
        one.horizon == other.horizon
        and one.discount == other.discount
        and np.array_equal(one.start, other.start)
        and all(np.array_equal(columns[0][key], columns[1][key]) for key in columns[0])
    )


@pytest.fixture
def wanted():
    return read(ROWS, horizon=4).mdp


def test_rows_keep_their_names(wanted):
    assert wanted.labels == ("on", "off")
    assert wanted.action_labels == ("keep", "mend")
    by_hand = FiniteMDP.from_rows(
        [0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 0, 0], [0.9, 0.1, 1, 1], [1, -2, 0.5, -1], horizon=4
    )
    assert same(wanted, by_hand)


@pytest.mark.parametrize(
    "header",
    [NAMES, ("s", "a", "s'", "p", "r"), ("State", "Act", "s_next", "prob", "rew"), ("from", "a", "to", "p", "r")],
)
def test_frames_of_all_kinds(header, wanted):
    columns = dict(zip(header, map(list, zip(*ROWS, strict=True)), strict=True))
    assert same(read(columns, horizon=4).mdp, wanted)
    for library in ("pandas", "polars"):
        frame = pytest.importorskip(library).DataFrame(columns)
        assert same(read(frame, horizon=4).mdp, wanted)
    assert same(read(pytest.importorskip("polars").LazyFrame(columns), horizon=4).mdp, wanted)
    assert same(read(pytest.importorskip("pyarrow").table(columns), horizon=4).mdp, wanted)


def test_rows_as_records_and_exact_numbers(wanted):
    records = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
    assert same(read(records, horizon=4).mdp, wanted)
    exact = [(*row[:3], Fraction(row[3]).limit_denominator(10), np.float64(row[4])) for row in ROWS]
    assert same(read(exact, horizon=4).mdp, wanted)


def test_rows_with_steps_and_numbers_from_one():
    rows = np.array([(1, 1, 1, 2, 1, 3), (2, 2, 1, 1, 1, 4)], dtype=float)  # step, s, a, s', p, r from 1
    mdp = read(rows).mdp
    assert (mdp.horizon, mdp.labels, mdp.action_labels) == (2, (1, 2), (1,))
    assert read(rows, index_base=0, start=1).mdp.labels == (0, 1, 2)


def test_arrays_in_both_orders():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), size=(4, 2))  # [S, A, S]
    R = rng.normal(size=(4, 2))
    first = read((P, R), horizon=3).mdp
    assert same(first, FiniteMDP.from_arrays(P, R, horizon=3))
    assert same(read((P.swapaxes(0, 1), R), horizon=3).mdp, first)
    assert same(read({"P": P, "R": R, "horizon": 3}).mdp, first)
    sparse = pytest.importorskip("scipy.sparse")
    assert same(read(([sparse.csr_matrix(P[:, a]) for a in range(2)], R), horizon=3).mdp, first)


def test_square_arrays_must_say_which():
    P, R = np.full((2, 2, 2), 0.5), np.zeros((2, 2))
    with pytest.raises(
        InputError, match=r"P: has shape \[2, 2, 2\].*axis_order=\.\.\. \(state-first or action-first\)"
    ):
        read((P, R), horizon=2)
    assert read((P, R), horizon=2, axis_order="state-first").mdp.n_states == 2


def test_environments_and_files(tmp_path, wanted):
    import gymnasium

    by_id = read("FrozenLake-v1", horizon=20).mdp
    assert same(read(gymnasium.make("FrozenLake-v1"), horizon=20).mdp, by_id)
    dry = read("FrozenLake-v1", horizon=20, is_slippery=False).mdp
    assert dry.prob.size < by_id.prob.size
    text = "\n".join([",".join(NAMES), *(",".join(map(str, row)) for row in ROWS)])
    (tmp_path / "m.csv").write_text(text)
    assert same(read(tmp_path / "m.csv", horizon=4).mdp, wanted)
    assert same(read("risky-lock").mdp, make("risky-lock").truth)


def test_an_mdp_with_another_horizon_discount_or_start(wanted):
    other = read(wanted, horizon=7, discount=0.5, start={"off": 0.25, "on": 0.75}).mdp
    assert (other.horizon, other.discount, other.start.tolist()) == (7, 0.5, [0.75, 0.25])
    timed = FiniteMDP.from_rows([0, 0], [0, 0], [0, 0], [1, 1], [1, 2], step=[0, 1])
    with pytest.raises(InputError, match="horizon = 3: the rows of the MDP are those of 2 steps"):
        read(timed, horizon=3)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (42, "source = 42: must be a path, a Gymnasium id"),
        ([], "rows: at least one outcome is needed, found none"),
        ([(0, 0, 0, 1)], r"rows\[0\]: must have 6 entries"),
        (["ab"], r"rows\[0\]: must be \(state, action, next state, probability, reward\), found 'ab'"),
        ({"s": [0], "a": [0]}, "the columns of the frame: has no column next_state, probability, reward"),
        ({"s": [0], "a": [0], "s'": [0, 1], "p": [1], "r": [1]}, "frame: its columns must be of one length"),
        (np.zeros((2, 2, 2)), r"source: is one array of shape \[2, 2, 2\]; give P and R as a pair"),
        (([[[0.5, 0.5]], [[1.0]]], [1, 2]), "P, R: must be arrays"),
        (ROWS, "horizon: the source does not say how many steps there are; give horizon=..."),
        ("CartPole-v1", "no transition table .* tailrank train CartPole-v1 --episodes 300"),
    ],
)
def test_errors_speak_of_arguments(source, message):
    with pytest.raises(InputError, match=message) as caught:
        read(source)
    assert "--horizon" not in str(caught.value)


def test_make_takes_them_all(wanted):
    import gymnasium

    assert make("risky-lock", horizon=4).horizon == 4
    assert make("rich-lock", horizon=4).n_features > 0
    assert make(wanted).truth.labels[:2] == ("on", "off")
    assert make(ROWS, horizon=4).truth.labels[:2] == ("on", "off")
    assert make("FrozenLake-v1", horizon=9).horizon == 9
    assert make("FrozenLake-v1", kind="observations", is_slippery=False).n_features == 16
    assert make("CartPole-v1", horizon=9).n_features == 4
    env = gymnasium.make("CartPole-v1")
    assert make(env).horizon == 500
    assert make(lambda: gymnasium.make("CartPole-v1"), width=2).width == 2
    once = make("CartPole-v1")
    assert make(once) is once


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("CartPole-v1", "states", "no transition table"),
        ("risky-lock", "observations", "risky-lock has states"),
        ("rich-lock", "states", "has observations"),
        (ROWS, "observations", "is a finite MDP, which has states"),
        ("risky-lock", "nonsense", "kind = 'nonsense'"),
    ],
)
def test_kinds_that_are_not_there(source, kind, message):
    with pytest.raises(InputError, match=message):
        make(source, kind=kind)
