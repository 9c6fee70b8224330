"""CSV and JSON rows: what is accepted, what is assumed, and what each error says."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tailrank.checks import InputError
from tailrank.envs import read_mdp
from tailrank.envs.mdp_files import _rows, text
from tailrank.models.mdp import FiniteMDP

DOMAINS = Path(__file__).parents[1] / "golden" / "domains"
HEAD = "state,action,next_state,probability,reward\n"


@pytest.fixture
def read(tmp_path):
    def reader(content, suffix=".csv", **options):
        path = tmp_path / f"m{suffix}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_mdp(path, **({"horizon": 3} | options))

    return reader


def test_numbered_from_one_with_the_published_header_in_any_order(read):
    source = read("reward,idoutcome,IdStateFrom,idaction, idstateto,probability\n-2.5,1,2,1,1,0.25\n1,2,2,1,2,0.75\n")
    mdp = source.mdp
    assert source.name == "m"
    assert (mdp.labels, mdp.action_labels, mdp.absorbing) == ((1, 2), (1,), (0,))
    assert mdp.reward.tolist() == [0, -2.5, 1]
    assert source.notes == (
        "states are numbered from 1 (change with index_base=...)",
        "actions are numbered from 1 (change with index_base=...)",
        "start: state 1, the first (choose with start=...)",
        "1 state without rows made absorbing, reward 0: 1",
    )


def test_numbered_from_zero_where_a_zero_occurs(read):
    mdp = read(HEAD + "1,1,0,1,5\n").mdp
    assert (mdp.labels, mdp.action_labels) == ((0, 1), (1,))
    assert read(HEAD + "1,1,2,1,5\n", index_base=0).mdp.labels == (0, 1, 2)


def test_index_base_one_refuses_a_zero_with_its_line(read):
    with pytest.raises(InputError, match=r"m\.csv: next_state = 0 on line 3: must be at least 1 \(index_base=1\)"):
        read(HEAD + "1,1,1,1,5\n2,1,0,1,5\n", index_base="1")
    with pytest.raises(InputError, match=r"action = -1 on line 2: must be at least 0"):
        read(HEAD + "1,-1,1,1,5\n")
    with pytest.raises(InputError, match=r"state = 'x' on line 2: must be a whole number when the index base is 1"):
        read(HEAD + "x,1,1,1,5\n", index_base=1)


def test_names_are_numbered_as_they_appear(read):
    source = read(HEAD + 'low,go,"far, far",1,5\nmid,1_0,low,1,5\n', start="mid")
    assert source.mdp.labels == ("low", "mid", "far, far")
    assert source.mdp.action_labels == ("go", "1_0")
    assert source.mdp.start.tolist() == [0, 1, 0]
    assert source.notes[0] == "states are names: 3, in order of first appearance"


@pytest.mark.parametrize("first", [0, 1])
def test_steps_from_zero_or_one(read, first):
    text = f"step,{HEAD}{first},1,1,1,1,5\n{first + 1},1,1,1,1,7\n"
    mdp = read(text, horizon=None).mdp
    assert mdp.horizon == 2
    assert mdp.reward.tolist() == [5, 7]
    with pytest.raises(InputError, match="horizon = 3: the file says 2"):
        read(text, horizon=3)


def test_bom_crlf_blank_lines_and_spaces(read):
    text = "\ufeff" + HEAD + " 1 , 1, 1.0 , .5,5\n\n1,1,2,5e-1, -5 \n"
    assert read(text.replace("\n", "\r\n")).mdp.reward.tolist() == [5, -5, 0]
    assert read(text.replace("\n", "\r")).mdp.labels == (1, 2)


@pytest.mark.parametrize(
    ("start", "law"),
    [
        ("3", [0, 0, 1]),
        (3, [0, 0, 1]),
        ("1:0.5, 3:0.5", [0.5, 0, 0.5]),
        ({1: 0.25, "2": 0.75}, [0.25, 0.75, 0]),
    ],
)
def test_start_is_in_the_files_numbering(read, start, law):
    assert read(HEAD + "1,1,3,1,5\n", start=start).mdp.start.tolist() == law


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("0", r"start = '0': must be one of the states 1\.\.3"),
        (4, r"start = 4: must be one of the states 1\.\.3"),
        ("1:0.5,2:0.4", r"start sums to 0\.9, expected 1"),
        ("1:x,2:0.4", r"start\[1\] = 'x': must be a number"),
        ("1:0.5,1:0.5", r"start: a state is given twice"),
        ("1.5", r"start = '1\.5': must be a whole number or a name"),
        ([1.0], r"start: must be 3 probabilities, found shape \(1,\)"),
    ],
)
def test_start_errors(read, start, message):
    with pytest.raises(InputError, match=message):
        read(HEAD + "1,1,3,1,5\n", start=start)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "m.csv: the file is empty: the first line must be a header"),
        (HEAD, "the file has a header and no rows"),
        ("state,action,next_state,reward\n1,1,1,1\n", "line 1: has no column probability"),
        (
            "state,action,next_state,probability,rewards\n",
            r"column 'rewards' in line 1: .*did you mean 'reward'",
        ),
        ("state,state,action,next_state,probability,reward\n", "column 'state' in line 1: is there 2 times"),
        (HEAD + "1,1,1,1,0\n1,1,1,1\n", "line 3: has 4 entries, expected 5"),
        (HEAD + "1,1,1,x,0\n", "probability = 'x' on line 2: must be a finite number"),
        (HEAD + "1,1,1,1,0\n\n2,1,1,1,nan\n", "reward = 'nan' on line 4: must be a finite number"),
        (HEAD + "1,1,1,1.5,0\n", r"probability = 1\.5 on line 2: must lie in \[0, 1\]"),
        (HEAD + "1,1,1,.5,0\n1,1,2,.4,0\n", r"probabilities at state 1, action 1 sum to 0\.9, expected 1"),
        (
            HEAD + "1,1,1000000000000,1,0\n",
            r"next_state = 1000000000000 on line 2: is too large \(at most 1000010",
        ),
        (HEAD + "1,1,1,1,0\n1," + "9" * 99 + ",1,1,0\n", r"action = 9{40} on line 3: is too large"),
        (
            HEAD + "900000,900000,1,1,0\n",
            r"steps x states x actions = 1 x 900000 x 900000: must be at most 5000020",
        ),
        (HEAD + "1,1,2.5,1,0\n", r"next_state = '2\.5' on line 2: must be a whole number or a name"),
        (HEAD + "1,,2,1,0\n", "action = '' on line 2: must be a whole number or a name"),
        (HEAD + "1,1,1\0,1,0\n", "m.csv, line 2: holds a NUL byte"),
        (HEAD.encode() + b"1,1,\xff,1,0\n", r"is not UTF-8 text \(byte 0xff on line 2\)"),
        ("step," + HEAD + "2,1,1,1,1,0\n", "step = 2 is the first: steps must be numbered from 0 or 1"),
        ("step," + HEAD + "1,1,1,1,1,0\n4,1,1,1,1,0\n", "step 2 has no rows: the steps must run up to 4"),
        ("step," + HEAD + "1.5,1,1,1,1,0\n", r"step = '1\.5' on line 2: must be a whole number"),
        (HEAD + '1,1,"1' + "x" * 200_000 + '",1,0\n', r"line 2: is not CSV \(field larger than field limit"),
    ],
)
def test_csv_errors_name_the_line_and_the_value(read, text, message):
    with pytest.raises(InputError, match=message) as caught:
        read(text, horizon=None if b"step" in (text if isinstance(text, bytes) else text.encode()) else 3)
    assert "\n" not in str(caught.value)


def test_missing_options_and_files(read, tmp_path):
    with pytest.raises(InputError, match=r"m\.csv: horizon: .*give horizon=..."):
        read(HEAD + "1,1,1,1,0\n", horizon=None)
    with pytest.raises(InputError, match=r"no\.csv: there is no such file"):
        read_mdp(tmp_path / "no.csv")
    with pytest.raises(
        InputError, match=r"must be one of the file types \.csv, \.json, \.npz; \.csv and \.json also as \.gz"
    ):
        read_mdp(tmp_path)
    with pytest.raises(InputError, match="index_base = '2': must be one of auto, 0, 1"):
        read(HEAD + "1,1,1,1,0\n", index_base=2)
    with pytest.raises(InputError, match=r"axis_order = state-first: only \.npz files have axes"):
        read(HEAD + "1,1,1,1,0\n", axis_order="state-first")


def test_normalised_probabilities_are_noted(read):
    source = read(HEAD + "1,1,1,0.3333333,0\n1,1,2,0.6666666,0\n2,1,2,1,0\n")
    assert source.notes[-1] == "probabilities normalised at 1 state-action pair (they summed to 1 within 1e-07)"
    assert source.mdp.prob[:2].sum() == pytest.approx(1, abs=1e-15)


def test_probabilities_that_sum_to_one_but_for_rounding_are_kept(read):
    source = read(HEAD + "1,1,1,0.1,0\n" * 10)
    assert source.mdp.prob.tolist() == [0.1] * 10
    assert not any("normalised" in note for note in source.notes)


def test_a_large_file():
    mdp = read_mdp(DOMAINS / "inventory.csv.gz", horizon=10).mdp
    assert (mdp.n_states, mdp.n_actions, mdp.prob.size) == (101, 51, 31008)


def test_the_unpacked_size_is_bounded(read, monkeypatch):
    monkeypatch.setattr(text, "MOST_TEXT", 1000)
    with pytest.raises(InputError, match=r"m\.csv\.gz: has more than 1000 bytes of text"):
        read(gzip.compress(b"0" * 100_000), suffix=".csv.gz")
    with pytest.raises(InputError, match=r"m\.csv\.gz: cannot be read \(Not a gzipped file"):
        read(HEAD, suffix=".csv.gz")


ROW = {"state": 1, "action": 1, "next_state": 2, "probability": 1.0, "reward": 3}


@pytest.mark.parametrize(
    "content",
    [
        [ROW],
        {"rows": [ROW]},
        {"rows": [[1, 1, 2, 1.0, 3]]},
        {"rows": [["1", 1, 2.0, "1", 3]], "horizon": 3, "start": 1},
        {"rows": [[3, 1, 1, 2, 1]], "columns": ["reward", "state", "action", "next_state", "probability"]},
        [{"idstatefrom": 1, "idaction": 1, "idstateto": 2, "probability": 1, "reward": 3, "idoutcome": 9}],
    ],
)
def test_json_forms(read, content):
    mdp = read(json.dumps(content), suffix=".json").mdp
    assert (mdp.labels, mdp.reward.tolist(), mdp.horizon) == ((1, 2), [3, 0], 3)


def test_json_gives_horizon_discount_and_start(read):
    text = json.dumps({"rows": [ROW], "horizon": 7, "discount": 0.5, "start": {"2": 1}})
    mdp = read(text, suffix=".json", horizon=None).mdp
    assert (mdp.horizon, mdp.discount, mdp.start.tolist()) == (7, 0.5, [0, 1])
    assert read(text, suffix=".json", horizon=7, discount=0.5, start=2).mdp.horizon == 7
    other = read(text, suffix=".json", horizon=7, discount=1.0)
    assert other.mdp.discount == 1.0
    assert "discount 1 instead of the source's 0.5" in other.notes
    for option, message in (
        ({"horizon": 8}, "m.json: horizon = 8: the file says 7; leave it out or make them agree"),
        ({"horizon": 7, "start": 1}, r"start = 1: the file says \{2: 1\.0\}"),
    ):
        with pytest.raises(InputError, match=message):
            read(text, suffix=".json", **option)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"m\.json: is not JSON \(Expecting property name"),
        ("[" * 100_000, "is not JSON"),
        ("[" + "9" * 5000 + "]", "is not JSON .a number of 5000 digits"),
        ("3", 'must be a list of rows or an object with a list "rows"'),
        ("[]", "rows: at least one outcome is needed"),
        ({"rows": [ROW], "horizn": 3}, "'horizn': is not one of the keys .*did you mean 'horizon'"),
        ([ROW, {"state": 1}], r"rows\[1\]: must have the same keys as the first row, differs in 'action'"),
        ([[1, 1, 2, 1.0]], r"rows\[0\]: must have 6 entries"),
        ([ROW, [1, 1, 2, 1.0]], r"rows\[1\]: must have 5 entries \(state, .*found 4 entries"),
        ([ROW, 7], r"rows\[1\]: must have 5 entries .*found 7"),
        ([ROW | {"reward": None}], r"reward = None in rows\[0\]: must be a finite number"),
        (
            [ROW | {"reward": 10**200 * 10**99}, ROW | {"probability": "NaN"}],
            r"probability = 'NaN' in rows\[1\]",
        ),
        ([ROW | {"state": True}], r"state = True in rows\[0\]: must be a whole number or a name"),
        ([ROW | {"state": [1]}], r"state = \[1\] in rows\[0\]: must be a whole number or a name"),
        (
            {"rows": [ROW], "states": [1, 3]},
            r"next_state = 2 in rows\[0\]: is not among the states of the file",
        ),
        ({"rows": [ROW], "states": [1, 1, 2]}, r"states: 1 is there twice, in states\[0\] and states\[1\]"),
        ({"rows": [ROW], "horizon": 1, "start": [[1], 2]}, "start: must be 2 probabilities"),
        ({"rows": [ROW], "horizon": "x"}, "horizon = 'x': must be a number"),
        ({"rows": [ROW], "horizon": [3]}, r"horizon = \[3\]: must be a number"),
    ],
)
def test_json_errors_name_the_row_and_the_value(read, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read(content if isinstance(content, str) else json.dumps(content), suffix=".json", horizon=None)
    assert "\n" not in str(caught.value)


def test_the_published_domains_have_their_sizes():
    sizes = {"inventory_generic": (21, 11), "machine": (10, 2), "riverswim": (20, 2), "ruin": (11, 11)}
    for name, size in sizes.items():
        mdp = read_mdp(DOMAINS / f"{name}.csv", horizon=5, start=2).mdp
        assert (mdp.n_states, mdp.n_actions) == size
        assert mdp.start[1] == 1
        np.testing.assert_allclose(np.add.reduceat(mdp.prob, mdp.ptr[:-1][np.diff(mdp.ptr) > 0]), 1)


def test_many_labels_are_compared_in_one_pass():
    """As many comparisons as labels, counted: all pairs would be 2e10."""
    compared = 0

    class Name(str):
        __slots__ = ()

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Name(f"s{i}") for i in range(2000)] + [Name("s1999")]
    with pytest.raises(InputError, match=r"states: 's1999' is there twice, in states\[1999\] and states\[2000\]"):
        _rows._labels(names, "states")
    assert compared < 10 * len(names)


@pytest.mark.parametrize("labels", [("a", "b", "a"), ("a", "b"), tuple("abcd")])
def test_every_state_and_action_has_a_name_of_its_own(labels):
    """A policy that is asked by name must not answer for another state."""
    rows = ([0, 1, 2], [0, 1, 2], [0, 1, 2], [1, 1, 1], [1, 2, 3])
    for name in ("labels", "action_labels"):
        with pytest.raises(InputError, match=f"^{name}: must be 3 different labels, found"):
            FiniteMDP.from_rows(*rows, horizon=1, **{name: labels})
