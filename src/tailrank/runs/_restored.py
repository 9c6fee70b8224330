"""What a checkpoint holds, checked before it is used: compiled code does not check its indices.

The checksum of a checkpoint tells damage, not malice: whoever writes a file can write its checksum too. So sizes, types
and ranges are compared with a fresh state of the same run, and what does not fit is an `InputError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tailrank._system.arrays import Arrays, arrays_below, check_arrays
from tailrank.checks import InputError
from tailrank.envs import Episodic
from tailrank.envs.protocols import Simulator
from tailrank.learning.lowrank.kept import check_fit_arrays
from tailrank.models.counts import SparseCounts, TransitionCounts
from tailrank.planning.latent.planner import LatentPlan
from tailrank.policies.decoders.registry import decoder_from

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
    except KeyError as error:
        why = f"it lacks {error}, as if another version of tailrank had written it"
        raise InputError(f"checkpoint: does not fit this run ({why}); start the run again in another folder") from None
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, MemoryError) as error:
        raise InputError(f"checkpoint: does not fit this run ({type(error).__name__}: {error})") from None


def check_finite(arrays: Arrays, fresh: Any, env: Episodic, decoder: bool) -> None:
    """Raise unless these can be the arrays of a learner on a finite environment, whose fresh state is given."""
    for name, array in fresh.to_arrays().items():
        if not name.startswith(SPARSE):
            _check_one(arrays, name, _describe_like(array, name))
        if name.startswith("gram."):
            np.linalg.cholesky(arrays[name])  # raises where it is no covariance
    seen = getattr(fresh, "seen", None)
    if isinstance(seen, TransitionCounts):
        for h, counts in enumerate(seen.counts):
            S, A, N = counts.shape
            if isinstance(counts, SparseCounts):
                described = {"pair": f"whole [n*] >= 0, < {S * A}", "after": f"whole [n*] >= 0, < {N}"}
                described |= {"count": "float64 [n*] > 0"}
                check_arrays({name: arrays[f"{name}.{h}"] for name in described}, described, f"step {h}, ")
                _check_order(arrays[f"pair.{h}"] * N + arrays[f"after.{h}"], f"pair.{h}")
            if any(name.startswith(f"model.{h}.") for name in arrays):
                _check_step(arrays_below(arrays, f"model.{h}."), f"model.{h}.", counts.shape)
    for name in {name.rpartition(".actions.")[0] for name in arrays if ".actions." in name}:
        _check_plan(arrays, name, env, (env.n_groups if decoder else env.n_states,))


def plan_in(arrays: dict[str, np.ndarray], name: str, env: Episodic) -> LatentPlan:
    """The plan with this name in a checkpoint, on the groups or the states of the environment."""
    with restoring():
        _check_plan(arrays, name, env, (env.n_groups, env.n_states))
        return LatentPlan.from_arrays(arrays, name)


def _check_step(arrays: Arrays, where: str, shape: tuple[int, int, int]) -> None:
    S, A, N = shape
    if "phi" in arrays:
        check_arrays(arrays, {"phi": "float64 [S, A, d]", "psi": "float64 [d, N]"}, where, S=S, A=A, N=N)
        return
    described = {
        "after": "whole [n*] >= 0, < N",
        "prob": "float64 [n*]",
        "first": "whole [S*A+1] offsets of n",
        "shape": "whole [3]",
    }
    check_arrays(arrays, described, where, S=S, A=A, N=N)
    if arrays["shape"].tolist() != list(shape):
        raise InputError(f"{where}shape: must be {list(shape)}, found {arrays['shape'].tolist()}")


def _check_plan(arrays: Arrays, name: str, env: Episodic, sizes: tuple[int, ...]) -> None:
    """The plan has tables [states or groups, C_h] with at most as many budgets as its curve."""
    where, A = f"{name}.", env.n_actions
    described = {"curve": "float64 [C] any", "budget": "whole [1] >= 0, < C", "objective": "number [1] any"}
    if where + "below" in arrays:
        described["below"] = "whole [1] >= 0, < C"
    steps = [f"actions.{h}" for h in range(env.horizon)]
    described |= {step: f"whole [S={'|'.join(map(str, sizes))}, *] >= 0, < {A}" for step in steps}
    size = check_arrays({part: arrays[where + part] for part in described}, described, where)
    for step in steps:
        if not 0 < arrays[where + step].shape[1] <= size["C"]:
            raise InputError(f"{where}{step}: must have budgets, at most {size['C']}")


def check_observed(arrays: Arrays, env: Simulator) -> None:
    """Raise unless these can be the arrays of a learner of observations in this simulator."""
    H, A = env.horizon, env.n_actions
    _check_one(arrays, "grid", "number [4]")
    _, unit, top, zero = (float(x) for x in arrays["grid"])
    if not (unit > 0 and top == int(top) and zero == int(zero) and 0 <= zero <= top <= MOST_UNITS):
        raise InputError(f"grid: must have a positive unit and at most {MOST_UNITS} units")
    K = decoder_from(arrays["decoder.kind"].tobytes().decode(), arrays_below(arrays, "decoder.array."), H).n_latents
    _check_one(arrays, "sizes", "whole [4] >= 0")
    steps, latents, actions, units = (int(x) for x in arrays["sizes"])
    if steps not in (1, H) or (latents, actions, units) != (K, A, int(top)):
        raise InputError(f"sizes: must be those of {K} latents, {A} actions and {top:g} units")
    described = {
        "episodes": "whole [1] >= 0, < 2147483648",
        "counters": "whole [2] >= 0, < 2147483648",
        "usual": f"number [{H}] >= 0, <= {units}",
        "fitted": "number [2] any",
        "codes": f"int64 [n*] >= 0, < {steps * K * A * (K + 1) * (units + 1)}, increasing",
        "counts": "float64 [n*] > 0",
    }
    check_arrays({name: arrays[name] for name in described}, described)
    for h in range(H):
        if f"support.{h}.mix" in arrays:
            described = {"mix": "float64 [n*, K] any", "weights": "float64 [K, n*] any", "sure": "float64 [K] any"}
            check_arrays(arrays_below(arrays, f"support.{h}."), described, f"support.{h}.", K=K)
            if steps * K * A * (K + 1) > MOST_MOVES:
                raise InputError(f"sizes: {K} latents are too many for a filter")


def check_lowrank(arrays: Arrays, env: Simulator) -> None:
    """Raise unless these can be the arrays of a learner that may have a low-rank model (see `LowRankState`)."""
    check_observed(arrays, env)
    mine = arrays_below(arrays, "lowrank.")
    _check_one(mine, "counters", "whole [3] >= 0, < 2147483648")
    if not mine["counters"][2]:
        return
    check_fit_arrays(mine, env.horizon, env.n_actions, env.n_features, "lowrank.")


def _describe_like(fresh: np.ndarray, name: str) -> str:
    """What an array of a checkpoint must be to take the place of this one."""
    kind = {"i": "whole", "u": "whole", "f": "float"}.get(fresh.dtype.kind, str(fresh.dtype))
    rules = (
        "any"
        if name.startswith(("tracked", "menu.scores"))
        else ">= 0"
        if name.startswith(("visits.", "counts.", "counters"))
        else ""
    )
    return f"{kind} [{', '.join(map(str, fresh.shape))}] {rules}".rstrip()


def _check_one(arrays: Arrays, name: str, description: str) -> None:
    check_arrays({name: arrays[name]}, {name: description})


def _check_order(keys: np.ndarray, name: str) -> None:
    if not (np.diff(keys) > 0).all():
        raise InputError(f"{name}: must be in order")
