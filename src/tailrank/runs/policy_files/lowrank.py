"""Policies of low-rank models as named arrays and plain values, and back.

    network.*         phi
    tables, offsets   the tables [J, C_h] of all steps, one after the other; offsets [H + 1] says where each begins
    first [H], curve  see `SupportPlan`

Only the plan without bonus is kept. Policies of CVaR-LSVI have beside them:

    inverse [H, J, J], beta      see `OptimisticPolicy`

plans that fear what was seldom seen (`CautiousPolicy`):

    penalty.sigma, penalty.lam, alpha, watchful, cap      see `Exploration`

and those of a class of functions `chosen` [H - 1] in place of phi: which members they are for.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tailrank import checks
from tailrank._system.arrays import arrays_below, check_arrays
from tailrank.checks import InputError
from tailrank.learning.lowrank.class_planning import ClassPolicy, UnboundPlan
from tailrank.policies.lowrank import CautiousPolicy, LowRankPolicy, Penalty, SupportPlan
from tailrank.policies.optimistic import OptimisticPolicy
from tailrank.policies.outcomes import ARRAYS as NETWORK
from tailrank.policies.outcomes import OutcomeNetwork
from tailrank.runs.policy_files.tables import check_scalars

PLAN = {"tables": "float64 [n]", "first": "int64 [H]", "offsets": "int64 [H+1] offsets of n", "curve": "float64 [C]"}
PENALTY = {"sigma": "float64 [T, K, K]", "lam": "float64 [T, A, 1+k, 1+k]"}
WEIGHTS = ("alpha", "watchful", "cap")
SCALARS = ("spacing", "budget", "objective", "grid_error", "support_error")


def to_parts(policy: LowRankPolicy) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The policy's arrays, and its other values."""
    if policy.exploration is not None:
        raise InputError("policy: a policy that explores cannot be saved; the plan without bonus can")
    if policy.laws is not None:
        raise InputError("policy: known laws of rewards are functions, which are never stored; learn them to save it")
    arrays, scalars = _plan_parts(policy.plan)
    arrays |= {f"network.{name}": x for name, x in policy.model.to_arrays().items()}
    return arrays, scalars


def from_parts(arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> LowRankPolicy:
    """The policy that was stored; what does not fit together is refused."""
    check_scalars(scalars, *SCALARS)
    size = check_arrays({name: x for name, x in arrays.items() if not name.startswith("network.")}, PLAN)
    net = arrays_below(arrays, "network.")
    size |= check_arrays(net, NETWORK, "network.", H=size["H"])
    plan = _plan(arrays, scalars, size["K"] * size["L"], size["C"])
    return LowRankPolicy(OutcomeNetwork.from_arrays(net), plan)


def optimistic_parts(policy: OptimisticPolicy) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The same for a policy of CVaR-LSVI."""
    arrays, scalars = to_parts(policy)
    return arrays | {"inverse": policy.inverse}, scalars | {"beta": float(policy.beta)}


def optimistic_policy(arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> OptimisticPolicy:
    """The policy of CVaR-LSVI that was stored; what does not fit together is refused."""
    check_scalars(scalars, *SCALARS, "beta")
    own = {"inverse": arrays["inverse"]} if "inverse" in arrays else {}
    plain = from_parts(
        {name: x for name, x in arrays.items() if name != "inverse"},
        {name: x for name, x in scalars.items() if name != "beta"},
    )
    J = plain.plan.tables[0].shape[0]
    check_arrays(own, {"inverse": "float64 [H, J, J]"}, H=plain.horizon, J=J)
    beta = checks.not_negative(scalars["beta"], "beta")
    return OptimisticPolicy(plain.model, plain.plan, inverse=arrays["inverse"], beta=beta)


def cautious_parts(policy: CautiousPolicy) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The same for a plan with a penalty."""
    arrays, scalars = to_parts(LowRankPolicy(policy.model, policy.plan))
    arrays |= {f"penalty.{name}": np.ascontiguousarray(getattr(policy.exploration, name)) for name in PENALTY}
    return arrays, scalars | {name: float(getattr(policy.exploration, name)) for name in WEIGHTS}


def cautious_policy(arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> CautiousPolicy:
    """The plan with a penalty that was stored; what does not fit together is refused."""
    check_scalars(scalars, *SCALARS, *WEIGHTS)
    plain = from_parts(
        {name: x for name, x in arrays.items() if not name.startswith("penalty.")},
        {name: scalars[name] for name in SCALARS},
    )
    net, own = plain.model, arrays_below(arrays, "penalty.")
    T, A, _, K = net.heads.shape
    check_arrays(own, PENALTY, "penalty.", T=T, A=A, K=K, k=net.project.shape[1])
    weights = {name: checks.not_negative(scalars[name], name) for name in WEIGHTS}
    return CautiousPolicy(net, plain.plan, Penalty(own["sigma"], own["lam"], **weights))


def class_parts(policy: ClassPolicy) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The plan of a policy in a class of functions, and which members it is for; not the functions."""
    if policy.bonus is not None:
        raise InputError("policy: a policy that explores cannot be saved; the plan without bonus can")
    arrays, scalars = _plan_parts(policy.plan)
    chosen = np.array(policy.model.chosen, dtype=np.int64)
    more = {"n_features": policy.n_features, "n_actions": policy.n_actions, "ends": policy.model.members.ends}
    return arrays | {"chosen": chosen}, scalars | more


def class_plan(arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> UnboundPlan:
    """What was stored of it; what does not fit together is refused."""
    check_scalars(scalars, *SCALARS, "n_features", "n_actions", "ends")
    size = check_arrays(arrays, PLAN | {"chosen": "int64 [g*] >= 0"})
    H = size["H"]
    if arrays["chosen"].size != H - 1:
        raise InputError(f"chosen: must hold {H - 1} members, found {arrays['chosen'].size}")
    if not isinstance(scalars["ends"], bool):
        raise InputError(f"ends = {scalars['ends']!r:.20}: must be true or false")
    rows = (arrays["offsets"][1] - arrays["offsets"][0]) // size["C"]
    plan = _plan(arrays, scalars, max(int(rows), 1), size["C"])
    n_features, n_actions = (checks.whole(scalars[name], name) for name in ("n_features", "n_actions"))
    return UnboundPlan(plan, tuple(arrays["chosen"].tolist()), n_features, n_actions, scalars["ends"])


def _plan_parts(plan: SupportPlan) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    arrays = {
        "tables": np.concatenate([table.ravel() for table in plan.tables]),
        "offsets": np.concatenate([[0], np.cumsum([table.size for table in plan.tables], dtype=np.int64)]),
        "first": plan.first,
        "curve": plan.curve,
    }
    return arrays, {name: float(getattr(plan, name)) for name in SCALARS}


def _plan(arrays: dict[str, np.ndarray], scalars: dict[str, Any], J: int, C: int) -> SupportPlan:
    """The plan whose tables have J rows, the first of them C columns."""
    cuts = arrays["offsets"].tolist()
    if not all(end > begin and (end - begin) % J == 0 for begin, end in pairwise(cuts)):
        raise InputError(f"offsets: every table must have {J} rows")
    tables = tuple(arrays["tables"][a:b].reshape(J, -1) for a, b in pairwise(cuts))
    if tables[0].shape[1] != C:
        raise InputError(f"curve: must have {tables[0].shape[1]} entries, found {C}")
    values = {name: checks.number(scalars[name], name) for name in SCALARS}
    checks.positive(values["spacing"], "spacing")
    return SupportPlan(tables, arrays["first"], curve=arrays["curve"], **values)
