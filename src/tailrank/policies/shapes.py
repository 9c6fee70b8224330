"""Which tables a policy has, and whether they are those of an MDP."""

from __future__ import annotations

import numpy as np

from tailrank.checks import InputError
from tailrank.policies.tables import BudgetPolicy, ClonedPolicy, LevelPolicy, MarkovPolicy, MixedPolicy, Policy


def table_shape(policy: Policy) -> tuple[int, int] | None:
    """The numbers of steps and states (H, S) of a policy of tables, else None."""
    policy = policy.first if isinstance(policy, MixedPolicy) else policy
    if isinstance(policy, ClonedPolicy):
        return policy.horizon, len(policy.law)
    if not isinstance(policy, BudgetPolicy | MarkovPolicy | LevelPolicy):
        return None
    return (policy.first if isinstance(policy, BudgetPolicy) else policy.actions).shape[:2]


def check_fits(policy: Policy, H: int, S: int, A: int) -> None:
    """Raise unless a policy of tables has those of H steps, S states and A actions; kernels do not check indices."""
    if isinstance(policy, MixedPolicy):
        check_fits(policy.first, H, S, A)
        policy = policy.second
    shape = table_shape(policy)
    if shape is None:
        return
    if shape != (H, S):
        raise InputError(f"policy: is for {shape[0]} steps and {shape[1]} states, the MDP has {H} and {S}")
    if isinstance(policy, ClonedPolicy):
        most = policy.law.shape[1] - 1
    elif isinstance(policy, BudgetPolicy | MarkovPolicy | LevelPolicy):
        most = int(policy.actions.max(initial=0))
    if isinstance(policy, BudgetPolicy):
        most = max(most, int(policy.elsewhere.max(initial=0)))
    if most >= A:
        raise InputError(f"policy: plays action {most}, the MDP has actions 0..{A - 1}")
    if isinstance(policy, LevelPolicy) and policy.n_actions != A:
        raise InputError(f"policy: is for {policy.n_actions} actions, the MDP has {A}")


def on_states(policy: Policy) -> bool:
    """Whether it plays on the numbers of states, not on observations."""
    return isinstance(policy, BudgetPolicy | MarkovPolicy | ClonedPolicy | LevelPolicy | MixedPolicy)


def horizon_of(policy: Policy) -> int | None:
    """H of a policy that knows how many steps it is for, else None."""
    steps = getattr(policy, "horizon", None)
    if steps is None:
        table = getattr(policy, "first", getattr(policy, "actions", None))
        steps = len(table) if isinstance(table, np.ndarray) and table.ndim > 1 else None
    return None if steps is None else int(steps)
