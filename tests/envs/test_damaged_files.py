"""Whatever bytes a file holds, reading it gives a Source or an InputError of one line."""

import io

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tailrank.checks import InputError
from tailrank.envs import Source, read_mdp, write_mdp
from tailrank.models.mdp import FiniteMDP

MDP = FiniteMDP.from_rows(
    [0, 0, 1, 1, 1],
    [0, 1, 0, 1, 1],
    [1, 0, 1, 2, 0],
    [1.0, 1.0, 1.0, 0.25, 0.75],
    [1, -2.5, 0, 3, 0.1],
    horizon=3,
    discount=0.9,
    labels=(0, 1, "end"),
    start={0: 0.5, 1: 0.5},
)
SUFFIXES = [".csv", ".csv.gz", ".json", ".npz"]
FUZZ = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check(path, data):
    path.write_bytes(data)
    try:
        found = read_mdp(path)
    except InputError as error:
        found = str(error)
    assert isinstance(found, Source) or ("\n" not in found and len(found) < 600)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    result = {}
    for suffix in SUFFIXES:
        write_mdp(MDP, folder / f"m{suffix}")
        result[suffix] = (folder / f"m{suffix}").read_bytes()
    plain = io.BytesIO()
    np.savez(plain, P=np.full((2, 1, 2), 0.5), R=np.zeros((2, 1)), horizon=3)
    return result | {"plain.npz": plain.getvalue()}


@FUZZ
@given(data=st.binary(max_size=200))
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_random_bytes(suffix, data, tmp_path):
    check(tmp_path / f"m{suffix}", data)


@FUZZ
@given(text=st.text(st.sampled_from('01259.,-+eE"\n\r ax:[]{}_NaI\ufeff\u0661'), max_size=80))
@example(text='"')
@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_random_rows_after_a_good_header(suffix, text, tmp_path):
    head = "step,state,action,next_state,probability,reward\n" if suffix == ".csv" else '{"horizon": 2, "rows": [['
    check(tmp_path / f"m{suffix}", (head + text + ("" if suffix == ".csv" else "]]}")).encode())


@FUZZ
@given(at=st.floats(0, 1))
@pytest.mark.parametrize("kind", [*SUFFIXES, "plain.npz"])
def test_truncated_files(kind, at, whole, tmp_path):
    data = whole[kind]
    check(tmp_path / f"m.{kind.lstrip('.')}", data[: int(at * len(data))])


@FUZZ
@given(flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), min_size=1, max_size=3))
@pytest.mark.parametrize("kind", [*SUFFIXES, "plain.npz"])
def test_flipped_bits(kind, flips, whole, tmp_path):
    data = bytearray(whole[kind])
    for at, bit in flips:
        data[int(at * len(data))] ^= 1 << bit
    check(tmp_path / f"m.{kind.lstrip('.')}", bytes(data))
