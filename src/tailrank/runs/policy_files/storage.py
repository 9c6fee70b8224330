"""Policies as files: one safetensors file with the arrays, and a JSON header with everything else.

Loading executes nothing. The header carries a schema version, and every array is checked against the
others before use, because compiled code does not check its indices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from tailrank import checks
from tailrank._system.arrays import arrays_below, check_arrays
from tailrank._system.atomic import write_bytes
from tailrank._system.reading import MOST_NOTES, parse_json, read_arrays
from tailrank.checks import InputError, did_you_mean
from tailrank.envs.gymnasium.spaces import MOST_FEATURES
from tailrank.learning.lowrank.class_planning import ClassPolicy
from tailrank.models.grid import BudgetGrid, Rounding
from tailrank.policies.actor import ActorPolicy
from tailrank.policies.cells import CellPolicy
from tailrank.policies.distributional import DistributionalPolicy
from tailrank.policies.images import ImageEncoder, ImagePolicy, described, layout_of
from tailrank.policies.kernel import KernelPolicy
from tailrank.policies.lowrank import CautiousPolicy, LowRankPolicy
from tailrank.policies.observed import ObservationPolicy
from tailrank.policies.optimistic import OptimisticPolicy
from tailrank.policies.predictor import Predictor
from tailrank.policies.recall import Recall, RecallPolicy
from tailrank.policies.result import Result, number
from tailrank.policies.shortfall import ShortfallPolicy
from tailrank.policies.softmax import SoftmaxPolicy
from tailrank.policies.subset import SubsetPolicy
from tailrank.policies.tables import BudgetPolicy, ClonedPolicy, LevelPolicy, MarkovPolicy, MixedPolicy, Policy
from tailrank.runs.policy_files import budgeted, features, lowrank, observed, tables

SCHEMA = 1


@dataclass(frozen=True)
class PolicyKind:
    """A class of policies and its way into a file and back: arrays, and plain values (a grid as it is)."""

    policy: type
    to_parts: Callable[[Any], tuple[dict[str, np.ndarray], dict[str, Any]]]
    from_parts: Callable[[dict[str, np.ndarray], dict[str, Any]], Any]


def recall_parts(policy: RecallPolicy) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and values of the inner policy, and what is recalled."""
    kind = kind_of(policy.inner)
    arrays, scalars = KINDS[kind].to_parts(policy.inner)
    own = {"kind": kind, "observations": policy.recall.observations, "action": policy.recall.action}
    own |= {"n_features": policy.n_features, "n_actions": policy.n_actions, "inner": scalars}
    return {f"inner.{name}": array for name, array in arrays.items()}, own


def recall_policy(arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> RecallPolicy:
    """The policy that recalls."""
    tables.check_scalars(scalars, "kind", "observations", "action", "n_features", "n_actions", "inner")
    if scalars["kind"] not in RECALLED:
        raise InputError(f"kind = {scalars['kind']!r:.40}: must be one of {', '.join(RECALLED)}")
    if not isinstance(scalars["action"], bool):
        raise InputError(f"action = {scalars['action']!r:.40}: must be true or false")
    m, A = (checks.whole(scalars[name], name) for name in ("n_features", "n_actions"))
    recall = Recall(checks.whole(scalars["observations"], "observations", least=0), scalars["action"])
    inner = KINDS[scalars["kind"]].from_parts(arrays_below(arrays, "inner."), scalars["inner"])
    if inner.n_features != recall.width(m, A) or A > tables.MOST_ACTIONS:
        raise InputError(f"inner: sees {inner.n_features} numbers, must see {recall.width(m, A)}")
    return RecallPolicy(inner, recall, m, A)


def subset_parts(policy: SubsetPolicy) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and values of the inner policy, and which actions it plays."""
    kind = kind_of(policy.inner)
    arrays, scalars = KINDS[kind].to_parts(policy.inner)
    return {f"inner.{name}": x for name, x in arrays.items()} | {"actions": policy.actions}, {
        "kind": kind,
        "inner": scalars,
    }


def subset_policy(arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> SubsetPolicy:
    """The policy on some of the actions."""
    tables.check_scalars(scalars, "kind", "inner")
    if scalars["kind"] not in (*RECALLED, "recall"):
        raise InputError(f"kind = {scalars['kind']!r:.40}: must be one of {', '.join(RECALLED)}, recall")
    inner = KINDS[scalars["kind"]].from_parts(arrays_below(arrays, "inner."), scalars["inner"])
    outer = {name: x for name, x in arrays.items() if not name.startswith("inner.")}
    check_arrays(outer, {"actions": f"whole [A] increasing, >= 0, < {tables.MOST_ACTIONS}"})
    if outer["actions"].size != inner.n_actions:
        raise InputError(f"actions: are {outer['actions'].size}, the inner policy plays {inner.n_actions}")
    return SubsetPolicy(inner, outer["actions"])


def image_parts(policy: ImagePolicy) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and values of the inner policy, the weights of the encoder, and where the images are."""
    kind, layout = kind_of(policy.inner), policy.encoder.layout
    arrays, scalars = KINDS[kind].to_parts(policy.inner)
    arrays = {f"inner.{name}": x for name, x in arrays.items()}
    own = {"n_features": layout.n_features, "images": [[one.first, *one.shape] for one in layout.images]}
    weights = {f"encoder.{name}": x for name, x in policy.encoder.weights.items()}
    return arrays | weights, own | {"kind": kind, "inner": scalars}


def image_policy(arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> ImagePolicy:
    """The policy that sees images."""
    tables.check_scalars(scalars, "kind", "inner", "n_features", "images")
    if scalars["kind"] not in (*RECALLED, "recall", "subset"):
        raise InputError(f"kind = {scalars['kind']!r:.40}: must be one of {', '.join(RECALLED)}, recall, subset")
    m = checks.whole(scalars["n_features"], "n_features")
    if m > MOST_FEATURES:
        raise InputError(f"n_features = {m}: must be at most {MOST_FEATURES}")
    found = [[checks.whole(x, "images", least=0) for x in one] for one in scalars["images"]]
    layout = layout_of(m, [(one[0], tuple(one[1:])) for one in found])
    weights = arrays_below(arrays, "encoder.")
    check_arrays(weights, described(layout), "encoder.")
    check_arrays({name: x for name, x in arrays.items() if not name.startswith(("encoder.", "inner."))}, {})
    inner = KINDS[scalars["kind"]].from_parts(arrays_below(arrays, "inner."), scalars["inner"])
    encoder = ImageEncoder(layout, weights)
    if inner.n_features != encoder.n_seen:
        raise InputError(f"inner: sees {inner.n_features} numbers, must see {encoder.n_seen}")
    return ImagePolicy(inner, encoder)


RECALLED = ("kernel", "shortfall", "softmax", "actor")
"""Kinds of policies that may be given a past."""
KINDS = {
    "budget": PolicyKind(BudgetPolicy, tables.to_parts, tables.budget_policy),
    "mixed": PolicyKind(MixedPolicy, tables.mixed_parts, tables.mixed_policy),
    "markov": PolicyKind(MarkovPolicy, tables.to_parts, tables.markov_policy),
    "cloned": PolicyKind(ClonedPolicy, tables.cloned_parts, tables.cloned_policy),
    "level": PolicyKind(LevelPolicy, tables.to_parts, tables.level_policy),
    "observation": PolicyKind(ObservationPolicy, observed.to_parts, observed.from_parts),
    "lowrank": PolicyKind(LowRankPolicy, lowrank.to_parts, lowrank.from_parts),
    "lowrank-lsvi": PolicyKind(OptimisticPolicy, lowrank.optimistic_parts, lowrank.optimistic_policy),
    "class": PolicyKind(ClassPolicy, lowrank.class_parts, lowrank.class_plan),
    "cautious": PolicyKind(CautiousPolicy, lowrank.cautious_parts, lowrank.cautious_policy),
    "softmax": PolicyKind(SoftmaxPolicy, features.softmax_parts, features.softmax_policy),
    "cells": PolicyKind(CellPolicy, features.cell_parts, features.cell_policy),
    "distributional": PolicyKind(DistributionalPolicy, features.distributional_parts, features.distributional_policy),
    "kernel": PolicyKind(KernelPolicy, budgeted.kernel_parts, budgeted.kernel_policy),
    "shortfall": PolicyKind(ShortfallPolicy, budgeted.shortfall_parts, budgeted.shortfall_policy),
    "actor": PolicyKind(ActorPolicy, budgeted.actor_parts, budgeted.actor_policy),
    "recall": PolicyKind(RecallPolicy, recall_parts, recall_policy),
    "subset": PolicyKind(SubsetPolicy, subset_parts, subset_policy),
    "images": PolicyKind(ImagePolicy, image_parts, image_policy),
}
NUMBER = re.compile(r"-?\d{1,1000}(/\d{1,1000})?")
"""Fractions in a header. Exponents are refused: 1e999999999 would fill the memory."""


@dataclass(frozen=True, repr=False)
class Stored(Result):
    """What a file holds: a policy, and what was said about it (numbers, names of states and actions)."""

    policy: Policy
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def tau(self) -> float | None:
        """The tail fraction that the policy was made for, None where the file does not say."""
        plan = self.info.get("plan")
        level = self.info.get("tau", plan.get("tau") if isinstance(plan, dict) else None)
        return None if level is None else checks.tail_level(level)

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        made = self.info.get("source", self.info.get("environment"))
        return f"Policy from a file ({type(self.policy).__name__})" + (f", made for {made!s:.80}" if made else "")

    @property
    def facts(self) -> dict[str, str]:
        """What the file says in numbers and words."""
        plan = self.info.get("plan")
        said = self.info | (plan if isinstance(plan, dict) else {})
        plain = {name: value for name, value in said.items() if isinstance(value, str | int | float)}
        return {str(name)[:40]: number(x) if isinstance(x, float) else str(x)[:200] for name, x in plain.items()}

    @property
    def labels(self) -> tuple[Sequence[object], Sequence[object]]:
        """Names of the states and of the actions."""
        states, actions = (self.info.get(name) for name in ("states", "actions"))
        return (states if isinstance(states, list) else (), actions if isinstance(actions, list) else ())

    def about(self) -> dict[str, Any]:
        """What the file said."""
        return self.info

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
        if isinstance(self.policy, ObservationPolicy | LowRankPolicy):
            m, A = self.policy.n_features, self.policy.n_actions
            if found.n_features != m:
                raise InputError(f"encoder: makes {found.n_features} features, the policy looks at {m}")
            if known is not None and known.n != A:
                raise InputError(f"actions: are {known.n}, the policy has {A}")
        return Predictor(self.policy, found, actions=known)


def kind_of(policy: Any) -> str:
    """The name of its kind; raises where it cannot be saved."""
    kind = next((name for name, row in KINDS.items() if type(policy) is row.policy), None)
    if kind is None:
        raise InputError(f"policy: a {type(policy).__name__} cannot be saved; known are {', '.join(KINDS)}")
    return kind


def save(item: Result | Policy, path: str | Path, *, info: dict[str, Any] | None = None, inside: bool = False) -> None:
    """Write a policy, or what `solve`, `learn` or `load` returned, to `path`, all or nothing.

    info: what else is kept beside it (must be JSON).
    inside: the file must stay in its folder, so a link at `path` is replaced, not followed.
    """
    from safetensors.numpy import save as to_bytes

    about: dict[str, Any] = (item.about() if isinstance(item, Result) else {}) | dict(info or {})
    policy = item.policy if isinstance(item, Result) else item
    kind = kind_of(policy)
    arrays, scalars = KINDS[kind].to_parts(policy)
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    scalars = {name: _grid_out(value) if isinstance(value, BudgetGrid) else value for name, value in scalars.items()}
    header = {"format": "tailrank-policy", "schema": SCHEMA, "kind": kind, "scalars": scalars, "info": about}
    write_bytes(Path(path), to_bytes(arrays, metadata={"tailrank": json.dumps(header)}), inside=inside)


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
    scalars = {k: _grid_in(v) if k == "grid" else v for k, v in header["scalars"].items()}
    return Stored(KINDS[header["kind"]].from_parts(arrays, scalars), header["info"])


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
