"""Plans for criteria other than the static CVaR, judged by the CVaR that their policies earn.

A criterion is one row of `CRITERIA`: a name and the function that plans for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tailrank.checks import InputError, one_of
from tailrank.models.grid import BudgetGrid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.criteria.chow import chow
from tailrank.planning.criteria.nested import iterated_cvar, nested_value
from tailrank.planning.criteria.sampled_nested import Sampling, sampled_iterated
from tailrank.planning.exact.return_law import Evaluation, return_law
from tailrank.planning.plan import Plan
from tailrank.policies.tables import BudgetPolicy, LevelPolicy, MarkovPolicy, Policy

CHAIN_LIMIT = 2 * 2**30
"""Bytes that the chain of a policy over confidence levels may take."""
OVERESTIMATES = "the criterion's own value (claim) overestimates the CVaR that its policy earns"


@dataclass(frozen=True)
class CriterionPlan:
    """A policy, the value that its criterion gives to it, and lines for the user.

    promises_cvar: whether `claim` is meant as the CVaR of the policy; a note then says where it is too high.
    """

    policy: Policy
    claim: float
    notes: tuple[str, ...] = ()
    promises_cvar: bool = False


CriterionPlanner = Callable[[FiniteMDP, Plan, Sampling], CriterionPlan]
"""Plans in an MDP for the tau of the plan given, which is the one for the static CVaR."""


def plan_mean(mdp: FiniteMDP, plan: Plan, sampling: Sampling) -> CriterionPlan:
    """The policy with the best mean."""
    return CriterionPlan(plan.risk_neutral.policy, plan.risk_neutral.mean)


def plan_iterated(mdp: FiniteMDP, plan: Plan, sampling: Sampling) -> CriterionPlan:
    """The policy with the best nested CVaR."""
    policy, values = iterated_cvar(mdp, plan.tau)
    return CriterionPlan(policy, nested_value(mdp, plan.tau, values))


def plan_sampled_iterated(mdp: FiniteMDP, plan: Plan, sampling: Sampling) -> CriterionPlan:
    """The same from sampled outcomes of each pair."""
    sampled = sampled_iterated(mdp, plan.tau, sampling)
    line = (
        f"tau = {plan.tau:g}: claim {sampled.value:.6g} from {sampling.samples} outcomes of each pair (seed "
        f"{sampling.seed}); within {sampled.error:.3g} of the nested CVaR with confidence {sampling.confidence:g}, "
        f"standard deviation over {sampling.repetitions} repetitions {sampled.spread:.3g}"
    )
    return CriterionPlan(sampled.policy, sampled.value, (line,))


def plan_chow(mdp: FiniteMDP, plan: Plan, sampling: Sampling) -> CriterionPlan:
    """The policy over confidence levels of Chow et al. (2015)."""
    policy, claim, _ = chow(mdp, plan.tau)
    return CriterionPlan(policy, claim, promises_cvar=True)


CRITERIA: dict[str, CriterionPlanner] = {
    "mean": plan_mean,
    "iterated": plan_iterated,
    "sampled-iterated": plan_sampled_iterated,
    "chow": plan_chow,
}
"""The criteria beside "cvar" by name, one row each."""


def replan(
    criterion: str, mdp: FiniteMDP, plans: tuple[Plan, ...], sampling: Sampling | None = None
) -> tuple[Plan, ...]:
    """The plans for a criterion of `CRITERIA` at the taus of `plans`.

    `plans` are those for the static CVaR in `mdp`: their bounds on the best CVaR stay.
    """
    make = CRITERIA[one_of(criterion, "criterion", CRITERIA)]
    return tuple(_judge(criterion, mdp, plan, make(mdp, plan, sampling or Sampling())) for plan in plans)


def _judge(criterion: str, mdp: FiniteMDP, plan: Plan, other: CriterionPlan) -> Plan:
    """The plan for the criterion, with the CVaR that its policy earns."""
    grid = plan.policy.grid if isinstance(plan.policy, BudgetPolicy) else None
    policy = other.policy
    if isinstance(policy, LevelPolicy):
        evaluation = evaluate_levels(policy, mdp, grid)
    else:
        evaluation = return_law(policy, mdp, grid)
    above = other.claim - evaluation.cvar_upper(plan.tau) > 1e-9 * (1.0 + abs(other.claim))
    return replace(
        plan,
        criterion=criterion,
        policy=policy,
        budget=None,
        value=evaluation.cvar(plan.tau),
        compute_law=partial(_same, evaluation),
        claim=other.claim,
        objective=None,
        notes=(*plan.notes, *other.notes, *([OVERESTIMATES] if other.promises_cvar and above else [])),
    )


def _same(evaluation: Evaluation) -> Evaluation:
    return evaluation


def evaluate_levels(policy: LevelPolicy, mdp: FiniteMDP, grid: BudgetGrid | None = None) -> Evaluation:
    """The return law of a policy over confidence levels: that of a Markov chain on (state, level).

    grid: where to round rewards if the law is too large to list.
    """
    chain = level_chain(policy, mdp)
    return return_law(MarkovPolicy(np.zeros((chain.horizon, chain.n_states), dtype=np.int64)), chain, grid)


def level_chain(policy: LevelPolicy, mdp: FiniteMDP) -> FiniteMDP:
    """The MDP with states (s, level) = s K + level, one action, and rows for those that `policy` can meet."""
    S, K, A = mdp.n_states, policy.levels.size, mdp.n_actions
    start = np.zeros(S * K)
    states = np.flatnonzero(mdp.start)
    start[states * K + policy.start_level[states]] = mdp.start[states]
    met, needed = np.flatnonzero(start), 8 * mdp.horizon * S * K
    counts, columns = np.zeros((mdp.horizon, S * K), dtype=np.int64), []
    for h in range(mdp.horizon):
        ptr, next_state, prob, reward = mdp.rows(h)
        state, level = np.divmod(met, K)
        pair = state * A + policy.act(h, state, level)
        count = ptr[pair + 1] - ptr[pair]
        owner = np.repeat(np.arange(met.size), count)
        row = np.arange(owner.size) + np.repeat(ptr[pair + 1] - np.cumsum(count), count)
        owner, row = owner[prob[row] > 0], row[prob[row] > 0]
        counts[h, met] = np.bincount(owner, minlength=met.size)
        needed += 20 * row.size
        if needed > CHAIN_LIMIT:
            raise InputError(
                f"policy: the chain on (state, level) needs more than {CHAIN_LIMIT / 2**30:.3g} GB; use fewer levels"
            )
        after = next_state[row].astype(np.int64) * K + policy.row_level(h, row, level[owner])
        columns.append((after.astype(np.int32), prob[row], reward[row]))
        met = np.unique(after)
    rows = [np.concatenate(c) for c in zip(*columns, strict=True)]
    return FiniteMDP(
        ptr=np.concatenate([[0], np.cumsum(counts)]),
        next_state=rows[0],
        prob=rows[1],
        reward=rows[2],
        start=start,
        n_actions=1,
        horizon=mdp.horizon,
        discount=mdp.discount,
        labels=tuple(range(S * K)),
        action_labels=(0,),
    )
