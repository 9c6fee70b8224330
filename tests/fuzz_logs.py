"""Tables of past episodes as files, to be damaged and learned from all the same."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from fuzz_targets import Maker, Target
from logged import frame_of, small_mdp
from tailrank import learn_logs


def log(suffix: str, kind: str) -> Maker:
    """A table of past episodes, learned from."""

    def make(folder: Path) -> Target:
        frame, path = frame_of(small_mdp(), 8, 0), folder / f"log{suffix}"
        if suffix == ".csv":
            rows = [",".join(frame), *(",".join(map(str, row)) for row in zip(*frame.values(), strict=True))]
            path.write_text("\n".join(rows) + "\n")
        else:
            import pyarrow
            from pyarrow import feather, parquet

            (parquet.write_table if suffix == ".parquet" else feather.write_feather)(pyarrow.table(frame), str(path))
        return Target(f"log {suffix}", kind, path.read_bytes(), partial(_use_log, path.name))

    return make


def minari(_: Path) -> Target:
    """The HDF5 file of a Minari data set."""
    import h5py

    def write(path: Path) -> bytes:
        with h5py.File(path, "w") as file:
            for i in range(4):
                group = file.create_group(f"episode_{i}")
                group["observations"] = np.array([0, i % 2, 1])
                group["actions"] = np.array([i % 2, 1])
                group["rewards"] = np.array([1.0, float(i)])
                group["terminations"] = np.array([False, True])
                group["truncations"] = np.array([False, False])
        return path.read_bytes()

    with tempfile.TemporaryDirectory() as top:
        data = write(Path(top) / "m.hdf5")
    return Target("log minari", "bytes", data, _use_minari)


def _use_minari(folder: Path, data: bytes) -> None:
    inner = folder / "set" / "data"
    inner.mkdir(parents=True)
    (inner / "metadata.json").write_text('{"total_episodes": 4}')
    (inner / "main_data.hdf5").write_bytes(data)
    learn_logs(folder / "set", tau=0.3)


def _use_log(name: str, folder: Path, data: bytes) -> None:
    (folder / name).write_bytes(data)
    learn_logs(folder / name, tau=0.3)
