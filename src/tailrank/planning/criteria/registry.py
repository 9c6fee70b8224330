"""Plans for criteria other than the static CVaR, judged by the CVaR that their policies earn."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from tailrank.checks import InputError
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


def replan(
    criterion: str, mdp: FiniteMDP, plans: tuple[Plan, ...], sampling: Sampling | None = None
) -> tuple[Plan, ...]:
    """The plans for `criterion` ("mean", "iterated", "sampled-iterated" or "chow") at the taus of `plans`.

    `plans` are those for the static CVaR in `mdp`: their bounds on the best CVaR stay.
    """
    return tuple(_replan(criterion, mdp, plan, sampling or Sampling()) for plan in plans)


def _replan(criterion: str, mdp: FiniteMDP, plan: Plan, sampling: Sampling) -> Plan:
    policy, claim, notes = _policy(criterion, mdp, plan, sampling)
    grid = plan.policy.grid if isinstance(plan.policy, BudgetPolicy) else None
    evaluation = (
        evaluate_levels(policy, mdp, grid) if isinstance(policy, LevelPolicy) else return_law(policy, mdp, grid)
    )
    cvar = evaluation.cvar(plan.tau)
    above = claim - evaluation.cvar_upper(plan.tau) > 1e-9 * (1.0 + abs(claim))
    return replace(
        plan,
        criterion=criterion,
        policy=policy,
        budget=None,
        value=cvar,
        compute_law=partial(_same, evaluation),
        claim=claim,
        objective=None,
        notes=(*plan.notes, *notes, *([OVERESTIMATES] if criterion == "chow" and above else [])),
    )


def _same(evaluation: Evaluation) -> Evaluation:
    return evaluation


def _policy(criterion: str, mdp: FiniteMDP, plan: Plan, sampling: Sampling) -> tuple[Policy, float, tuple[str, ...]]:
    """The criterion's policy, the value it gives to it, and what there is to say."""
    if criterion == "mean":
        return plan.risk_neutral.policy, plan.risk_neutral.mean, ()
    if criterion == "iterated":
        markov, values = iterated_cvar(mdp, plan.tau)
        return markov, nested_value(mdp, plan.tau, values), ()
    if criterion == "sampled-iterated":
        found = sampled_iterated(mdp, plan.tau, sampling)
        line = (
            f"tau = {plan.tau:g}: claim {found.value:.6g} from {sampling.samples} outcomes of each pair (seed "
            f"{sampling.seed}); within {found.error:.3g} of the nested CVaR with confidence {sampling.confidence:g}, "
            f"standard deviation over {sampling.repetitions} repetitions {found.spread:.3g}"
        )
        return found.policy, found.value, (line,)
    if criterion == "chow":
        policy, claim, _ = chow(mdp, plan.tau)
        return policy, claim, ()
    raise InputError(f"criterion = {criterion}: must be mean, iterated, sampled-iterated or chow")


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
