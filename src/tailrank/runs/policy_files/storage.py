"""Policies as files: one safetensors file with the arrays, and a JSON header with everything else.

Loading executes nothing. The header carries a schema version, and every array is checked against the
others before use, because compiled code does not check its indices.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from tailrank import checks
from tailrank._system.atomic import write_bytes
from tailrank._system.reading import MOST_NOTES, parse_json, read_arrays
from tailrank.checks import InputError, did_you_mean
from tailrank.models.grid import BudgetGrid, Rounding
from tailrank.planning.plan import Plan
from tailrank.policies.observed import ObservationPolicy
from tailrank.policies.predictor import Predictor, PredictorState
from tailrank.policies.tables import BudgetPolicy, LevelPolicy, MarkovPolicy, Policy, check_budget_policy, whole_numbers
from tailrank.runs.policy_files import features as features
from tailrank.runs.policy_files.observed import from_parts, to_parts

SCHEMA = 1
KINDS = {
    "budget": BudgetPolicy,
    "markov": MarkovPolicy,
    "level": LevelPolicy,
    "observation": ObservationPolicy,
    **features.KINDS,
}
SMALL = (np.uint8, np.uint16, np.uint32)
"""Types that actions and levels are kept in where they fit."""
NUMBER = re.compile(r"-?\d{1,1000}(/\d{1,1000})?")
"""Fractions in a header. Exponents are refused: 1e999999999 would fill the memory."""


@dataclass(frozen=True)
class Stored:
    """What a file holds: a policy, and what was said about it (numbers, names of states and actions)."""

    policy: Policy
    info: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def predictor(self) -> Predictor:
        """The policy in the shape of Stable-Baselines3, with the encoder and the actions that are kept beside it."""
        from tailrank.envs.gymnasium.actions import Actions
        from tailrank.envs.gymnasium.spaces import Encoder

        encoder, actions = self.info.get("encoder"), self.info.get("actions")
        if encoder is None:
            return Predictor(self.policy)
        known = Actions.from_json(actions) if isinstance(actions, dict) else None
        found = Encoder.from_json(encoder)
        if isinstance(self.policy, ObservationPolicy):
            m, A = self.policy.n_features, self.policy.moves.shape[2]
            _require(found.n_features == m, f"encoder: makes {found.n_features} features, the policy looks at {m}")
            _require(known is None or known.n == A, f"actions: are {known and known.n}, the policy has {A}")
        return Predictor(self.policy, found, actions=known)

    def predict(
        self,
        observation: Any,
        state: PredictorState | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Any, PredictorState | None]:
        """The action for one observation, or for a batch, and the next state: see `Predictor.predict`."""
        return self.predictor.predict(observation, state, episode_start, deterministic)

    def reward(self, state: PredictorState, rewards: Any) -> PredictorState:
        """The state after the rewards of the last actions: see `Predictor.reward`."""
        return self.predictor.reward(state, rewards)


def save(item: Plan | Policy, path: str | Path, *, info: dict[str, Any] | None = None, inside: bool = False) -> None:
    """Write a plan or a policy to `path`, all or nothing. `info` is kept beside it (must be JSON).

    inside: the file must stay in its folder, so a link at `path` is replaced, not followed.
    """
    from safetensors.numpy import save as to_bytes

    about: dict[str, Any] = dict(info or {})
    policy = item
    if isinstance(item, Plan):
        about |= {"plan": item.as_dict(), "criterion": item.criterion, "status": item.status}
        policy = item.policy
    kind = next((name for name, known in KINDS.items() if type(policy) is known), None)
    if kind is None:
        raise InputError(f"policy: a {type(policy).__name__} cannot be saved; known are {', '.join(KINDS)}")
    take = {"observation": to_parts} | dict.fromkeys(features.KINDS, features.to_parts)
    arrays, scalars = take.get(kind, _parts)(policy)
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    scalars = {name: _grid_out(value) if isinstance(value, BudgetGrid) else value for name, value in scalars.items()}
    header = {"format": "tailrank-policy", "schema": SCHEMA, "kind": kind, "scalars": scalars, "info": about}
    write_bytes(Path(path), to_bytes(arrays, metadata={"tailrank": json.dumps(header)}), inside=inside)


def _parts(policy: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and other values of a policy whose fields are nothing else."""
    fields = {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy)}
    arrays = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
    others = {name: value for name, value in fields.items() if name not in arrays}
    return arrays, {name: value if isinstance(value, BudgetGrid) else int(value) for name, value in others.items()}


def load(path: str | Path) -> Stored:
    """Read a policy file back."""
    where = Path(path)
    if not where.is_file():
        raise InputError(f"{where}: no such file")
    try:
        arrays, notes = read_arrays(where)
    except InputError as error:
        raise InputError(f"{where}: is not a policy file ({str(error).removeprefix(f'{where}: ')})") from None
    try:
        return _build(notes.get("tailrank"), arrays)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        reason = f"{error}" if isinstance(error, InputError) else f"damaged header ({type(error).__name__})"
        raise InputError(f"{where}: {reason}") from None


def _build(text: str | None, arrays: dict[str, np.ndarray]) -> Stored:
    if text and len(text) > MOST_NOTES:
        raise InputError(f"has a header of {len(text)} characters, at most {MOST_NOTES} are read")
    try:
        header = parse_json(text) if text else {}
    except InputError as error:
        raise InputError(f"damaged header ({error})") from None
    if not isinstance(header, dict) or header.get("format") != "tailrank-policy":
        raise InputError("is a safetensors file, but not one of a tailrank policy")
    if header["schema"] != SCHEMA:
        raise InputError(f"has schema {header['schema']!r:.20}, this version reads schema {SCHEMA}")
    if header["kind"] not in KINDS:
        raise InputError(f"holds a policy of kind {header['kind']!r}{did_you_mean(str(header['kind']), KINDS)}")
    if not isinstance(header["info"], dict):
        raise InputError("info: must be an object")
    if header["kind"] == "observation" or header["kind"] in features.KINDS:
        scalars = {k: _grid_in(v) if k == "grid" else v for k, v in header["scalars"].items()}
        if header["kind"] != "observation":
            return Stored(features.from_parts(header["kind"], arrays, scalars), header["info"])
        return Stored(from_parts(arrays, scalars), header["info"])
    kind: Any = KINDS[header["kind"]]
    scalars = {k: _grid_in(v) if k == "grid" else int(v) for k, v in header["scalars"].items()}
    names = {f.name for f in dataclasses.fields(kind)}
    if set(scalars) | set(arrays) != names:
        raise InputError(f"must hold {', '.join(sorted(names))}; found {sorted({*scalars, *arrays})!s:.200}")
    policy: Any = kind(**scalars, **_numbered(arrays))
    _check(policy)
    return Stored(policy, header["info"])


def _grid_out(grid: BudgetGrid) -> dict[str, Any]:
    return {
        "unit": str(grid.unit),
        "origin": [str(x) for x in grid.origin],
        "rounding": grid.rounding,
        "discount": grid.discount,
    }


def _grid_in(data: dict[str, Any]) -> BudgetGrid:
    if data["rounding"] not in get_args(Rounding):
        raise InputError(f"rounding = {data['rounding']!r}: must be exact, up, nearest or down")
    unit, origin = _fraction(data["unit"]), tuple(_fraction(x) for x in data["origin"])
    if not float(unit) > 0:
        raise InputError(f"unit = {float(unit)}: must be positive")
    if not origin:
        raise InputError("origin: must have one entry for each step")
    return BudgetGrid(unit, origin, data["rounding"], checks.discount_factor(data["discount"]))


def _fraction(text: object) -> Fraction:
    if not isinstance(text, str) or not NUMBER.fullmatch(text):
        raise InputError(f"grid: {text!r:.40} is not a fraction")
    value = Fraction(text)
    float(value)  # too large for a float is too large for a grid
    return value


def _numbered(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a policy on states in the types that it has when it is made."""
    result = {}
    for name, array in arrays.items():
        if name in ("levels", "reward"):
            _require(array.dtype.kind == "f", f"{name}: has type {array.dtype}, expected floats")
            _require(bool(np.isfinite(array).all()), f"{name}: must be finite")
            result[name] = array.astype(np.float64, copy=False)
        else:
            wide = whole_numbers(array, name)
            negative = int(wide.min(initial=0)) if name != "first" else 0
            _require(negative >= 0, f"{name}: holds {negative}, must not be negative")
            result[name] = array if array.dtype in SMALL else wide
    return result


def _check(policy: Any) -> None:
    """Arrays must fit each other."""
    if isinstance(policy, MarkovPolicy):
        _require(policy.actions.ndim == 2 and policy.actions.size > 0, "actions: must have shape [H, S]")
    elif isinstance(policy, BudgetPolicy):
        check_budget_policy(policy)
    elif isinstance(policy, LevelPolicy):
        K, A = policy.levels.size, policy.n_actions
        _require(policy.actions.ndim == 3 and policy.actions.size > 0, "actions: must have shape [H, S, K]")
        H, S = policy.actions.shape[:2]
        _require(policy.levels.ndim == 1 and policy.actions.shape[2] == K, "actions: must have shape [H, S, K]")
        _require(policy.next_level.ndim == 2 and policy.next_level.shape[1] == K, "next_level: must have K columns")
        _require(policy.start_level.shape == (S,), "start_level: must have shape [S]")
        most = max(int(policy.start_level.max()), int(policy.next_level.max(initial=0)))
        _require(most < K, "levels: an index is too large")
        _require(A > 0 and int(policy.actions.max()) < A, f"actions: must lie in 0..{A - 1}")
        ptr, rows = policy.ptr, policy.next_state.size
        _require(ptr.shape in ((S * A + 1,), (H * S * A + 1,)), "ptr: must have an entry for each state and action")
        _require(int(ptr[0]) == 0 and bool((np.diff(ptr) >= 0).all()), "ptr: must not decrease")
        _require(policy.next_state.shape == policy.reward.shape == (rows,) == (ptr[-1],), "ptr: must end at the rows")
        outcomes = rows if ptr.size - 1 > S * A else H * rows
        _require(len(policy.next_level) == outcomes, f"next_level: must have {outcomes} rows, one for each outcome")
        _require(int(policy.next_state.max(initial=0)) < S, f"next_state: must lie in 0..{S - 1}")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InputError(message)
