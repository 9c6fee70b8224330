"""MDPs in NPZ files: a kernel P, rewards R, and optionally start, horizon, discount and labels.

P is [S, A, S] (state first) or [A, S, S] (action first), each with or without the steps [H] in front. R is
[S], [S, A], or has the shape of P; action first it may also be [A, S]. Nothing is unpacked before the
header of an array has shown that its shape is bounded, and nothing is ever unpickled.
"""

from __future__ import annotations

import io
import lzma
import struct
import sys
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from tailrank import checks
from tailrank._system.reading import open_regular
from tailrank.checks import InputError
from tailrank.envs.mdp_files._labels import Label, label
from tailrank.envs.mdp_files.draft import Draft
from tailrank.envs.mdp_files.text import reason

MAX_ARRAYS = 2**31
"""The most bytes the arrays of a file may take in memory, as float64."""
MOST_OUTCOMES = 2**24
"""The most entries of P that are not zero."""
LONGEST_HEADER = 2**16
NAMES = ("P", "R", "start", "horizon", "discount", "axis_order", "states", "actions")
ORDERS = ("state-first", "action-first")
# What zipfile and numpy raise on a damaged file; found by flipping bits.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OSError,
    EOFError,
    SyntaxError,
    RuntimeError,
    MemoryError,
    OverflowError,
)


def read_npz(path: Path, base: int | None, axis_order: str) -> Draft:
    """The draft of an NPZ file; `base` numbers states and actions that have no labels in the file (0)."""
    arrays, ignored = load(path)
    draft = arrays_draft(arrays, base, axis_order, ignored)
    return replace(draft, notes=(*draft.notes, f"arrays not used: {', '.join(ignored[:5])}")) if ignored else draft


def arrays_draft(
    arrays: Mapping[str, np.ndarray], base: int | None, axis_order: str, others: Sequence[str] = ()
) -> Draft:
    """The draft of arrays by name (`NAMES`), of which P and R must be there; others: names without a meaning."""
    for name in ("P", "R"):
        if name not in arrays:
            found = ", ".join([*arrays, *others][:8]) or "none"
            raise InputError(f"{name}: there is no such array in the file, found {found}")
    own = str(arrays["axis_order"]) if "axis_order" in arrays else "auto"
    if "auto" not in (own, axis_order) and own != axis_order:
        raise InputError(f"axis_order = {axis_order}: the file says {own!r:.40}; leave it out or make them agree")
    given = axis_order if axis_order != "auto" else own
    kernel = _real(arrays["P"], "P")
    order = _order(kernel.shape, checks.one_of(given, "axis_order", ("auto", *ORDERS)))
    if order == "action-first":
        kernel = np.swapaxes(kernel, -3, -2)
    R = _rewards(_real(arrays["R"], "R"), kernel.shape, order)
    count = np.count_nonzero(kernel)
    if count > MOST_OUTCOMES:
        raise InputError(f"P: has {count} entries that are not 0, must have at most {MOST_OUTCOMES}")
    where = np.nonzero(kernel)
    if kernel.ndim == 4 and np.unique(where[0]).size < kernel.shape[0]:
        empty = np.setdiff1d(np.arange(kernel.shape[0]), where[0])[0]
        raise InputError(f"P[{empty}]: is zero everywhere, so step {empty} has no outcomes")
    S, A = kernel.shape[-3:-1]
    labels, actions = (_labels(arrays, k, n, base or 0) for k, n in (("states", S), ("actions", A)))
    notes = []
    if given == "auto" and S != A:
        notes.append(f"P read as {'[S, A, S]' if order == ORDERS[0] else '[A, S, S]'}: {S} states, {A} actions")
    return Draft(
        where[-3],
        where[-2],
        where[-1],
        kernel[where],
        np.broadcast_to(R, kernel.shape)[where],
        labels,
        actions,
        step=where[0] if kernel.ndim == 4 else None,
        horizon=_scalar(arrays, "horizon"),
        discount=_scalar(arrays, "discount"),
        start=_start(arrays),
        notes=tuple(notes),
    )


def load(path: Path) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays of the file that have a meaning here, and the names of the others."""
    arrays: dict[str, np.ndarray] = {}
    left = MAX_ARRAYS
    try:
        with open_regular(path, 2 * MAX_ARRAYS) as file, zipfile.ZipFile(file) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            for name in dict.fromkeys(n for n in names if n in NAMES):
                with archive.open(f"{name}.npy") as member:
                    # No more than this, whatever length the header gives itself.
                    left -= _size(io.BytesIO(member.read(LONGEST_HEADER)), name, left)
                with archive.open(f"{name}.npy") as member:
                    arrays[name] = _letters(np.lib.format.read_array(member, allow_pickle=False), name)
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(f"is not a readable .npz file ({type(error).__name__}: {reason(error)})") from None
    return arrays, [name for name in names if name not in NAMES]


def _letters(array: np.ndarray, name: str) -> np.ndarray:
    """The array, if its texts are made of letters that there are; Python takes no others."""
    if array.dtype.kind == "U" and array.size:
        native = array.astype(array.dtype.newbyteorder("="))
        if native.dtype.itemsize and int(native.reshape(-1).view(np.uint32).max()) > sys.maxunicode:
            raise InputError(f"{name}: must be text, found letters that do not exist")
    return array


def _size(member: IO[bytes], name: str, left: int) -> int:
    version = np.lib.format.read_magic(member)
    # Version 3 differs from 2 only in the encoding of field names, and an array with fields is refused.
    reads = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = reads(member)
    if dtype.kind not in "biufU":
        raise InputError(f"{name}: must be an array of real numbers, found {dtype}")
    size = max(dtype.itemsize, 8) * int(np.prod(shape, dtype=object))
    if not 0 <= size <= left:
        raise InputError(f"{name}: has shape {list(shape)} and takes {size} bytes, more than {MAX_ARRAYS} in all")
    return size


def _order(shape: tuple[int, ...], order: str) -> str:
    fits = {ORDERS[0]: shape[-3:-2] == shape[-1:], ORDERS[1]: shape[-2:-1] == shape[-1:]}
    if len(shape) not in (3, 4) or not any(fits.values()) or 0 in shape:
        raise InputError(f"P: must have shape [S, A, S] or [A, S, S] (or these with [H] first), found {list(shape)}")
    if order == "auto":
        if all(fits.values()) and shape[-1] > 1:
            raise InputError(
                f"P: has shape {list(shape)}, which is state first as well as action first; "
                f"give axis_order=... ({' or '.join(ORDERS)})"
            )
        return ORDERS[0] if fits[ORDERS[0]] else ORDERS[1]
    if not fits[order]:
        raise InputError(f"P: has shape {list(shape)}, which cannot be {order}")
    return order


def _rewards(R: np.ndarray, shape: tuple[int, ...], order: str) -> np.ndarray:
    """R as an array that broadcasts to the state-first `shape`."""
    S, A = shape[-3:-1]
    # [S, A] goes first: with P action first and S = A that is what pymdptoolbox means.
    readings = [((S,), (S, 1, 1), False), ((S, A), (S, A, 1), False)]
    if order == ORDERS[0]:
        readings.append(((S, A, S), (S, A, S), False))
    else:
        readings += [((A, S), (A, S, 1), True), ((A, S, S), (A, S, S), True)]
    found = [(R.reshape(full), swap) for short, full, swap in readings if R.shape == short]
    timed = len(shape) == 4 and R.shape[:1] == shape[:1]
    each = [(R.reshape(shape[0], *full), swap) for short, full, swap in readings if timed and R.shape[1:] == short]
    if found and each:
        raise InputError(f"R: has shape {list(R.shape)}, which may or may not begin with the steps; give it as {shape}")
    if not found and not each:
        forms = "[S], [S, A] or [S, A, S]" if order == ORDERS[0] else "[S], [S, A], [A, S] or [A, S, S]"
        steps = " (or these with the steps first)" if len(shape) == 4 else ""
        raise InputError(f"R: must have shape {forms} with S = {S}, A = {A}{steps}, found {list(R.shape)}")
    values, swap = (found + each)[0]
    return np.swapaxes(values, -3, -2) if swap else values


def _real(values: np.ndarray, name: str) -> np.ndarray:
    if values.dtype.kind == "U":
        raise InputError(f"{name}: must be an array of real numbers, found {values.dtype}")
    return values.astype(np.float64, copy=False)


def _scalar(arrays: Mapping[str, np.ndarray], name: str) -> float | None:
    if name not in arrays:
        return None
    if arrays[name].size != 1:
        raise InputError(f"{name}: must be one number, found shape {list(arrays[name].shape)}")
    return checks.number(arrays[name].item(), name)


def _start(arrays: Mapping[str, np.ndarray]) -> object:
    start = arrays.get("start")
    return start.item() if start is not None and start.ndim == 0 else start


def _labels(arrays: Mapping[str, np.ndarray], name: str, size: int, base: int) -> tuple[Label, ...]:
    if name not in arrays:
        return tuple(range(base, base + size))
    labels = tuple(label(x, f"{name}[{i}]") for i, x in enumerate(arrays[name].ravel().tolist()))
    if len(labels) != size or len(set(labels)) < size:
        raise InputError(f"{name}: must be {size} different labels, found {len(set(labels))} in {len(labels)}")
    return labels
