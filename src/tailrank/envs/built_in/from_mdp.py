"""Any finite MDP as an episodic environment: every state is its own group.

The paper's learners want one start state, all actions everywhere and rewards that are independent of the
next state. The first two are arranged here (and said in `notes`), the third is only measured.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.built_in.episodic import Episodic
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.mdp import FiniteMDP
from tailrank.models.ragged import offsets, owners, rows_of
from tailrank.models.rewards import RewardLaw, dependence

DEPENDENT = 1e-9
LARGEST_KERNEL = 50_000_000
"""Entries of one dense kernel [S, A, S]: 400 MB."""


def from_mdp(mdp: FiniteMDP, upsilon: float | None = None, *, name: str = "mdp") -> Episodic:
    """The environment that plays `mdp`; upsilon: spacing of the grid that rewards are rounded up to.

    A random start becomes a first step without a reward (H becomes H + 1). An action that is not available
    does what the lowest available one does.
    """
    entries = mdp.n_states**2 * mdp.n_actions
    if entries > LARGEST_KERNEL:
        raise InputError(f"{name}: S A S = {entries}: must be at most {LARGEST_KERNEL} for a learner's dense model")
    notes: list[str] = []
    if np.count_nonzero(mdp.start) > 1:
        mdp = _with_first_step(mdp)
        notes.append(f"random start: a first step without reward was added, the horizon is {mdp.horizon}")
    if (np.diff(mdp.ptr) == 0).any():
        missing = int((np.diff(mdp.ptr) == 0).sum())
        mdp = _all_available(mdp)
        notes.append(f"{missing} actions that are not available do what the lowest available one does")
    gap = dependence(mdp)
    if gap > DEPENDENT:
        notes.append(
            f"misspecified: rewards depend on the next state (by {gap:.3g}), learners take them as independent"
        )
    models: list[StepModel] = []
    rank, last = 0, np.empty(0)
    for b in range(max(min(mdp.n_blocks, mdp.horizon - 1), 1)):
        kernel = _kernel(mdp, b)
        # Steps that are alike share one model, which costs seconds to find when there are many states.
        if np.array_equal(kernel, last):
            models.append(models[-1])
            continue
        models.append(_step_model(kernel))
        rank, last = max(rank, _rank(kernel)), kernel
    notes.append(f"numerical rank of the kernels: {rank} with {mdp.n_states} states")
    steps = tuple(models[h if mdp.n_blocks > 1 else 0] for h in range(mdp.horizon - 1))
    return Episodic(
        name=name,
        truth=mdp,
        rewards=RewardLaw.from_mdp(mdp, upsilon),
        model=LowRankModel(steps, (np.arange(mdp.n_states),) * mdp.horizon),
        start=int(mdp.start.argmax()),
        notes=tuple(notes),
        labels=tuple(str(label) for label in mdp.labels),
    )


def _with_first_step(mdp: FiniteMDP) -> FiniteMDP:
    S, A, H = mdp.n_states, mdp.n_actions, mdp.horizon
    columns = mdp.table()
    parts = []
    states, actions = np.divmod(np.arange((S + 1) * A), A)
    to = np.flatnonzero(mdp.start)
    n = states.size * to.size
    first = (np.zeros(n), np.repeat(states, to.size), np.repeat(actions, to.size), np.tile(to, states.size))
    parts.append((*first, np.tile(mdp.start[to], states.size), np.zeros(n)))
    for h in range(H):
        here = columns["step"] == h if mdp.n_blocks > 1 else np.ones(mdp.prob.size, dtype=bool)
        # The added state is never met again: there it copies another, so that it adds nothing to the rank.
        for rows, renamed in ((here, None), (here & (columns["state"] == to[0]), S)):
            size = int(rows.sum())
            state = columns["state"][rows] if renamed is None else np.full(size, renamed)
            kept = tuple(columns[c][rows] for c in ("action", "next_state", "probability"))
            # The added step must not discount the rewards that follow it.
            parts.append((np.full(size, h + 1), state, *kept, columns["reward"][rows] * mdp.discount**h))
    step, *rest = (np.concatenate(column) for column in zip(*parts, strict=True))
    return FiniteMDP.from_rows(
        *rest,
        step=step,
        start=S,
        n_states=S + 1,
        n_actions=A,
        labels=(*mdp.labels, "start"),
        action_labels=mdp.action_labels,
    )


def _all_available(mdp: FiniteMDP) -> FiniteMDP:
    S, A = mdp.n_states, mdp.n_actions
    there = np.diff(mdp.ptr).reshape(-1, A) > 0
    source = np.where(there, np.arange(A), there.argmax(axis=1)[:, None])
    pair = (np.arange(mdp.n_blocks * S)[:, None] * A + source).ravel()
    ptr, (_, row) = offsets(np.diff(mdp.ptr)[pair]), rows_of(mdp.ptr, pair)
    return replace(mdp, ptr=ptr, next_state=mdp.next_state[row], prob=mdp.prob[row], reward=mdp.reward[row])


def _kernel(mdp: FiniteMDP, b: int) -> np.ndarray:
    ptr, next_state, prob, _ = mdp.rows(b)
    kernel = np.zeros((ptr.size - 1, mdp.n_states))
    np.add.at(kernel, (owners(ptr), next_state), prob)
    return kernel.reshape(mdp.n_states, mdp.n_actions, mdp.n_states)


def _rank(kernel: np.ndarray) -> int:
    flat = kernel.reshape(-1, kernel.shape[-1])
    values = np.linalg.eigvalsh(flat.T @ flat)
    return int((values > 1e-12 * values[-1]).sum())


def _step_model(kernel: np.ndarray) -> StepModel:
    """Exact factors: one latent for each state that is entered, or for each distinct row if these are fewer."""
    S, A, _ = kernel.shape
    entered = np.flatnonzero(kernel.sum(axis=(0, 1)) > 0)
    flat = kernel.reshape(S * A, S)
    places: dict[bytes, int] = {}
    which = np.array([places.setdefault(row.tobytes(), len(places)) for row in flat])
    if len(places) < entered.size:
        first = np.unique(which, return_index=True)[1]
        return StepModel(np.eye(len(places))[which].reshape(S, A, len(places)), flat[first])
    return StepModel(kernel[:, :, entered], np.eye(S)[entered])
