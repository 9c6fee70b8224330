"""Policies as files: one safetensors file with the arrays, and a JSON header with everything else.

Loading executes nothing. The header carries a schema version, and every array is checked against the
others before use, because compiled code does not check its indices.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tailrank.atomic import write_bytes
from tailrank.checks import InputError, did_you_mean
from tailrank.grid import BudgetGrid
from tailrank.plan import Plan
from tailrank.policy import BudgetPolicy, LevelPolicy, MarkovPolicy, Policy

SCHEMA = 1
KINDS = {"budget": BudgetPolicy, "markov": MarkovPolicy, "level": LevelPolicy}


@dataclass(frozen=True)
class Stored:
    """What a file holds: a policy, and what was said about it (numbers, names of states and actions)."""

    policy: Policy
    info: dict[str, Any] = field(default_factory=dict)


def save(item: Plan | Policy, path: str | Path, *, info: dict[str, Any] | None = None) -> None:
    """Write a plan or a policy to `path`, all or nothing. `info` is kept beside it (must be JSON)."""
    from safetensors.numpy import save as to_bytes

    about: dict[str, Any] = dict(info or {})
    policy = item
    if isinstance(item, Plan):
        about |= {"plan": item.as_dict(), "criterion": item.criterion, "status": item.status}
        policy = item.policy
    kind = next((name for name, known in KINDS.items() if type(policy) is known), None)
    if kind is None:
        raise InputError(f"policy: a {type(policy).__name__} cannot be saved; known are {', '.join(KINDS)}")
    arrays, scalars = {}, {}
    for f in dataclasses.fields(policy):  # type: ignore[arg-type]
        value = getattr(policy, f.name)
        if isinstance(value, np.ndarray):
            arrays[f.name] = np.ascontiguousarray(value)
        else:
            scalars[f.name] = _grid_out(value) if isinstance(value, BudgetGrid) else int(value)
    header = {"format": "tailrank-policy", "schema": SCHEMA, "kind": kind, "scalars": scalars, "info": about}
    write_bytes(Path(path), to_bytes(arrays, metadata={"tailrank": json.dumps(header)}))


def load(path: str | Path) -> Stored:
    """Read a policy file back."""
    from safetensors import SafetensorError, safe_open

    where = Path(path)
    if not where.is_file():
        raise InputError(f"{where}: no such file")
    try:
        with safe_open(str(where), framework="numpy") as file:
            text = (file.metadata() or {}).get("tailrank")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise InputError(f"{where}: is not a policy file ({str(error).splitlines()[0]})") from None
    try:
        return _build(text, arrays)
    except (
        InputError,
        KeyError,
        TypeError,
        ValueError,
        ZeroDivisionError,
        RecursionError,
        OverflowError,
    ) as error:
        reason = f"{error}" if isinstance(error, InputError) else f"damaged header ({type(error).__name__})"
        raise InputError(f"{where}: {reason}") from None


def _build(text: str | None, arrays: dict[str, np.ndarray]) -> Stored:
    header = json.loads(text) if text else {}
    if not isinstance(header, dict) or header.get("format") != "tailrank-policy":
        raise InputError("is a safetensors file, but not one of a tailrank policy")
    if header["schema"] != SCHEMA:
        raise InputError(f"has schema {header['schema']}, this version reads schema {SCHEMA}")
    if header["kind"] not in KINDS:
        raise InputError(f"holds a policy of kind {header['kind']!r}{did_you_mean(str(header['kind']), KINDS)}")
    kind = KINDS[header["kind"]]
    scalars = {k: _grid_in(v) if k == "grid" else int(v) for k, v in header["scalars"].items()}
    names = {f.name for f in dataclasses.fields(kind)}
    if set(scalars) | set(arrays) != names:
        raise InputError(f"must hold {', '.join(sorted(names))}; found {', '.join(sorted({*scalars, *arrays}))}")
    policy: Any = kind(**scalars, **arrays)
    _check(policy)
    return Stored(policy, header["info"])


def _grid_out(grid: BudgetGrid) -> dict[str, Any]:
    return {
        "unit": str(grid.unit), "origin": [str(x) for x in grid.origin],
        "rounding": grid.rounding, "discount": grid.discount,
    }  # fmt: skip


def _grid_in(data: dict[str, Any]) -> BudgetGrid:
    if data["rounding"] not in ("exact", "up", "nearest"):
        raise InputError(f"rounding = {data['rounding']!r}: must be exact, up or nearest")
    unit = Fraction(data["unit"])
    if unit <= 0:
        raise InputError(f"unit = {unit}: must be positive")
    return BudgetGrid(unit, tuple(Fraction(x) for x in data["origin"]), data["rounding"], float(data["discount"]))


def _check(policy: Any) -> None:
    """Arrays must have the right kinds and fit each other."""
    for f in dataclasses.fields(policy):
        value = getattr(policy, f.name)
        floats = f.name in ("levels", "reward")
        if isinstance(value, np.ndarray) and value.dtype.kind not in ("f" if floats else "iu"):
            raise InputError(f"{f.name}: has type {value.dtype}, expected {'floats' if floats else 'whole numbers'}")
        if isinstance(value, np.ndarray) and not floats and value.size and f.name != "first" and value.min() < 0:
            raise InputError(f"{f.name}: holds {value.min()}, must not be negative")
    if isinstance(policy, MarkovPolicy):
        _require(policy.actions.ndim == 2, "actions: must have shape [H, S]")
    elif isinstance(policy, BudgetPolicy):
        H, S = policy.first.shape if policy.first.ndim == 2 else (-1, -1)
        _require(policy.grid.horizon == H, "first: must have shape [H, S] with H steps of the grid")
        _require(policy.elsewhere.shape == (H, S), "elsewhere: must have shape [H, S]")
        _require(policy.offset.shape == (H, S + 1), "offset: must have shape [H, S + 1]")
        _require(policy.actions.ndim == 1 and policy.actions.size > 0, "actions: must be a flat, non-empty array")
        _require(bool((np.diff(policy.offset, axis=1) >= 0).all()), "offset: must not decrease")
        _require(int(policy.offset.max()) <= policy.actions.size, "offset: must stay within actions")
        _require(int(np.abs(policy.first).max()) < 2**60, "first: is out of range")
    elif isinstance(policy, LevelPolicy):
        K = policy.levels.size
        _require(policy.actions.ndim == 3 and policy.actions.shape[2] == K, "actions: must have shape [H, S, K]")
        _require(policy.next_level.ndim == 2 and policy.next_level.shape[1] == K, "next_level: must have K columns")
        _require(policy.start_level.shape == policy.actions.shape[1:2], "start_level: must have shape [S]")
        _require(max(int(policy.start_level.max()), int(policy.next_level.max())) < K, "levels: an index is too large")
        _require(bool((np.diff(policy.ptr) >= 0).all()), "ptr: must not decrease")
        _require(int(policy.ptr[-1]) == policy.next_state.size == policy.reward.size, "ptr: must end at the rows")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InputError(message)
