"""The file formats of MDPs: one row each. The texts of the command line are made from them.

Functions are named ("module:function"), so that reading this table loads none of them. A format of your own is a row in
`FORMATS`, added by the package that has the functions.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Format:
    """read: (path, index base or None, axis order) -> `Draft`. write: (mdp) -> bytes.

    packed: whether `.gz` after the suffix is read and written, too. axes: whether the file has axes that may be in
    another order. remark: what to tell the user who writes such a file.
    """

    read: str
    write: str
    packed: bool = False
    axes: bool = False
    remark: str = ""


HERE = "tailrank.envs.mdp_files"
FORMATS = {
    ".csv": Format(
        f"{HERE}._rows:read_csv_file",
        f"{HERE}._export:csv_bytes",
        packed=True,
        remark="a .csv file holds no horizon, discount or start: give them when reading it",
    ),
    ".json": Format(f"{HERE}._rows:read_json_file", f"{HERE}._export:json_bytes", packed=True),
    ".npz": Format(f"{HERE}._npz:read_npz", f"{HERE}._export:npz_bytes", axes=True),
}


def function(name: str) -> Any:
    """The function with the name "module:function"."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def format_of(path: Path) -> tuple[str, Format] | None:
    """The suffix of a file of an MDP, in small letters with `.gz`, and its format; None where it is no such file."""
    name = path.name.lower()
    for suffix, row in FORMATS.items():
        for end in (suffix, f"{suffix}.gz") if row.packed else (suffix,):
            if name.endswith(end):
                return end, row
    return None


def suffixes() -> tuple[str, ...]:
    """All suffixes of files of MDPs."""
    return tuple(end for suffix, row in FORMATS.items() for end in (suffix, f"{suffix}.gz")[: 1 + row.packed])


def formats_text() -> str:
    """The suffixes in words: `.csv, .json, .npz; .csv and .json also as .gz`."""
    packed = [suffix for suffix, row in FORMATS.items() if row.packed]
    return f"{', '.join(FORMATS)}; {' and '.join(packed)} also as .gz"
