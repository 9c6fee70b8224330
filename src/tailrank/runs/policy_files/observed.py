"""Policies on observations as named arrays and plain values, and back.

    decoder.*         the decoder's own arrays
    values, offsets   the tables [K, A, C_h] of all steps, one after the other; offsets [H + 1] says where each begins
    curve, base, moves

Tables are kept to the last bit unless they are larger than `LARGEST_EXACT`; then as float32. Whatever is read is
checked before it is used: every shape against the others, every number for being finite and in range.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.models.grid import BudgetGrid
from tailrank.policies.decoders.base import FEATURES, Decoder, n_features
from tailrank.policies.decoders.kinds import decoder_from
from tailrank.policies.observed import ObservationPolicy, ObservedPlan

LARGEST_EXACT = 50 * 2**20
"""Bytes of tables."""
ARRAYS = ("values", "offsets", "curve", "base", "moves")
SCALARS = ("budget", "objective", "support_error", "filtered", "decoder", "grid")
ROUNDING = 1e-6
"""How far probabilities may be from summing to one."""


def to_parts(policy: ObservationPolicy) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The policy's arrays, and its other values (the grid as it is)."""
    plan, kind = policy.plan, policy.decoder.kind
    _require(kind in FEATURES, f"decoder: of kind {kind!r:.40} cannot be saved; known are {', '.join(FEATURES)}")
    _require(bool(plan.values), "policy: has no plan")
    sizes = [table.size for table in plan.values]
    precision = np.float32 if sum(table.nbytes for table in plan.values) > LARGEST_EXACT else np.float64
    values = np.empty(sum(sizes), dtype=precision)
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    for table, begin, end in zip(plan.values, offsets[:-1], offsets[1:], strict=True):
        values[begin:end] = table.ravel()
    arrays = {"values": values, "offsets": offsets, "curve": plan.curve, "base": policy.base, "moves": policy.moves}
    arrays |= {f"decoder.{name}": array for name, array in policy.decoder.to_arrays().items()}
    scalars = {
        "budget": int(plan.budget),
        "objective": float(plan.objective),
        "support_error": float(plan.support_error),
        "filtered": bool(policy.filtered),
        "decoder": kind,
        "grid": policy.grid,
    }
    return arrays, scalars


def from_parts(arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> ObservationPolicy:
    """The policy that was stored; what does not fit together is refused."""
    parts = {name.removeprefix("decoder."): x for name, x in arrays.items() if name.startswith("decoder.")}
    plain = {name for name in arrays if not name.startswith("decoder.")}
    if plain != set(ARRAYS) or set(scalars) != set(SCALARS):
        raise InputError(f"must hold {sorted({*ARRAYS, *SCALARS})}; found {sorted({*plain, *scalars})!s:.200}")
    grid: BudgetGrid = scalars["grid"]
    H, moves, base = grid.horizon, _floats(arrays["moves"], "moves", 4), _floats(arrays["base"], "base", 2)
    T, K, A, _ = moves.shape
    _require(T in (1, H) and K > 0 and A > 0 and moves.shape[3] == K, f"moves: must have shape [{H} or 1, K, A, K]")
    _require(base.shape == (T, K), "base: must have shape [steps, K] like moves")
    _require(min(moves.min(), base.min()) >= 0, "base, moves: must not be negative")
    _require(bool((np.abs(moves.sum(axis=3) - 1) < ROUNDING).all()), "moves: must sum to 1")
    _require(abs(float(base[0].sum()) - 1) < ROUNDING and base.max() <= 1 + ROUNDING, "base: must be frequencies")
    plan = _plan(arrays, scalars, H, K, A)
    kind = scalars["decoder"]
    decoder = checked_decoder(kind, parts, H)
    _require(decoder.n_latents == K, f"decoder: has {decoder.n_latents} latents, the tables have {K}")
    _require(isinstance(scalars["filtered"], bool), f"filtered = {scalars['filtered']!r:.20}: must be true or false")
    policy = ObservationPolicy(decoder, plan, grid, base, moves, scalars["filtered"])
    _try(policy)
    return policy


def _plan(arrays: dict[str, np.ndarray], scalars: dict[str, Any], H: int, K: int, A: int) -> ObservedPlan:
    offsets, values, curve = arrays["offsets"], arrays["values"], _floats(arrays["curve"], "curve", 1)
    _require(offsets.shape == (H + 1,) and offsets.dtype == np.int64, f"offsets: must be {H + 1} whole numbers")
    _require(values.ndim == 1 and values.dtype in (np.float32, np.float64), "values: must be a flat array of floats")
    ends = [int(x) for x in offsets]
    _require(ends[0] == 0 and ends[-1] == values.size, f"offsets: must lead from 0 to {values.size}")
    sizes = [end - begin for begin, end in pairwise(ends)]
    _require(all(n > 0 and n % (K * A) == 0 for n in sizes), f"offsets: every table must have {K * A} rows")
    _require(bool(np.isfinite(values).all()), "values: must be finite")
    tables = tuple(values[a:b].reshape(K, A, -1) for a, b in pairwise(ends))
    budget, C = scalars["budget"], tables[0].shape[2]
    _require(type(budget) is int and 0 <= budget < C, f"budget = {budget!r:.20}: must be a whole number in 0..{C - 1}")
    _require(curve.size == C, f"curve: must have {C} entries, found {curve.size}")
    objective, error = (checks.number(scalars[name], name) for name in ("objective", "support_error"))
    return ObservedPlan(tables, budget, objective, curve, error)


def checked_decoder(kind: object, parts: dict[str, np.ndarray], H: int) -> Decoder:
    """The decoder of this kind with these arrays for H steps; what does not fit together is refused."""
    expected = {
        "mixture": {"project", "centres", "log_weights", "within"},
        "table": {"values", "used"},
        "neural": {"mean", "scale", "temperature", "image", "shared"},
    }
    _require(isinstance(kind, str) and kind in expected, f"decoder = {kind!r:.40}: must be {', '.join(expected)}")
    names = {name for name in parts if not (kind == "neural" and name.startswith("weights."))}
    if names != expected[str(kind)]:
        raise InputError(f"decoder: must hold {sorted(expected[str(kind)])}; found {sorted(names)!s:.200}")
    {"mixture": _check_mixture, "table": _check_table, "neural": _check_network}[str(kind)](parts, H)
    return decoder_from(str(kind), parts)


def _check_mixture(parts: dict[str, np.ndarray], H: int) -> None:
    project, centres = _floats(parts["project"], "project", 2), _floats(parts["centres"], "centres", 3)
    within, weights = _floats(parts["within"], "within", 2), parts["log_weights"]
    m, k = project.shape
    _require(m > 0 and within.shape == (m, m), "within: must have shape [m, m] like project [m, k]")
    _require(len(centres) in (1, H) and centres.shape[1] > 0 and centres.shape[2] == k, f"centres: must be [H, K, {k}]")
    _require(weights.shape == centres.shape[:2] and weights.dtype == np.float64, "log_weights: must be floats [H, K]")
    _require(bool((weights < np.inf).all()), "log_weights: must be numbers or -inf")
    _require(bool(np.isfinite(weights).any(axis=1).all()), "log_weights: a step has no latents")


def _check_table(parts: dict[str, np.ndarray], H: int) -> None:
    values, used = _floats(parts["values"], "values of the decoder", 2), parts["used"]
    _require(used.shape == (1,) and used.dtype.kind in "iu", "used: must be one whole number")
    _require(1 <= int(used[0]) <= len(values), f"used = {used[0]}: must lie in 1..{len(values)}")
    _require(values.shape[1] > 0, "values of the decoder: must have features")


def _check_network(parts: dict[str, np.ndarray], H: int) -> None:
    """Shapes follow the network from its features on: convolutions, hidden layers, head."""
    from tailrank.policies.decoders.network import CHANNELS, KERNEL, STRIDE

    mean, scale = _floats(parts["mean"], "mean", 2), _floats(parts["scale"], "scale", 1)
    size = mean.shape[1]
    _require(len(mean) in (1, H) and size > 0 and scale.shape == (size,), "mean, scale: must be [H or 1, m] and [m]")
    _require(bool((scale > 0).all()), "scale: must be positive")
    temperature, image, shared = parts["temperature"], parts["image"], parts["shared"]
    _require(float(_floats(temperature, "temperature", 0)) > 0, "temperature: must be positive")
    _require(shared.shape == () and shared.dtype == bool, "shared: must be true or false")
    _require(image.dtype == np.int64 and image.shape in ((0,), (3,)), "image: must be nothing or 3 whole numbers")
    weights = {name: x for name, x in parts.items() if name.startswith("weights.")}

    def take(name: str, *shape: int | None) -> np.ndarray:
        """The array with this shape (None: any size); every size but that of steps comes from the one before."""
        key = f"weights.{name}"
        _require(key in weights, f"{key}: is missing")
        array = _floats(weights.pop(key), key, len(shape))
        fits = all(n > 0 and wanted in (None, n) for n, wanted in zip(array.shape, shape, strict=True))
        _require(fits, f"{key}: has shape {array.shape}, expected {shape}".replace("None", "any"))
        return array

    if image.size:
        rows, columns, depth = (int(n) for n in image)
        _require(
            min(rows, columns) > 2 * KERNEL and rows * columns * depth == size, f"image: must make {size} features"
        )
        for i in range(len(CHANNELS)):
            depth = take(f"conv{i}", KERNEL**2 * depth, None).shape[1]
            take(f"conv{i}_bias", depth)
            rows, columns = ((n - KERNEL) // STRIDE + 1 for n in (rows, columns))
        size = rows * columns * depth
    for i in range(2):
        if f"weights.hidden{i}" in weights:
            size = take(f"hidden{i}", size, None).shape[1]
            _steps(take(f"bias{i}", None, size), H)
    K = _steps(take("head", None, size, None), H).shape[2]
    _steps(take("head_bias", None, K), H)
    _require(not weights, f"{sorted(weights)!s:.200}: is not part of a network")


def _steps(array: np.ndarray, H: int) -> np.ndarray:
    _require(len(array) in (1, H), f"weights: have {len(array)} steps, expected {H} or 1")
    return array


def _try(policy: ObservationPolicy) -> None:
    """Decode an observation at every step: numbers that are finite may still overflow together."""
    seen, K = np.zeros((1, n_features(policy.decoder) or 0)), policy.base.shape[1]
    with np.errstate(all="ignore"):
        for h in range(policy.horizon):
            odds = policy.decoder.log_odds(h, seen)
            met = policy.base[0 if len(policy.base) == 1 else h] > 0
            known = odds.shape == (1, K) and not np.isnan(odds).any() and odds.max() < np.inf
            _require(
                known and np.isfinite(odds[0][met if met.any() else slice(None)]).any(), f"decoder: fails at step {h}"
            )


def _floats(array: np.ndarray, name: str, axes: int) -> np.ndarray:
    if array.ndim != axes or array.dtype not in (np.float32, np.float64):
        raise InputError(f"{name}: must be floats with {axes} axes, found {array.dtype} with {array.ndim}")
    if not np.isfinite(array).all():
        raise InputError(f"{name}: must be finite")
    return array


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InputError(message)
