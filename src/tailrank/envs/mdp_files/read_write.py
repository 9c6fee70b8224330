"""One entry point for reading MDPs, whatever they are stored in, and one for writing them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from pathlib import Path

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.gymnasium import tables
from tailrank.envs.mdp_files._npz import ORDERS
from tailrank.envs.mdp_files.draft import Source, finish
from tailrank.envs.mdp_files.formats import Format, format_of, formats_text, function
from tailrank.envs.mdp_files.text import write_file
from tailrank.models.mdp import FiniteMDP


def read_mdp(
    source: str | Path,
    *,
    horizon: int | None = None,
    discount: float | None = None,
    start: object = None,
    index_base: int | str = "auto",
    axis_order: str = "auto",
    imports: Sequence[str] = (),
) -> Source:
    """The MDP in a file (`formats.FORMATS`: .csv, .json, .npz) or of a Gymnasium id (`FrozenLake-v1`, `module:Id-v0`).

    horizon, discount (1 if nobody says), start: must agree with what a file says itself. `start` is in the
    source's own numbering: a state, a law as a mapping or as text `"1:0.5,4:0.5"`; the first state if nobody
    says. index_base: 0, 1 or "auto" (0 where a 0 occurs, else 1). axis_order: "state-first", "action-first"
    or "auto", for .npz. imports: packages to import for the environments they register.

    >>> read_mdp("FrozenLake-v1", horizon=100).mdp.n_states
    16
    """
    base = checks.one_of(str(index_base), "index_base", ("auto", "0", "1"))
    number = None if base == "auto" else int(base)
    checks.one_of(axis_order, "axis_order", ("auto", *ORDERS))
    path = Path(source)
    suffix, row = format_of(path) or ("", None)
    if axis_order != "auto" and not (row and row.axes):
        raise InputError(f"axis_order = {axis_order}: only .npz files have axes, {source} has none")
    if row is None and not isinstance(source, Path) and not os.path.exists(source):
        if number == 1:
            raise InputError(f"index_base = 1: the states of an environment are numbered from 0 ({source})")
        draft = tables.read_environment(source, imports, horizon, start)
        return finish(draft, source, horizon=horizon, discount=discount, start=start)
    row = _require_format(row, path)
    if not os.path.isfile(path):
        raise InputError(f"{source}: there is no such file")
    name = path.name[: -len(suffix)]
    try:
        draft = function(row.read)(path, number, axis_order)
        return finish(draft, name, horizon=horizon, discount=discount, start=start)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(path.name) else f"{path.name}: {text}") from None


def write_mdp(mdp: FiniteMDP, path: str | Path) -> tuple[str, ...]:
    """Write the MDP to a .csv, .json (either also .gz) or .npz file; returns remarks for the user.

    >>> mdp = FiniteMDP.from_rows([0, 0], [0, 1], [0, 0], [1, 1], [1, 2], horizon=3)
    >>> write_mdp(mdp, "small.json")
    ()
    >>> read_mdp("small.json").mdp.horizon
    3
    """
    path = Path(path)
    suffix, row = format_of(path) or ("", None)
    row = _require_format(row, path)
    data = function(row.write)(mdp)
    # No time stamp: the same MDP gives the same bytes.
    write_file(path, gzip.compress(data, mtime=0) if suffix.endswith(".gz") else data)
    return (row.remark,) if row.remark else ()


def _require_format(row: Format | None, path: Path) -> Format:
    if row is None:
        raise InputError(f"{path}: must be one of the file types {formats_text()}")
    return row
