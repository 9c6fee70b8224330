"""Policies on observations as files: the same bits back, the same play in Gymnasium, and no file that does harm."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tracemalloc
import warnings
from dataclasses import replace
from fractions import Fraction

import gymnasium
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from safetensors.numpy import save as to_bytes

import tailrank
from tailrank import InputError, load, play_simulator, save
from tailrank.envs import open_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.observed.ela import ObservedELA
from tailrank.models.grid import BudgetGrid
from tailrank.policies.decoders.mixture import MixtureDecoder
from tailrank.policies.decoders.network import NeuralDecoder
from tailrank.policies.decoders.table import TableDecoder
from tailrank.policies.moved import Moved
from tailrank.policies.observed import ObservationPolicy, ObservedPlan

H, K, A = 3, 3, 2
KINDS = ("mixture", "shared mixture", "table", "linear", "mlp", "conv")


def floats(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def decoder_of(kind, rng):
    """A decoder of this kind with random numbers, and its number of features."""
    if "mixture" in kind:
        steps = 1 if "shared" in kind else H
        weights = np.log(rng.dirichlet(np.ones(K), size=steps))
        weights[-1, 1] = -np.inf
        return MixtureDecoder(rng.normal(size=(5, 2)), rng.normal(size=(steps, K, 2)), weights, np.eye(5)), 5
    if kind == "table":
        return TableDecoder(rng.integers(0, 3, size=(K, 4)).astype(np.float64), 2), 4
    m = 64 if kind == "conv" else 5
    weights = {"head": floats(rng, H, m, K), "head_bias": floats(rng, H, K)}
    image = None
    if kind == "mlp":
        weights = {"hidden0": floats(rng, m, 4), "bias0": floats(rng, H, 4), "hidden1": floats(rng, 4, 6)}
        weights |= {"bias1": floats(rng, H, 6), "head": floats(rng, 1, 6, K), "head_bias": floats(rng, H, K)}
    if kind == "conv":
        image = (8, 8, 1)
        weights = {"conv0": floats(rng, 9, 2), "conv0_bias": floats(rng, 2), "conv1": floats(rng, 18, 3)}
        weights |= {"conv1_bias": floats(rng, 3), "head": floats(rng, H, 3, K), "head_bias": floats(rng, H, K)}
    return NeuralDecoder(weights, floats(rng, H, m), np.ones(m, dtype=np.float32), 2.0, image, False), m


def example(kind="mixture", filtered=True, seed=0):
    """A policy with random tables of different lengths, and its number of features."""
    rng = np.random.default_rng(seed)
    decoder, m = decoder_of(kind, rng)
    steps = 1 if decoder.shared else H
    base = rng.dirichlet(np.ones(K), size=steps)
    moves = rng.dirichlet(np.ones(K), size=(steps, K, A))
    tables = tuple(rng.uniform(size=(K, A, 9 - 2 * h)) for h in range(H))
    plan = ObservedPlan(tables, 7, 1.25, rng.uniform(size=9), 0.125)
    grid = BudgetGrid(Fraction(1, 7), (Fraction(-1, 3),) * H, "nearest")
    return ObservationPolicy(decoder, plan, grid, base, moves, filtered), m


def played(policy, m, n=40, seed=1):
    """Actions [n, H] and memories for random features and rewards."""
    rng = np.random.default_rng(seed)
    memory, actions, memories = policy.start(n), [], []
    seen = rng.normal(size=(H + 1, n, m)) * 2
    for h in range(H):
        actions.append(policy.act(h, seen[h], memory))
        memory = policy.update(h, Moved(seen[h], actions[-1], rng.uniform(-0.3, 1, size=n), seen[h + 1]), memory)
        memories.append(memory)
    return np.array(actions), np.array(memories)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("filtered", [False, True])
def test_the_same_policy_comes_back(kind, filtered, tmp_path):
    policy, m = example(kind, filtered)
    save(policy, tmp_path / "a.policy", info={"made for": "a test"})
    stored = load(tmp_path / "a.policy")
    assert stored.info == {"made for": "a test"}
    again = stored.policy
    assert (again.decoder.kind, again.filtered) == (policy.decoder.kind, filtered)
    assert (again.plan.budget, again.plan.objective, again.plan.support_error) == (7, 1.25, 0.125)
    assert (again.grid.unit, again.grid.origin) == (policy.grid.unit, policy.grid.origin)
    for a, b in zip(policy.plan.values, again.plan.values):
        np.testing.assert_array_equal(a, b)
    for name in ("base", "moves"):
        np.testing.assert_array_equal(getattr(policy, name), getattr(again, name))
    np.testing.assert_array_equal(policy.plan.curve, again.plan.curve)
    for a, b in zip(played(policy, m), played(again, m)):
        np.testing.assert_array_equal(a, b)
    assert len(set(played(policy, m)[0].ravel().tolist())) == A
    assert [p.name for p in tmp_path.iterdir()] == ["a.policy"]


def test_large_tables_are_rounded(tmp_path, monkeypatch):
    policy, _ = example()
    save(policy, tmp_path / "exact")
    monkeypatch.setattr("tailrank.runs.policy_files.observed.LARGEST_EXACT", 100)
    save(policy, tmp_path / "rounded")
    assert (tmp_path / "rounded").stat().st_size < (tmp_path / "exact").stat().st_size
    again = load(tmp_path / "rounded").policy
    for a, b in zip(policy.plan.values, again.plan.values):
        assert b.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-7)
    np.testing.assert_array_equal(played(policy, 5)[0], played(again, 5)[0])


def test_loading_a_network_needs_no_jax(tmp_path):
    policy, m = example("mlp")
    save(policy, tmp_path / "p")
    code = (
        "import sys, numpy, tailrank; p = tailrank.load(sys.argv[1]).policy; "
        f"p.act(0, numpy.zeros((2, {m})), p.start(2)); "
        "print([m for m in ('jax', 'torch', 'gymnasium') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "p"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def cart_pole(tmp_path_factory):
    """A policy trained a little, its file, and the simulator."""
    simulator = open_simulator("CartPole-v1", horizon=12, width=4)
    learner = ObservedELA(0.3, Discriminative(rank=4, shared=True), longest_pilot=20)
    streams = Streams(1)
    state = learner.init(simulator, streams)
    for _ in range(6):
        state, _ = learner.step(state, simulator, streams)
    policy = learner.greedy(state, simulator)
    path = tmp_path_factory.mktemp("cart") / "cart.policy"
    save(policy, path, info=simulator.about())
    return policy, path, simulator


def test_prediction_is_play(cart_pole):
    """One environment in a loop of one's own, rewards told, against the simulator with the same seeds."""
    policy, path, simulator = cart_pole
    seeds = np.arange(1, 21, 2)
    expected = play_simulator(policy, simulator, seeds)
    again = play_simulator(load(path).policy, simulator, seeds)
    np.testing.assert_array_equal(expected.actions, again.actions)
    stored, env = load(path), gymnasium.make("CartPole-v1")
    for i, seed in enumerate(seeds):
        observation, _ = env.reset(seed=int(seed))
        state, actions = None, []
        for _ in range(12):
            action, state = stored.predict(observation, state)
            observation, reward, over, cut, _ = env.step(action)
            actions.append(int(action))
            if over or cut:
                break
            state = stored.reward(state, reward)
        assert actions == expected.actions[i][: len(actions)].tolist()
        assert len(actions) == expected.lengths[i]
    assert len(np.unique(expected.actions)) > 1


def test_batches_predict_like_single_ones(cart_pole):
    policy, path, simulator = cart_pole
    features = simulator.reset(np.arange(4))
    actions, state = load(path).predict(features)
    np.testing.assert_array_equal(actions, policy.act(0, features, policy.start(4)))
    assert state.memory.shape == (4, 1 + policy.decoder.n_latents)


def test_an_encoder_of_something_else_is_refused(cart_pole, tmp_path):
    policy, _, simulator = cart_pole
    other = open_simulator("MountainCar-v0", horizon=5)
    save(policy, tmp_path / "p", info=simulator.about() | {"encoder": other.encoder.to_json()})
    with pytest.raises(InputError, match="encoder: makes 2 features, the policy looks at 4"):
        load(tmp_path / "p").predict(np.zeros(2))
    save(policy, tmp_path / "p", info=simulator.about() | {"actions": other.actions.to_json()})
    with pytest.raises(InputError, match="actions: are 3, the policy has 2"):
        load(tmp_path / "p").predict(np.zeros(4))
    save(policy, tmp_path / "p", info={"encoder": [{"kind": "numbers"}]})
    with pytest.raises(InputError, match="encoder: is damaged"):
        load(tmp_path / "p").predict(np.zeros(4))


def rewritten(path, change):
    """The file with its arrays and header changed by `change(arrays, header)`."""
    arrays = load_file(path)
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["tailrank"])
    change(arrays, header)
    path.write_bytes(to_bytes(arrays, metadata={"tailrank": json.dumps(header)}))


def put(name, index, value):
    """Change one entry of an array."""

    def change(arrays, header):
        arrays[name] = arrays[name].copy()
        arrays[name][index] = value

    return change


def swap(name, function):
    """Replace an array by a function of it."""

    def change(arrays, header):
        arrays[name] = np.ascontiguousarray(function(arrays[name]))

    return change


def say(name, value):
    """Change a scalar of the header."""
    return lambda arrays, header: header["scalars"].__setitem__(name, value)


def grid(**values):
    """Change the grid in the header."""
    return lambda arrays, header: header["scalars"]["grid"].update(values)


WRONG = [
    ("mixture", put("values", 3, np.nan), "values: must be finite"),
    ("mixture", put("offsets", 1, 10**15), "offsets: must lead from 0 to 126 and never decrease"),
    ("mixture", put("offsets", 1, -6), "offsets: must lead from 0 to 126"),
    ("mixture", put("offsets", 1, 55), "offsets: every table must have 6 rows"),
    ("mixture", put("offsets", 3, 12), "offsets: must lead from 0 to"),
    ("mixture", swap("offsets", lambda x: x.astype(np.int32)), r"offsets: must be int64 \[H\+1\] with H = 3"),
    ("mixture", swap("values", lambda x: x[:-6]), "offsets: must lead from 0 to"),
    ("mixture", swap("values", lambda x: x.reshape(1, -1)), r"values: must be float \[n\]"),
    ("mixture", swap("values", lambda x: np.rint(x).astype(np.int64)), r"values: must be float \[n\]"),
    ("mixture", swap("curve", lambda x: x[:-1]), "curve: must have 9 entries, found 8"),
    ("mixture", swap("base", lambda x: x[:, :-1]), r"base: must be float \[T, K\] with T = 3, K = 3"),
    ("mixture", put("base", (0, 0), -0.5), "base: must be >= 0, holds -0.5"),
    ("mixture", put("base", (0, 0), 5.0), "base: must be frequencies"),
    ("mixture", put("moves", (0, 0, 0, 0), 9.0), "moves: must sum to 1"),
    ("mixture", put("moves", (0, 0, 0, 0), np.inf), "moves: must be finite"),
    ("mixture", swap("moves", lambda x: x[:2]), r"moves: must be float \[T=1|H, K, A, K\] with H = 3"),
    ("mixture", swap("moves", lambda x: x[..., :2]), r"moves: must be float \[T=1|H, K, A, K\] with H = 3"),
    ("mixture", swap("moves", lambda x: x[:, :0]), r"moves: must be float \[T=1|H, K, A, K\] with H = 3"),
    ("mixture", swap("moves", lambda x: x[0]), r"moves: must be float \[T=1|H, K, A, K\]"),
    ("mixture", lambda a, h: a.pop("moves"), "must hold .*'moves'"),
    ("mixture", lambda a, h: a.update(more=a["base"]), "must not hold .'more'.; found"),
    ("mixture", lambda a, h: a.update({"x\ny": a["base"]}), "must not hold"),
    ("mixture", lambda a, h: h["scalars"].pop("budget"), "must hold .*'budget'"),
    ("mixture", say("budget", 9), r"budget = 9: must be a whole number in 0\.\.8"),
    ("mixture", say("budget", -1), r"budget = -1: must be a whole number in 0\.\.8"),
    ("mixture", say("budget", 2.5), r"budget = 2.5: must be a whole number"),
    ("mixture", say("budget", 10**500), r"damaged header"),
    ("mixture", say("filtered", "yes"), "filtered = 'yes': must be true or false"),
    ("mixture", say("objective", float("nan")), "objective = nan: must be finite"),
    ("mixture", say("objective", None), "objective = None: must be a number"),
    ("mixture", say("decoder", "magic"), "decoder = 'magic': must be mixture, table, neural"),
    ("mixture", say("decoder", ["mixture"]), "decoder = "),
    ("mixture", say("decoder", "table"), "decoder: must hold"),
    ("mixture", grid(unit="1e999999999"), "grid: '1e999999999' is not a fraction"),
    ("mixture", grid(unit="0"), "unit = 0.0: must be positive"),
    ("mixture", grid(unit="1/0"), "damaged header"),
    ("mixture", grid(unit="9" * 400), "damaged header"),
    ("mixture", grid(unit="1/1" + "0" * 400), "unit = 0.0: must be positive"),
    ("mixture", grid(unit=0.5), "grid: 0.5 is not a fraction"),
    ("mixture", grid(origin=[]), "origin: must have one entry for each step"),
    ("mixture", grid(origin=["0"] * 5), "moves: must be .* with H = 5"),
    ("mixture", grid(origin=3), "damaged header"),
    ("mixture", grid(rounding="sideways"), "rounding = 'sideways': must be exact, up, nearest or down"),
    ("mixture", grid(discount=0), r"discount = 0: must lie in"),
    ("mixture", lambda a, h: h.update(info=[1]), "info: must be an object"),
    ("mixture", lambda a, h: h.update(scalars=[1]), "damaged header"),
    ("mixture", lambda a, h: h.update(schema="1\n2"), "has schema"),
    ("mixture", lambda a, h: h.update(kind="observations"), "kind 'observations' .did you mean 'observation'"),
    ("mixture", lambda a, h: h.pop("kind"), "damaged header"),
    ("mixture", put("decoder.project", (0, 0), np.nan), "project: must be finite"),
    ("mixture", swap("decoder.project", lambda x: x[:, :1]), r"centres: must be .* with H = 3, k = 1"),
    ("mixture", swap("decoder.project", lambda x: x[:3]), r"within: must be float \[m, m\] with m = 3"),
    ("mixture", swap("decoder.project", lambda x: x[:0]), r"project: must be float \[m, k\]"),
    ("mixture", swap("decoder.centres", lambda x: x[:2]), "centres: must be"),
    ("mixture", swap("decoder.centres", lambda x: x[:, :2]), r"log_weights: must be float64 \[T, K\]"),
    ("mixture", put("decoder.log_weights", (0, 0), np.inf), "log_weights: must be numbers or -inf"),
    ("mixture", put("decoder.log_weights", (0, 0), np.nan), "log_weights: must be numbers or -inf"),
    ("mixture", put("decoder.log_weights", 1, -np.inf), "log_weights: .* a latent must be left"),
    ("mixture", put("decoder.project", slice(None), 1e200), None),
    ("mixture", put("decoder.centres", slice(None), 1e200), "decoder: fails at step 0"),
    ("mixture", put("base", 0, [0.0, 1.0, 0.0]), None),
    ("table", put("decoder.used", 0, 0), "used: must be >= 1, holds 0"),
    ("table", put("decoder.used", 0, 4), "used: must be <= 3, holds 4"),
    ("table", swap("decoder.used", lambda x: x.astype(np.float64)), r"used: must be whole \[1\]"),
    ("table", swap("decoder.values", lambda x: x[:2]), "decoder: has 2 latents, the tables have 3"),
    ("table", swap("decoder.values", lambda x: x[:, :0]), r"decoder.values: must be float \[K, m\]"),
    ("table", put("decoder.values", (0, 0), np.inf), "decoder.values: must be finite"),
    ("mlp", lambda a, h: a.pop("decoder.weights.head"), "decoder: must hold .'weights.head'"),
    ("mlp", lambda a, h: a.pop("decoder.mean"), "decoder: must hold"),
    ("mlp", lambda a, h: a.pop("decoder.weights.bias0"), "decoder: must hold .'weights.bias0'"),
    ("mlp", lambda a, h: a.update({"decoder.weights.x": a["base"]}), "decoder: must not hold .'weights.x'"),
    ("mlp", swap("decoder.weights.hidden0", lambda x: x[:-1]), r"weights.hidden0: must be float \[m, w0\] with m = 5"),
    ("mlp", swap("decoder.weights.hidden1", lambda x: x[None]), r"weights.hidden1: must be float \[w0, w1\]"),
    ("mlp", swap("decoder.weights.head", lambda x: x[..., :2]), r"weights.head_bias: must be .*K = 2"),
    ("mlp", swap("decoder.weights.bias0", lambda x: x[:2]), r"weights.bias0: must be float \[1|H, w0\]"),
    ("mlp", put("decoder.scale", 0, 0.0), "scale: must be > 0, holds 0.0"),
    ("mlp", swap("decoder.mean", lambda x: x[:2]), r"mean: must be float \[1|H, m\] with H = 3"),
    ("mlp", swap("decoder.temperature", lambda x: np.float64(-1.0)), "temperature: must be"),
    ("mlp", swap("decoder.image", lambda x: np.array([8, 8, 1])), "decoder: must hold .'weights.conv0'"),
    ("conv", swap("decoder.image", lambda x: np.array([-8, -8, 1])), "image: -8 rows, -8 columns: must be at least 7"),
    ("conv", swap("decoder.image", lambda x: np.array([64, 1, 1])), "image: 64 rows, 1 columns: must be at least 7"),
    ("conv", swap("decoder.image", lambda x: x[:0]), "decoder: must not hold .'weights.conv0'"),
    ("conv", swap("decoder.weights.conv1", lambda x: x[:9]), r"weights.conv1: must be float \[9\*c0, c1\] with c0 = 2"),
]


@pytest.mark.parametrize(("kind", "change", "message"), WRONG)
def test_what_does_not_fit_is_refused(kind, change, message, tmp_path):
    """With a line; or, where nothing is wrong with single numbers, it still plays actions that exist."""
    path = tmp_path / "a.policy"
    policy, m = example(kind)
    save(policy, path)
    rewritten(path, change)
    if message is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            actions = played(load(path).policy, m)[0]
        assert ((actions >= 0) & (actions < A)).all()
        return
    with pytest.raises(InputError, match=message) as found:
        load(path)
    assert "\n" not in str(found.value)
    assert len(str(found.value)) < 700


def header_of(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def write_raw(path, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def declared(name, **fields):
    return lambda header: header[name].update(fields)


def as_type(dtype, smaller):
    """The same bytes as numbers of another type, of which `smaller` fit in a float64."""
    return lambda header: header["values"].update(dtype=dtype, shape=[smaller * header["values"]["shape"][0]])


HOSTILE = [
    declared("values", shape=[2**40]),
    declared("values", shape=[2**62, 2**62]),
    as_type("F8_E4M3", 8),
    as_type("BF16", 4),
    as_type("C64", 1),
    as_type("U64", 1),
    declared("base", shape=[0, 2**40], data_offsets=[0, 0]),
    declared("base", shape=[-1]),
    declared("base", data_offsets=[0, 2**60]),
    declared("moves", shape=[1] * 60),
    lambda header: header.update(huge={"dtype": "F64", "shape": [0, 2**40, 2**20], "data_offsets": [0, 0]}),
    lambda header: header["__metadata__"].update(tailrank="[" * 200_000),
    lambda header: header["__metadata__"].update(tailrank='{"a":' * 200_000),
    lambda header: header["__metadata__"].update(tailrank="1" * 100_000),
    lambda header: header["__metadata__"].update(tailrank="null"),
    lambda header: header["__metadata__"].update(tailrank='"tailrank-policy"'),
    lambda header: header.pop("__metadata__"),
]


@pytest.mark.parametrize("change", HOSTILE)
def test_hostile_headers_cost_a_line_and_little_memory(change, tmp_path):
    path = tmp_path / "a.policy"
    save(example()[0], path)
    header, data = header_of(path)
    change(header)
    write_raw(path, header, data)
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as found:
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()
    assert "\n" not in str(found.value)
    assert str(found.value).startswith(str(path))


def test_nested_notes_are_refused_or_kept(tmp_path):
    """What stands under `info` is not looked at, but reading it must not overflow."""
    path = tmp_path / "a.policy"
    save(example()[0], path)

    def deep(arrays, header):
        header["info"] = {"x": "DEEP"}

    rewritten(path, deep)
    header, data = header_of(path)
    text = header["__metadata__"]["tailrank"].replace('"DEEP"', "[" * 100_000 + "]" * 100_000)
    header["__metadata__"]["tailrank"] = text
    write_raw(path, header, data)
    with pytest.raises(InputError, match="damaged header"):
        load(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    found = {}
    for kind in KINDS:
        policy, m = example(kind)
        save(policy, folder / kind, info={"a": [1, {"b": "c"}]})
        found[kind] = ((folder / kind).read_bytes(), m)
    return found


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_ends_with_a_line_or_in_a_policy_that_plays(data, files, tmp_path):
    """Flip bits, cut, repeat: compiled code does not check its indices, so what loads must be safe to play."""
    content, m = files[data.draw(st.sampled_from(KINDS))]
    content = bytearray(content)
    size = 8 + struct.unpack("<Q", content[:8])[0]
    for _ in range(data.draw(st.integers(1, 6))):
        # As often in the header as in the numbers.
        at = data.draw(st.one_of(st.integers(0, size - 1), st.integers(size, len(content) - 1)))
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path / "damaged.policy"
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))] if data.draw(st.booleans()) else content)
    message, policy = "", None
    try:
        policy = load(path).policy
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    if isinstance(policy, ObservationPolicy):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            actions = played(policy, m)[0]
        assert ((actions >= 0) & (actions < A)).all()


def test_a_policy_with_a_decoder_of_ones_own_is_refused(tmp_path):
    class Mine:
        kind, shared, n_latents = "mine", False, K

        def to_arrays(self):
            return {}

    policy = replace(example()[0], decoder=Mine())
    with pytest.raises(InputError, match="decoder: of kind 'mine' cannot be saved"):
        save(policy, tmp_path / "p")
    assert not list(tmp_path.iterdir())


def test_a_policy_without_a_plan_is_refused(tmp_path):
    policy = replace(example()[0], plan=ObservedPlan((), 0, 0.0, np.zeros(1)))
    with pytest.raises(InputError, match="policy: has no plan"):
        save(policy, tmp_path / "p")


def test_the_names_are_public():
    assert tailrank.save is save
    assert tailrank.load is load
