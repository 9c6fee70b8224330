"""Hostile Parquet, Arrow and HDF5 files on the command line: one line, exit 2, nothing written, nothing executed."""

from __future__ import annotations

import json
import struct
from functools import partial

import numpy as np
import pytest

from command import cli, fails
from logged import frame_of, small_mdp

arrow = pytest.importorskip("pyarrow")
h5py = pytest.importorskip("h5py")
FIELDS = ("observations", "actions", "rewards", "terminations", "truncations")


def table():
    return arrow.table(frame_of(small_mdp(), 8, 0))


def write_parquet(path, columns=None, **options):
    from pyarrow import parquet

    parquet.write_table(columns or table(), path, **options)
    return path


def write_arrow(path, columns=None):
    columns = columns or table()
    with arrow.OSFile(str(path), "wb") as sink, arrow.ipc.new_file(sink, columns.schema) as writer:
        writer.write_table(columns)
    return path


def write_minari(path, change=None):
    """A Minari data set of four episodes; change(file) may spoil its HDF5 file. Returns the folder."""
    inner = path / "data"
    inner.mkdir(parents=True)
    (inner / "metadata.json").write_text(json.dumps({"total_episodes": 4}))
    with h5py.File(inner / "main_data.hdf5", "w") as file:
        for i in range(4):
            parts = ([0, i % 2, 1], [i % 2, 1], [1.0, float(i)], [False, True], [False, False])
            for name, values in zip(FIELDS, parts, strict=True):
                file[f"episode_{i}/{name}"] = np.array(values)
        if change is not None:
            change(file)
    return path


def other_rewards(file, **options):
    """Put another array in place of the rewards of the first episode."""
    del file["episode_0/rewards"]
    file.create_dataset("episode_0/rewards", **options)


FILES = {".parquet": write_parquet, ".arrow": write_arrow, ".feather": write_arrow}


@pytest.mark.parametrize("suffix", [*FILES, "minari"])
def test_damage_ends_with_a_line_or_a_plan(suffix, tmp_path):
    """Cut off anywhere, or with some bytes changed: refused in one line, or still a log. Nothing else happens."""
    source = write_minari(tmp_path / "set") if suffix == "minari" else FILES[suffix](tmp_path / f"log{suffix}")
    path = source / "data" / "main_data.hdf5" if suffix == "minari" else source
    whole, rng, refused, out = path.read_bytes(), np.random.default_rng(3), 0, tmp_path / "out"
    for trial in range(24):
        data = bytearray(whole)
        if trial % 3 == 0:
            del data[int(rng.integers(len(data))) :]
        else:  # bits anywhere, or in the last bytes, where Parquet and Arrow keep their directory
            low = 0 if trial % 3 == 1 else max(0, len(data) - 200)
            for place in rng.integers(low, len(data), 6):
                data[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        found = cli("learn-logs", source, "--tau", 0.3, "--out", out, "--quiet")
        if found.exit_code:
            fails(found)
            refused += 1
            assert not out.exists()
        elif out.exists():
            [one.unlink() for one in out.iterdir()]
            out.rmdir()
    assert refused >= 8


def test_lengths_that_are_not_there(tmp_path):
    """Files that say they hold far more than they do, or would unpack to more than may be read."""
    out = tmp_path / "out"
    path = write_arrow(tmp_path / "log.arrow")
    data = bytearray(path.read_bytes())
    size = struct.pack("<q", 24 * 8)  # lengths of buffers: those of 24 numbers become an exabyte
    while size in data:
        data = data.replace(size, struct.pack("<q", 2**60))
    path.write_bytes(data)
    fails(cli("learn-logs", path, "--out", out), "log.arrow")
    wide = partial(other_rewards, shape=(10**13,), chunks=(2**16,), dtype="f8")
    fails(cli("learn-logs", write_minari(tmp_path / "wide", wide), "--out", out), "numbers, the most that is read")
    packed = partial(other_rewards, shape=(2 * 10**8,), chunks=(2**20,), dtype="i1", compression="gzip", fillvalue=1)
    fails(cli("learn-logs", write_minari(tmp_path / "packed", packed), "--out", out), "the most that is read")
    assert not out.exists()


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def test_nothing_is_unpickled(tmp_path):
    """Pickles where Arrow's extension types, HDF5's opaque arrays and attributes could keep them stay what they are."""
    import pickle

    mark, out = tmp_path / "executed", tmp_path / "out"
    data = pickle.dumps(Evil(mark))
    told = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": data}
    evil = table()
    field = evil.schema.field("reward").with_metadata(told)
    evil = evil.set_column(evil.schema.get_field_index("reward"), field, evil.column("reward"))
    evil = evil.replace_schema_metadata({b"pandas": data, b"pickle": data})
    for path in (write_parquet(tmp_path / "log.parquet", evil), write_arrow(tmp_path / "log.arrow", evil)):
        found = cli("learn-logs", path, "--out", out, "--quiet")
        if found.exit_code:
            fails(found)
    opaque = partial(other_rewards, data=np.array([np.void(data)] * 2))
    fails(
        cli("learn-logs", write_minari(tmp_path / "a", opaque), "--out", tmp_path / "x"), "must be an array of numbers"
    )
    listed = partial(other_rewards, shape=(2,), dtype=h5py.special_dtype(vlen=np.uint8))
    fails(
        cli("learn-logs", write_minari(tmp_path / "b", listed), "--out", tmp_path / "x"), "must be an array of numbers"
    )

    def tell(file):
        file.attrs["pickle"] = np.void(data)

    assert cli("learn-logs", write_minari(tmp_path / "c", tell), "--out", tmp_path / "c-out").exit_code == 0
    assert not mark.exists()
    assert not (tmp_path / "x").exists()
    pickle.loads(data).close()
    assert mark.exists()  # it would have been seen


@pytest.mark.parametrize("count", [-1, 10**9, 5, "4", None, [4], True])
def test_what_a_data_set_says_of_itself(count, tmp_path):
    folder = write_minari(tmp_path / "set")
    (folder / "data" / "metadata.json").write_text(json.dumps({"total_episodes": count}))
    fails(cli("learn-logs", folder, "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()
