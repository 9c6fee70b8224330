"""Tables of episodes: every way in, what is understood, and one line for everything that is wrong."""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from logged import frame_of, small_mdp
from tailrank import InputError
from tailrank.envs.logs.checking import drift, findings, log_facts
from tailrank.envs.logs.read import read_log

GOOD = {
    "episode": [7, 7, 8, 8, 8],
    "step": [1, 2, 1, 2, 3],
    "state": ["a", "b", "a", "a", "c"],
    "action": [0, 1, 0, 0, 1],
    "reward": [0.5, 1, 0, 2, 3],
    "terminated": [False, True, False, False, False],
    "truncated": [False, False, False, False, True],
    "prob": [0.5, 1, 0.5, 0.5, 1],
}


def as_csv(frame, path):
    lines = [",".join(frame)] + [",".join(map(str, row)) for row in zip(*frame.values())]
    path.write_text("\n".join(lines) + "\n")
    return path


def changed(row, column, value):
    frame = {name: list(cells) for name, cells in GOOD.items()}
    frame[column][row] = value
    return frame


def test_what_is_understood():
    log = read_log(GOOD)
    assert log.begin.tolist() == [0, 2, 5]
    assert log.states == ("a", "b", "c")
    assert log.actions == (0, 1)
    assert log.next_state.tolist() == [1, 3, 0, 2, -1]
    assert log.horizon == 3
    assert log.cut.tolist() == [False, False]  # the second has all three steps
    assert read_log(GOOD, horizon=5).cut.tolist() == [False, True]
    assert log.returns().tolist() == [1.5, 5.0]
    assert log.returns(0.5).tolist() == [1.0, 1.75]
    assert log.probability.tolist() == [0.5, 1, 0.5, 0.5, 1]


def test_every_way_in_is_the_same_log(tmp_path):
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    from pyarrow import feather, parquet

    table = arrow.table(GOOD)
    parquet.write_table(table, tmp_path / "log.parquet")
    feather.write_feather(table, tmp_path / "log.feather")
    with arrow.OSFile(str(tmp_path / "log.arrow"), "wb") as sink, arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    text = as_csv(GOOD, tmp_path / "log.csv").read_bytes()
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(text))
    frames = [pandas.DataFrame(GOOD), polars.DataFrame(GOOD), table]
    files = [tmp_path / f"log.{end}" for end in ("parquet", "feather", "arrow", "csv", "csv.gz")]
    first = read_log(GOOD)
    for source in (*frames, *files, str(files[0])):
        log = read_log(source)
        for name in ("begin", "state", "action", "next_state", "reward", "cut", "probability"):
            np.testing.assert_array_equal(getattr(log, name), getattr(first, name))
        assert (log.states, log.actions, log.horizon) == (first.states, first.actions, first.horizon)


def test_frames_of_pandas_need_no_other_library(monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, "narwhals", None)
    log, first = read_log(pandas.DataFrame(GOOD)), read_log(GOOD)
    for name in ("begin", "state", "action", "next_state", "reward", "cut", "probability"):
        np.testing.assert_array_equal(getattr(log, name), getattr(first, name))
    with pytest.raises(InputError, match="extra `logs` is not installed"):
        read_log(object())


def test_rows_in_any_order():
    order = [4, 0, 3, 1, 2]
    log, first = read_log({name: [cells[i] for i in order] for name, cells in GOOD.items()}), read_log(GOOD)
    assert log.subset(np.array([1, 0])).reward.tolist() == first.reward.tolist()


def test_columns_by_other_names():
    frame = {"Patient": [1, 1], "Time": [0, 1], "ward": [3, 4], "dose": [0, 1], "R": [1.0, 2.0]}
    log = read_log(frame, columns={"state": "ward", "action": "dose"})
    assert log.states == (3, 4)
    with pytest.raises(InputError, match="has no column action, state"):
        read_log(frame)
    with pytest.raises(InputError, match=r"no column 'wards'.*did you mean 'ward'"):
        read_log(frame, columns={"state": "wards"})


def test_numbers_are_read_in_one_go_and_lines_are_named(tmp_path):
    frame = frame_of(small_mdp(), 5, 0)
    log = read_log(as_csv(frame, tmp_path / "log.csv"))
    assert log.transitions == 15
    frame["reward"] = [*frame["reward"][:3], "x", *frame["reward"][4:]]
    with pytest.raises(InputError, match=r"log.csv: line 5, column 'reward': 'x'"):
        read_log(as_csv(frame, tmp_path / "log.csv"))


BAD = [
    (changed(1, "reward", float("nan")), "row 1, column 'reward'"),
    (changed(3, "reward", float("inf")), "row 3, column 'reward'"),
    (changed(3, "reward", "much"), "row 3, column 'reward': 'much' must be a number"),
    (changed(2, "state", 4), "row 2, column 'state': 4 among names"),
    (changed(2, "state", None), "row 2, column 'state': the cell is empty"),
    (changed(0, "action", 0.5), "row 0, column 'action': 0.5"),
    (changed(4, "step", 2), "row 4, column 'step': step 2 is there twice"),
    (changed(4, "step", 5), "row 4, column 'step': step 5 follows step 2 (a gap)"),
    (changed(2, "step", 0), "a gap"),
    (changed(1, "step", 1.5), "row 1, column 'step': 1.5 must be a whole number"),
    (changed(0, "terminated", True), "row 0, column 'terminated': the episode goes on"),
    (changed(0, "terminated", "perhaps"), "row 0, column 'terminated': 'perhaps'"),
    (changed(4, "prob", 0.0), "row 4, column 'prob': 0.0 must lie in (0, 1]"),
    (changed(4, "prob", 1.5), "row 4, column 'prob'"),
    (changed(3, "reward", [1, 2]), "row 3, column 'reward': [1, 2] must be a number"),
    (GOOD | {"reward": np.array(GOOD["reward"]) + 1j}, "row 0, column 'reward': (0.5+1j) must be a number"),
    (GOOD | {"reward": 3}, "column 'reward': must be a list"),
    ({"episode": [], "state": [], "action": [], "reward": []}, "has no rows"),
    (GOOD | {"next_state": ["b", None, "c", "c", "a"]}, "row 2, column 'next_state': 'c' is not the state"),
    (GOOD | {"admissible": ["0|1", "1", "0", "1", "1"]}, "row 3, column 'admissible': action 0 was taken"),
]


@pytest.mark.parametrize(("frame", "text"), BAD, ids=[text[:40] for _, text in BAD])
def test_one_line_for_everything_wrong(frame, text):
    with pytest.raises(InputError) as error:
        read_log(frame)
    assert text in str(error.value)


def test_horizon_and_known_states():
    with pytest.raises(InputError, match="row 4, column 'step': an episode has more steps than horizon = 2"):
        read_log(GOOD, horizon=2)
    with pytest.raises(InputError, match="row 4, column 'state': 'c' is not one of the 2"):
        read_log(GOOD, states=("a", "b"))
    with pytest.raises(InputError, match="neither a data frame"):
        read_log(object())
    with pytest.raises(InputError, match="no such file"):
        read_log("nothing.csv")
    for name in ("x" * 5000, "a\0b", ""):
        with pytest.raises(InputError, match="neither a file"):
            read_log(name)


def test_data_frames_with_holes_and_odd_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(GOOD)
    for column, kind, text in (("action", "Int64", "nan must be a whole number"), ("state", "string", "is empty")):
        cells = frame[column].astype(kind)
        cells[2] = pandas.NA
        with pytest.raises(InputError, match=f"row 2, column '{column}': .*{text}"):
            read_log(frame.assign(**{column: cells}))
    with pytest.raises(InputError, match="column 'reward' is there 2 times"):
        read_log(pandas.concat([frame, frame[["reward"]]], axis=1))
    with pytest.raises(InputError, match="names of columns must be text"):
        read_log(frame.rename(columns={"reward": 3}))


def test_admissible_actions():
    log = read_log(GOOD | {"admissible": ["0", "0, 1", "0", "0", "1"]})
    assert log.admissible.tolist() == [[True, False], [True, True], [False, True]]


def test_observation_vectors_are_kept():
    frame = {name: GOOD[name] for name in ("episode", "step", "action", "reward")}
    log = read_log(frame | {"obs_0": np.arange(5.0), "obs_1": np.arange(5.0) * 2})
    assert log.observation.tolist() == [[0, 0], [1, 2], [2, 4], [3, 6], [4, 8]]
    assert np.isnan(log.next_observation[1]).all()


@pytest.mark.parametrize("end", ["parquet", "arrow", "feather"])
def test_damaged_files(tmp_path, end):
    pytest.importorskip("pyarrow")
    import pyarrow
    from pyarrow import feather, parquet

    path = tmp_path / f"log.{end}"
    table = pyarrow.table({name: np.tile(np.array(cells), 50) for name, cells in GOOD.items()})
    parquet.write_table(table, path) if end == "parquet" else feather.write_feather(table, path, compression="zstd")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for trial in range(40):
        data = bytearray(whole[: int(rng.integers(0, len(whole)))] if trial % 2 else whole)
        for _ in range(8):
            if data:
                data[int(rng.integers(len(data)))] = int(rng.integers(256))
        path.write_bytes(bytes(data))
        with contextlib.suppress(InputError):  # anything else is a failure; what still reads is a log
            read_log(path)


def test_parquet_that_says_too_much(tmp_path, monkeypatch):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from tailrank.envs.logs import _arrow

    parquet.write_table(arrow.table({"episode": np.zeros(10**6, dtype=np.int8)}), tmp_path / "log.parquet")
    monkeypatch.setattr(_arrow, "MOST_NUMBERS", 10**5)
    with pytest.raises(InputError, match="1000000 rows, too many"):
        read_log(tmp_path / "log.parquet")
    monkeypatch.setattr(_arrow, "MOST_NUMBERS", 10**8)
    monkeypatch.setattr(_arrow, "MOST_BYTES", 10**5)
    with pytest.raises(InputError, match="when unpacked"):
        read_log(tmp_path / "log.parquet")


def minari_folder(root: Path, arrow: bool) -> Path:
    """A data set as Minari writes it: two episodes of Discrete states."""
    folder = root / "toy" / "data"
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text(json.dumps({"total_episodes": 2, "total_steps": 5}))
    for i, (states, actions) in enumerate((([0, 1, 2], [0, 1]), ([0, 0, 1, 2], [0, 0, 1]))):
        n = len(actions)
        parts = {
            "observations": np.array(states), "actions": np.array(actions), "rewards": np.arange(n) * 1.0,
            "terminations": np.arange(n) == n - 1, "truncations": np.zeros(n, dtype=bool),
        }  # fmt: skip
        if not arrow:
            h5py = pytest.importorskip("h5py")
            with h5py.File(folder / "main_data.hdf5", "a") as file:
                group = file.create_group(f"episode_{i}")
                for name, values in parts.items():
                    group[name] = values
            continue
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import feather

        padded = {k: v if k == "observations" else np.append(v, v[-1:] * 0) for k, v in parts.items()}
        (folder / str(i)).mkdir()
        feather.write_feather(pyarrow.table(padded), folder / str(i) / "part-0.arrow", compression="uncompressed")
    return root / "toy"


@pytest.mark.parametrize("arrow", [False, True])
def test_minari(tmp_path, monkeypatch, arrow):
    folder = minari_folder(tmp_path, arrow)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    for name in (str(folder), "toy"):
        log = read_log(name)
        assert log.state.tolist() == [0, 1, 0, 0, 1]
        assert log.next_state.tolist() == [1, 2, 0, 1, 2]
        assert log.returns().tolist() == [1.0, 3.0]
    with pytest.raises(InputError, match="neither a file"):
        read_log("nobody/knows-v0")


def test_minari_links_lead_nowhere(tmp_path):
    h5py = pytest.importorskip("h5py")
    folder = minari_folder(tmp_path, False)
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        del file["episode_1/rewards"]
        file["episode_1/rewards"] = h5py.ExternalLink("/etc/passwd", "x")
    with pytest.raises(InputError, match="must be in this file"):
        read_log(folder)


def test_facts_and_drift():
    mdp = small_mdp()
    log = read_log(frame_of(mdp, 400, 0))
    facts = log_facts(log)
    assert (facts["episodes"], facts["states"], facts["pairs_seen"], facts["cut"]) == (400, 3, 6, 0)
    assert all(level != "warning" for level, _, _ in findings(log, facts))
    chances = [drift(read_log(frame_of(mdp, 300, seed)))["outcomes"] for seed in range(60)]
    assert 0.3 < np.mean(chances) < 0.7
    mixed = frame_of(small_mdp(1), 200, 0)
    late = {name: np.concatenate([column, mixed[name]]) for name, column in frame_of(mdp, 200, 1).items()}
    late["episode"][600:] += 1000
    found = drift(read_log(late))
    assert found["outcomes"] < 1e-6
