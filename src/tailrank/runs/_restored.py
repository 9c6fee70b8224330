"""What a checkpoint holds, checked before it is used: compiled code does not check its indices.

The checksum of a checkpoint tells damage, not malice: whoever writes a file can write its checksum too. So sizes, types
and ranges are compared with a fresh state of the same run, and what does not fit is an `InputError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.envs import Episodic
from tailrank.envs.protocols import Simulator
from tailrank.models.counts import SparseCounts, TransitionCounts
from tailrank.planning.latent.planner import LatentPlan
from tailrank.runs.policy_files.observed import checked_decoder

Arrays = Mapping[str, np.ndarray]
SPARSE = ("pair.", "after.", "count.")
"""Beginnings of the names of arrays whose size depends on what was seen."""
MOST_UNITS = 10**6
MOST_MOVES = 2**28
"""Entries of a table of moves between latents."""


@contextmanager
def restoring() -> Iterator[None]:
    """Whatever goes wrong while arrays become a state is an `InputError`."""
    try:
        yield
    except InputError as error:
        raise InputError(f"checkpoint: does not fit this run ({error})") from None
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, MemoryError) as error:
        raise InputError(f"checkpoint: does not fit this run ({type(error).__name__}: {error})") from None


def check_finite(arrays: Arrays, fresh: Any, env: Episodic, decoder: bool) -> None:
    """Raise unless these can be the arrays of a learner on a finite environment, whose fresh state is given."""
    for name, array in fresh.to_arrays().items():
        if not name.startswith(SPARSE):
            _same(arrays[name], array, name)
            _require(name.startswith("tracked") or bool(np.isfinite(arrays[name]).all()), f"{name}: must be finite")
        if name.startswith(("visits.", "counts.")):
            _require(bool((arrays[name] >= 0).all()), f"{name}: must not be negative")
        if name.startswith("gram."):
            np.linalg.cholesky(arrays[name])  # raises where it is no covariance
    _require(int(arrays["counters"].min()) >= 0, "counters: must not be negative")
    seen = getattr(fresh, "seen", None)
    if isinstance(seen, TransitionCounts):
        for h, counts in enumerate(seen.counts):
            if isinstance(counts, SparseCounts):
                _check_sparse(arrays, h, counts.shape)
            if any(name.startswith(f"model.{h}.") for name in arrays):
                _check_step(arrays, f"model.{h}", counts.shape)
    for name in {name.rpartition(".actions.")[0] for name in arrays if ".actions." in name}:
        _check_plan(arrays, name, env, (env.n_groups if decoder else env.n_states,))


def plan_in(arrays: dict[str, np.ndarray], name: str, env: Episodic) -> LatentPlan:
    """The plan with this name in a checkpoint, on the groups or the states of the environment."""
    with restoring():
        _check_plan(arrays, name, env, (env.n_groups, env.n_states))
        return LatentPlan.from_arrays(arrays, name)


def _check_sparse(arrays: Arrays, h: int, shape: tuple[int, int, int]) -> None:
    pair, after, count = (arrays[f"{name}{h}"] for name in SPARSE)
    _require(pair.shape == after.shape == count.shape == (count.size,), f"pair.{h}: must be as long as count")
    _whole(pair, f"pair.{h}", shape[0] * shape[1])
    _whole(after, f"after.{h}", shape[2])
    _require(count.dtype == np.float64 and bool((count > 0).all()), f"count.{h}: must be positive")
    _require(bool((np.diff(pair * shape[2] + after) > 0).all()), f"pair.{h}: must be in order")


def _check_step(arrays: Arrays, name: str, shape: tuple[int, int, int]) -> None:
    if f"{name}.phi" in arrays:
        phi, psi = (arrays[f"{name}.{part}"] for part in ("phi", "psi"))
        fits = phi.ndim == 3 and phi.shape[:2] == shape[:2] and psi.shape == (phi.shape[2], shape[2])
        _require(fits and phi.dtype == psi.dtype == np.float64, f"{name}: must have {shape} groups, actions and groups")
        _require(bool(np.isfinite(phi).all() and np.isfinite(psi).all()), f"{name}: must be finite")
        return
    first, after, prob, sizes = (arrays[f"{name}.{part}"] for part in ("first", "after", "prob", "shape"))
    _require(sizes.tolist() == list(shape), f"{name}: must have {shape} groups, actions and groups")
    _require(first.shape == (shape[0] * shape[1] + 1,) and first.dtype.kind in "iu", f"{name}.first: has another size")
    ends = int(first[0]) == 0 and int(first[-1]) == after.size and bool((np.diff(first) >= 0).all())
    _require(ends and prob.shape == after.shape == (after.size,), f"{name}.first: must lead through all rows")
    _whole(after, f"{name}.after", shape[2])
    _require(prob.dtype == np.float64 and bool(np.isfinite(prob).all()), f"{name}.prob: must be finite")


def _check_plan(arrays: Arrays, name: str, env: Episodic, sizes: tuple[int, ...]) -> None:
    tables = [arrays[f"{name}.actions.{h}"] for h in range(env.horizon)]
    curve, budget, objective = (arrays[f"{name}.{part}"] for part in ("curve", "budget", "objective"))
    _require(curve.ndim == 1 and curve.size > 0 and curve.dtype == np.float64, f"{name}.curve: must be numbers")
    for h, table in enumerate(tables):
        fits = table.ndim == 2 and len(table) == len(tables[0]) and len(table) in sizes
        fits = fits and 0 < table.shape[1] <= curve.size
        _require(fits, f"{name}.actions.{h}: must be [groups, budgets], at most {curve.size} budgets")
        _whole(table, f"{name}.actions.{h}", env.n_actions)
    _require(budget.shape == objective.shape == (1,), f"{name}.budget: must be one number")
    _whole(budget, f"{name}.budget", curve.size)


def check_observed(arrays: Arrays, env: Simulator) -> None:
    """Raise unless these can be the arrays of a learner of observations in this simulator."""
    H, A = env.horizon, env.n_actions
    for name, size in (("episodes", 1), ("counters", 2), ("sizes", 4), ("usual", H), ("grid", 4), ("fitted", 2)):
        _require(arrays[name].shape == (size,) and arrays[name].dtype.kind in "iuf", f"{name}: must be {size} numbers")
    for name in ("episodes", "counters", "sizes"):
        _whole(arrays[name], name, 2**31)
    unit, top, zero = (float(x) for x in arrays["grid"][1:])
    _require(bool(np.isfinite(arrays["grid"]).all()) and unit > 0, "grid: must be finite, with a positive unit")
    _require(top == int(top) and zero == int(zero) and 0 <= zero <= top <= MOST_UNITS, "grid: must have few units")
    usual = arrays["usual"]
    _require(bool((usual >= 0).all() and (usual <= top).all()), f"usual: must lie in 0..{top:g}")
    parts = {name.removeprefix("decoder.array."): x for name, x in arrays.items() if name.startswith("decoder.array.")}
    K = checked_decoder(arrays["decoder.kind"].tobytes().decode(), parts, H).n_latents
    steps, latents, actions, units = (int(x) for x in arrays["sizes"])
    fits = steps in (1, H) and (latents, actions, units) == (K, A, int(top))
    _require(fits, f"sizes: must be those of {K} latents, {A} actions and {top:g} units")
    codes, counts = arrays["codes"], arrays["counts"]
    _require(codes.shape == counts.shape == (codes.size,), "codes: must be as long as counts")
    _whole(codes, "codes", steps * K * A * (K + 1) * (units + 1))
    _require(bool((np.diff(codes) > 0).all()) and codes.dtype == np.int64, "codes: must be in order")
    _require(counts.dtype == np.float64 and bool((counts > 0).all()), "counts: must be positive")
    for h in range(H):
        if f"support.{h}.mix" in arrays:
            mix, weights, sure = (arrays[f"support.{h}.{name}"] for name in ("mix", "weights", "sure"))
            fits = mix.shape == weights.shape[::-1] and mix.shape[1:] == sure.shape == (K,)
            same = mix.dtype == weights.dtype == sure.dtype == np.float64
            _require(fits and same, f"support.{h}: must fit {K} latents")
            _require(steps * K * A * (K + 1) <= MOST_MOVES, f"sizes: {K} latents are too many for a filter")


def _same(found: np.ndarray, fresh: np.ndarray, name: str) -> None:
    kinds = "iu" if fresh.dtype.kind in "iu" else fresh.dtype.kind
    if found.shape != fresh.shape or found.dtype.kind not in kinds:
        raise InputError(f"{name}: must be {fresh.dtype} of shape {fresh.shape}, found {found.dtype} of {found.shape}")


def _whole(array: np.ndarray, name: str, below: int) -> None:
    inside = not array.size or (int(array.min()) >= 0 and int(array.max()) < below)
    _require(array.dtype.kind in "iu" and inside, f"{name}: must be whole numbers in 0..{below - 1}")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InputError(message)
