"""Encodings of observations and lists of actions: by hand, against Gymnasium's flatten, and through JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces.utils import flatten

from tailrank import InputError
from tailrank.envs.gymnasium.actions import Actions
from tailrank.envs.gymnasium.spaces import Encoder, Misfit

NESTED = spaces.Dict(
    {
        "b": spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2, 2)))),
        "a": spaces.MultiDiscrete([[2, 3], [4, 5]]),
        "c": spaces.MultiBinary([2, 2]),
    }
)
KNOWN = [
    spaces.Discrete(5),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([3, 4]),
    spaces.MultiDiscrete([3, 4], start=[10, -1]),
    spaces.MultiBinary(4),
    spaces.Box(-np.inf, np.inf, (3,)),
    spaces.Box(-1, 1, ()),
    spaces.Box(-1, 1, (2, 3), np.float64),
    spaces.Box(0, 9, (2,), np.int64),
    spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (1,)), spaces.Tuple((spaces.MultiBinary(2),)))),
    NESTED,
]


def through_json(thing):
    return type(thing).from_json(json.loads(json.dumps(thing.to_json(), allow_nan=False)))


@pytest.mark.parametrize("space", KNOWN, ids=str)
def test_encoding_is_gymnasiums_flatten(space):
    # Three-axis boxes are images and may be turned; everything else agrees with an independent implementation.
    space.seed(1)
    encoder = Encoder.of(space)
    seen = [space.sample() for _ in range(7)]
    expected = np.array([flatten(space, x) for x in seen], dtype=np.float64)
    found = encoder.encode(seen)
    assert found.dtype == np.float64
    assert found.shape == (7, encoder.n_features)
    assert np.array_equal(found, expected)
    assert through_json(encoder) == encoder
    assert np.array_equal(through_json(encoder).encode(seen), found)


@pytest.mark.parametrize("space", KNOWN, ids=str)
def test_batches_of_vector_environments(space):
    from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

    space.seed(2)
    seen = [space.sample() for _ in range(5)]
    batch = concatenate(space, seen, create_empty_array(space, 5))
    batch_space(space, 5)
    encoder = Encoder.of(space)
    rows = np.array([4, 0, 2])
    assert np.array_equal(encoder.encode_batch(batch, 5, rows), encoder.encode([seen[i] for i in rows]))
    assert encoder.encode_batch(batch, 5, rows[:0]).shape == (0, encoder.n_features)


def test_order_and_layout_by_hand():
    space = spaces.Dict({"b": spaces.Discrete(2), "a": spaces.MultiDiscrete([2, 3], start=[0, 5])})
    # Dict sorts its keys: a first.
    assert Encoder.of(space).encode([{"b": 1, "a": np.array([1, 7])}]).tolist() == [[0, 1, 0, 0, 1, 0, 1]]
    kept = spaces.Dict([("b", spaces.Discrete(2)), ("a", spaces.Discrete(2))])
    assert Encoder.of(kept).encode([{"b": 1, "a": 0}]).tolist() == [[0, 1, 1, 0]]


def test_images_are_scaled_and_turned():
    rng = np.random.default_rng(0)
    last = spaces.Box(0, 255, (4, 5, 3), np.uint8)
    image = rng.integers(0, 256, (4, 5, 3), dtype=np.uint8)
    encoder = Encoder.of(last)
    assert encoder.image_shape == (4, 5, 3)
    assert np.array_equal(encoder.encode([image]).reshape(4, 5, 3), image / 255)
    first = Encoder.of(spaces.Box(0, 255, (3, 4, 5), np.uint8))
    assert first.image_shape == (4, 5, 3)
    assert np.array_equal(first.encode([np.moveaxis(image, -1, 0)]), encoder.encode([image]))
    assert Encoder.of(spaces.Box(0, 255, (4, 5), np.uint8)).image_shape == (4, 5, 1)
    assert Encoder.of(spaces.Box(0, 1, (4, 5))).image_shape is None
    assert Encoder.of(spaces.Box(0, 1, (4, 5, 2))).image_shape == (4, 5, 2)
    assert Encoder.of(spaces.Tuple((last, spaces.Discrete(2)))).image_shape is None
    for e in (encoder, first):
        assert through_json(e) == e
    assert len(json.dumps(encoder.to_json())) < 200


def test_scaling_with_bounds_of_every_entry():
    low, high = np.array([0, 10, 7], dtype=np.uint8), np.array([4, 20, 7], dtype=np.uint8)
    encoder = Encoder.of(spaces.Box(low, high, dtype=np.uint8))
    assert encoder.encode([np.array([1, 20, 7], dtype=np.uint8)]).tolist() == [[0.25, 1.0, 0.0]]
    assert through_json(encoder) == encoder
    bounds = np.arange(60, dtype=np.uint8).reshape(3, 4, 5)
    turned = Encoder.of(spaces.Box(bounds, bounds + np.uint8(10), dtype=np.uint8))
    assert np.allclose(turned.encode([bounds + np.uint8(5)]), 0.5)


@pytest.mark.parametrize(
    ("space", "count"),
    [
        (spaces.Discrete(5, start=3), 5),
        (spaces.MultiDiscrete([3, 4], start=[1, 1]), 12),
        (spaces.MultiBinary(5), 32),
        (spaces.Tuple((spaces.Discrete(3), spaces.Dict({"x": spaces.MultiBinary(2), "y": spaces.Discrete(2)}))), 24),
        (spaces.Box(0, 1, (1,)), None),
        (spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 1, (1,)))), None),
    ],
    ids=str,
)
def test_codes_number_finite_observations(space, count):
    encoder = Encoder.of(space)
    assert encoder.n_values == count
    assert encoder.is_table == (count is not None)
    if count is None:
        with pytest.raises(InputError, match="infinitely many values"):
            encoder.codes(encoder.encode([space.sample()]))
        return
    space.seed(0)
    seen = [space.sample() for _ in range(60 * count)]
    codes = encoder.codes(encoder.encode(seen))
    assert sorted(set(codes.tolist())) == list(range(count))
    # One code for each observation, and one observation for each code.
    assert len({(c, str(x)) for c, x in zip(codes.tolist(), seen)}) == count
    assert [encoder.code(x) for x in seen[:9]] == codes[:9].tolist()


def test_codes_by_hand_and_beyond_tables():
    assert Encoder.of(spaces.MultiDiscrete([3, 4])).code(np.array([2, 1])) == 9
    assert Encoder.of(spaces.MultiBinary(3)).code(np.array([1, 0, 1])) == 5
    many = Encoder.of(spaces.MultiBinary(70))
    assert many.n_values == 2**70
    assert not many.is_table
    with pytest.raises(InputError, match="tables need at most 1000000"):
        many.code(np.zeros(70, dtype=np.int8))


@pytest.mark.parametrize(
    ("space", "observation", "message"),
    [
        (spaces.Box(-9, 9, (3,)), [0, np.nan, 0], r"observation\[1\] = nan: must be finite"),
        (spaces.Box(-9, 9, (2, 2)), [[0, 0], [np.inf, 0]], r"observation\[1, 0\] = inf: must be finite"),
        (spaces.Box(-9, 9, ()), np.nan, r"observation = nan: must be finite"),
        (spaces.Box(-9, 9, (3,)), [0, 1], r"observation: has shape \(2,\), the space says \(3,\)"),
        (spaces.Box(-9, 9, (2,)), [[0], [0, 1]], r"observation = .* must be an array of shape \(2,\)"),
        (spaces.Box(-9, 9, (2,)), ["a", "b"], r"must be made of numbers"),
        (spaces.Box(-9, 9, (2,)), None, r"observation = None: must be made of numbers"),
        (spaces.Box(0, 255, (2, 3, 4), np.uint8), np.full((2, 3, 4), np.nan), r"observation\[0, 0, 0\] = nan"),
        (spaces.Discrete(3, start=1), 4, r"observation = 4: must be a whole number in 1\.\.3"),
        (spaces.Discrete(3, start=1), 0, r"observation = 0: must be a whole number in 1\.\.3"),
        (spaces.Discrete(3), 1.5, r"observation = 1\.5: must be a whole number"),
        (spaces.Discrete(3), np.nan, r"observation = nan: must be a whole number"),
        (spaces.MultiDiscrete([2, 3]), [1, 3], r"observation\[1\] = 3: must be a whole number in 0\.\.2"),
        (spaces.MultiBinary(3), [0, 2, 1], r"observation\[1\] = 2.0: must be 0 or 1"),
        (spaces.Dict({"x": spaces.Box(0, 1, (2,))}), {"y": 1}, r"observation = .*: has no entry 'x'"),
        (spaces.Dict({"x": spaces.Box(0, 1, (2,))}), {"x": [0, np.nan]}, r"observation\['x'\]\[1\] = nan"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))), (0,), r"has no entry 1"),
        (spaces.Tuple((spaces.Tuple((spaces.Discrete(2),)),)), (3,), r"observation\[0\] = 3: has no entry 0"),
    ],
)
def test_misfits_name_their_place(space, observation, message):
    good = space.sample()
    with pytest.raises(Misfit, match=message) as caught:
        Encoder.of(space).encode([good, good, observation])
    assert caught.value.row == 2


def test_place_in_a_turned_image():
    image = np.zeros((2, 3, 4))
    image[1, 0, 2] = np.nan
    with pytest.raises(Misfit, match=r"observation\[1, 0, 2\] = nan"):
        Encoder.of(spaces.Box(0, 1, (2, 3, 4))).encode([image])


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Text(5), "a Text space"),
        (spaces.Sequence(spaces.Discrete(2)), "a Sequence space"),
        (spaces.Graph(spaces.Box(0, 1, (2,)), None), "a Graph space"),
        (spaces.OneOf((spaces.Discrete(2), spaces.Discrete(3))), "a OneOf space"),
        (spaces.Dict({"t": spaces.Text(5)}), r"observation\['t'\]: a Text space"),
        (spaces.Dict({}), "makes 0 features"),
        (spaces.Discrete(10**7), "makes 10000000 features"),
    ],
)
def test_spaces_without_encoding_say_what_to_do(space, words):
    with pytest.raises(InputError, match=words) as caught:
        Encoder.of(space)
    assert "features" in words or "TransformObservation" in str(caught.value)


def test_subclasses_are_known_and_strangers_are_not():
    class Mine(spaces.Discrete):
        pass

    class Box:
        shape = (2,)

    assert Encoder.of(Mine(4)).n_features == 4
    with pytest.raises(InputError, match="has no encoding"):
        Encoder.of(Box())


def test_a_stored_encoder_needs_no_gymnasium():
    data = json.dumps(Encoder.of(NESTED).to_json())
    code = (
        "import sys, json; from tailrank.envs.gymnasium.spaces import Encoder;"
        f"e = Encoder.from_json(json.loads({data!r}));"
        "x = {'a': [[0, 0], [0, 0]], 'b': (1, [[0, 1], [2, 3]]), 'c': [[0, 1], [1, 0]]};"
        "print(e.n_features, e.encode([x]).sum());"
        "print('gymnasium' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["25", "13.0", "False"]


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        [1],
        [{"kind": "numbers"}],
        [{"path": [], "kind": "magic", "shape": [2]}],
        [{"path": [], "kind": "one-hot", "shape": [2], "sizes": [2], "starts": [0]}],
        [{"path": [], "kind": "one-hot", "shape": [], "sizes": [0], "starts": [0]}],
        [{"path": [], "kind": "numbers", "shape": [-2]}],
        [{"path": [], "kind": "numbers", "shape": [2], "low": [0, 1], "high": [1]}],
        [{"path": [], "kind": "numbers", "shape": [2], "low": [float("nan")], "high": [1]}],
        [{"path": [], "kind": "numbers", "shape": [2], "channels_first": True}],
        [{"path": [], "kind": "numbers", "shape": [10**7]}],
    ],
)
def test_damaged_encoders(data):
    with pytest.raises(InputError, match="encoder: is damaged"):
        Encoder.from_json(data)


# Actions


def all_of(actions):
    return [actions.decode(i) for i in range(actions.n)]


def test_discrete_actions():
    actions = Actions.of(spaces.Discrete(3, start=-1))
    assert [int(a) for a in all_of(actions)] == [-1, 0, 1]
    assert all(a in spaces.Discrete(3, start=-1) for a in all_of(actions))
    assert actions.labels == ("-1", "0", "1")
    assert actions.decode_batch(np.array([2, 0])).tolist() == [1, -1]


@pytest.mark.parametrize(
    ("space", "levels", "count"),
    [
        (spaces.MultiDiscrete([3, 4], start=[1, 0]), None, 12),
        (spaces.MultiDiscrete([[2, 2], [2, 3]]), None, 24),
        (spaces.MultiBinary(3), None, 8),
        (spaces.Box(-2, 2, (1,)), None, 5),
        (spaces.Box(-2, 2, (3,)), None, 125),
        (spaces.Box(-2, 2, (2, 2)), 3, 81),
        (spaces.Box(-2, 2, (2,)), [4, 1], 4),
        (spaces.Box(0, 2, (2,), np.int64), None, 9),
        (spaces.Box(-1, 1, ()), 3, 3),
        (spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (1,)))), 3, 6),
        (spaces.Dict({"gear": spaces.Discrete(3), "gas": spaces.Box(0, 1, (2,))}), 2, 12),
    ],
    ids=str,
)
def test_actions_lie_in_their_space_and_differ(space, levels, count):
    actions = Actions.of(space, levels)
    listed = all_of(actions)
    assert actions.n == count == len(set(actions.labels)) == len({str(a) for a in listed})
    assert all(space.contains(a) for a in listed)
    again = through_json(actions)
    assert again.n == count
    assert [str(a) for a in all_of(again)] == [str(a) for a in listed]
    assert all(space.contains(a) for a in all_of(again))


def test_levels_of_a_box():
    assert Actions.of(spaces.Box(-1, 3, (1,), np.float64)).root.table.ravel().tolist() == [-1, 0, 1, 2, 3]
    assert Actions.of(spaces.Box(0, 10, (1,), np.int64), 4).root.table.ravel().tolist() == [0, 3, 7, 10]
    assert Actions.of(spaces.Box(0, 1, (2,), np.float64), [2, 1]).root.table.tolist() == [[0, 0.5], [1, 0.5]]


def test_the_last_entry_changes_fastest():
    assert [a.tolist() for a in all_of(Actions.of(spaces.MultiDiscrete([2, 2])))] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    pairs = all_of(Actions.of(spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3)))))
    assert [(int(a), int(b)) for a, b in pairs] == [(a, b) for a in range(2) for b in range(3)]


def test_an_environment_may_change_its_action():
    actions = Actions.of(spaces.Box(0, 1, (2,)))
    actions.decode(3)[:] = 9
    assert actions.decode(3).max() <= 1


@pytest.mark.parametrize(
    ("space", "levels", "message"),
    [
        (spaces.Box(-1, 1, (7,)), None, "7 dimensions with levels 5 make 78125 actions, .*lower levels .to 2: 128"),
        (spaces.Box(-1, 1, (5,)), None, "make 3125 actions, .*lower levels .to 3: 243"),
        (spaces.Box(-1, 1, (12,)), None, "even 2 levels are too many"),
        (spaces.Box(-np.inf, 1, (2,)), None, "dimension 0 has bounds -inf and 1, must be finite"),
        (spaces.Box(0, 2**62, (1,), np.int64), None, "must be finite"),
        (spaces.Box(-1, 1, (2,)), [3], "levels = 3: must be one number, or 2 for the dimensions"),
        (spaces.Box(-1, 1, (2,)), 1, "levels = 1: must be a whole number of at least 2"),
        (spaces.MultiDiscrete([100, 100]), None, "has 10000 combinations, must be at most 1000"),
        (spaces.MultiBinary(20), None, "has 1048576 combinations"),
        (spaces.Tuple((spaces.Discrete(100), spaces.Discrete(100))), None, "combine to 10000 actions"),
        (spaces.Text(3), None, "action: a Text space"),
        (spaces.Dict({"t": spaces.Text(3)}), None, r"action\['t'\]: a Text space"),
    ],
)
def test_action_spaces_that_are_refused(space, levels, message):
    with pytest.raises(InputError, match=message):
        Actions.of(space, levels)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"shape": [], "dtype": "int64", "levels": []},
        {"shape": [2], "dtype": "int64", "levels": [[1]]},
        {"shape": [], "dtype": "object", "levels": [[1]]},
        {"shape": [], "dtype": "int64", "levels": [["x"]]},
        {"shape": [], "dtype": "int64", "levels": [[]]},
        {"shape": [4], "dtype": "int64", "levels": [list(range(10))] * 4},
        {"keys": ["a"], "parts": []},
        {"keys": ["a", "b"], "parts": [{"shape": [], "dtype": "int64", "levels": [[1]]}]},
    ],
)
def test_damaged_actions(data):
    with pytest.raises(InputError, match="actions: are damaged"):
        Actions.from_json(data)
