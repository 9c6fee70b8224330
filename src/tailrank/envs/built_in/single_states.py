"""An environment whose states come in groups, seen one state at a time: its true model and its true MDP."""

from __future__ import annotations

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.protocols import CountableEnv
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.mdp import FiniteMDP

LARGEST_RAW = 20_000_000
"""H S A S of the largest MDP on single states that is made."""


def raw_model(env: CountableEnv) -> LowRankModel:
    """The true model on single states, which each group emits uniformly."""
    steps = []
    for h, step in enumerate(env.model.steps):
        here, after = env.group[h], env.group[h + 1]
        sizes = np.bincount(after, minlength=step.psi.shape[1])
        steps.append(StepModel(step.phi[here], step.psi[:, after] / sizes[after]))
    return LowRankModel(tuple(steps), (np.arange(env.n_states),) * env.horizon)


def raw_truth(env: CountableEnv) -> FiniteMDP:
    """The true MDP on states, from the one on groups: every group emits its states uniformly."""
    if all(np.array_equal(g, np.arange(env.truth.n_states)) for g in env.group):
        return env.truth
    columns: list[list[np.ndarray]] = [[] for _ in range(6)]
    S, A, H = env.n_states, env.n_actions, env.horizon
    if H * S * A * S > LARGEST_RAW:
        raise InputError(
            f"states = {S}: the true MDP on single states is too large to evaluate a model of single states "
            "exactly; use model 'class', which sees groups"
        )
    for h in range(H):
        ptr, next_group, prob, _ = env.truth.rows(h)
        reward = env.truth.scaled_rewards(h)
        after = env.group[h + 1] if h + 1 < H else env.group[h]
        sizes = np.bincount(after, minlength=env.truth.n_states)
        for s in range(S):
            for a in range(A):
                k = env.group[h][s] * A + a
                for row in range(ptr[k], ptr[k + 1]):
                    members = np.flatnonzero(after == next_group[row]) if h + 1 < H else np.array([s])
                    share = prob[row] / (sizes[next_group[row]] if h + 1 < H else 1)
                    for column, value in zip(columns, (h, s, a, members, share, reward[row]), strict=True):
                        column.append(np.broadcast_to(value, members.shape))
    step, state, action, next_state, probability, rewards = (np.concatenate(c) for c in columns)
    return FiniteMDP.from_rows(
        state, action, next_state, probability, rewards, step=step, start=env.start, n_states=S, n_actions=A
    )
