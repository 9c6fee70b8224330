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
from tailrank._system.arrays import arrays_below, check_arrays
from tailrank.checks import PROBABILITY_TOLERANCE, InputError
from tailrank.models.grid import BudgetGrid
from tailrank.policies.decoders.registry import DECODERS, decoder_from
from tailrank.policies.observed import ObservationPolicy, ObservedPlan
from tailrank.runs.policy_files.tables import check_scalars

LARGEST_EXACT = 50 * 2**20
"""Bytes of tables."""
ARRAYS = {
    "moves": "float [T=1|H, K, A, K] >= 0, sums to 1",
    "base": "float [T, K] >= 0",
    "values": "float [n]",
    "offsets": "int64 [H+1] offsets of n",
    "curve": "float [C]",
}


def to_parts(policy: ObservationPolicy) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The policy's arrays, and its other values (the grid as it is)."""
    plan, kind = policy.plan, policy.decoder.kind
    if kind not in DECODERS:
        raise InputError(f"decoder: of kind {kind!r:.40} cannot be saved; known are {', '.join(DECODERS)}")
    if not plan.values:
        raise InputError("policy: has no plan")
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
    check_scalars(scalars, "budget", "objective", "support_error", "filtered", "decoder", "grid")
    grid: BudgetGrid = scalars["grid"]
    size = check_arrays(
        {name: x for name, x in arrays.items() if not name.startswith("decoder.")}, ARRAYS, H=grid.horizon
    )
    base, K = arrays["base"], size["K"]
    if abs(float(base[0].sum()) - 1) > PROBABILITY_TOLERANCE or base.max() > 1 + PROBABILITY_TOLERANCE:
        raise InputError("base: must be frequencies, those of the first step with sum 1")
    plan = _plan(arrays, scalars, K * size["A"], size)
    decoder = decoder_from(scalars["decoder"], arrays_below(arrays, "decoder."), grid.horizon)
    if decoder.n_latents != K:
        raise InputError(f"decoder: has {decoder.n_latents} latents, the tables have {K}")
    if not isinstance(scalars["filtered"], bool):
        raise InputError(f"filtered = {scalars['filtered']!r:.20}: must be true or false")
    policy = ObservationPolicy(decoder, plan, grid, base, arrays["moves"], scalars["filtered"])
    _check_decoding(policy)
    return policy


def _plan(arrays: dict[str, np.ndarray], scalars: dict[str, Any], rows: int, size: dict[str, int]) -> ObservedPlan:
    """The plan whose tables [K, A, C_h] have this many rows K A."""
    cuts = arrays["offsets"].tolist()
    if not all(end > begin and (end - begin) % rows == 0 for begin, end in pairwise(cuts)):
        raise InputError(f"offsets: every table must have {rows} rows")
    tables = tuple(arrays["values"][a:b].reshape(size["K"], size["A"], -1) for a, b in pairwise(cuts))
    budget, C = scalars["budget"], tables[0].shape[2]
    if type(budget) is not int or not 0 <= budget < C:
        raise InputError(f"budget = {budget!r:.20}: must be a whole number in 0..{C - 1}")
    if size["C"] != C:
        raise InputError(f"curve: must have {C} entries, found {size['C']}")
    objective, error = (checks.number(scalars[name], name) for name in ("objective", "support_error"))
    return ObservedPlan(tables, budget, objective, arrays["curve"], error)


def _check_decoding(policy: ObservationPolicy) -> None:
    """Decode an observation at every step: numbers that are finite may still overflow together."""
    zeros, K = np.zeros((1, policy.n_features)), policy.base.shape[1]
    with np.errstate(all="ignore"):
        for h in range(policy.horizon):
            odds = policy.decoder.log_odds(h, zeros)
            met = policy.base[0 if len(policy.base) == 1 else h] > 0
            finite = odds.shape == (1, K) and not np.isnan(odds).any() and odds.max() < np.inf
            if not finite or not np.isfinite(odds[0][met if met.any() else slice(None)]).any():
                raise InputError(f"decoder: fails at step {h}")
