"""The MDP that learners play in place of any other: the same returns, in the form that the paper assumes.

- One start state: a random start becomes a first step without a reward.
- All actions everywhere: one that is not available does what the lowest available one does.
- Rewards that are independent of the next state. Where a pair pays r(s') and moves to s', it pays the least of them
  at once and owes the rest e = r(s') - min r: it moves to a copy (s', e) of s', in which every action pays e more and
  does what it does in s'. So what is owed is paid a step later (e / discount, to be worth the same), whatever comes
  next. In the last step nothing depends on the next state: everything is paid at once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrank.checks import InputError
from tailrank.models.mdp import FiniteMDP
from tailrank.models.ragged import offsets, rows_of
from tailrank.models.rewards import dependences

DEPENDENT = 1e-9
"""Rewards depend on the next state where their joint law differs by more from the product of both."""

LARGEST_KERNEL = 50_000_000
"""Entries of one dense kernel [S, A, S]: 400 MB."""

MOST_ROWS = 20_000_000
"""Outcome rows of an MDP with copies of states."""

SAME = 1e-12
"""Rewards that differ by less, relative to the largest, are the same but for rounding."""


def equivalent(mdp: FiniteMDP) -> tuple[FiniteMDP, tuple[str, ...]]:
    """An MDP with the same returns that has one start, all actions, and rewards independent of the next state.

    Also what was done to it, a line each. Its first states are those of `mdp`.
    """
    notes: list[str] = []
    if np.count_nonzero(mdp.start) > 1:
        mdp = _with_first_step(mdp)
        notes.append(f"random start: a first step without reward was added, the horizon is {mdp.horizon}")
    if (np.diff(mdp.ptr) == 0).any():
        missing = int((np.diff(mdp.ptr) == 0).sum())
        mdp = _all_available(mdp)
        notes.append(f"{missing} actions that are not available do what the lowest available one does")
    gap = dependences(mdp).reshape(mdp.n_blocks, -1)
    # In the last step nothing comes next.
    gap = gap[: mdp.horizon - 1]
    if gap.max(initial=0.0) > DEPENDENT:
        found = _paid_late(mdp, gap > DEPENDENT)
        if found is None:
            notes.append(
                f"misspecified: rewards depend on the next state (by {gap.max():.3g}), learners take them as "
                "independent, because there are too many to be remembered"
            )
        else:
            copies = found.n_states - mdp.n_states
            notes.append(
                f"rewards depend on the next state: learners play an MDP with the same returns, in which {copies} more "
                "states remember what is still to be paid"
            )
            mdp = found
    return mdp, tuple(notes)


def check_size(mdp: FiniteMDP, name: str) -> None:
    """Raise if a dense kernel of the MDP would be too large."""
    entries = mdp.n_states**2 * mdp.n_actions
    if entries > LARGEST_KERNEL:
        raise InputError(f"{name}: S A S = {entries}: must be at most {LARGEST_KERNEL} for a learner's dense model")


def _paid_late(mdp: FiniteMDP, late: np.ndarray) -> FiniteMDP | None:
    """The MDP with what the pairs `late` [B, S A] pay beyond their least paid a step later; None if it is too large."""
    S, A, H = mdp.n_states, mdp.n_actions, mdp.horizon
    flags = np.zeros(mdp.n_blocks * S * A, dtype=bool)
    flags[: late.size] = late.ravel()
    pair, reward, next_state = mdp.pair, mdp.reward, mdp.next_state.astype(np.int64)
    least = np.full(flags.size, np.inf)
    np.minimum.at(least, pair, np.where(mdp.prob > 0, reward, np.inf))
    owed = np.where(flags[pair] & (mdp.prob > 0), (reward - least[pair]) / mdp.discount, 0.0)
    level = np.rint(owed / (SAME * max(float(np.abs(reward).max()) / mdp.discount, np.finfo(np.float64).tiny)))
    open_ = level > 0
    keys, first, which = np.unique(
        np.stack([next_state[open_], level[open_].astype(np.int64)]), axis=1, return_index=True, return_inverse=True
    )
    copied, amount = keys[0], owed[open_][first]
    if (S + copied.size) ** 2 * A > LARGEST_KERNEL:
        return None
    target = next_state.copy()
    target[open_] = S + which.ravel()
    now = np.where(flags[pair], least[pair], reward)
    own, more = np.concatenate([np.arange(S), copied]), np.concatenate([np.zeros(S), amount])
    parts: list[tuple[np.ndarray, ...]] = []
    total = 0
    for h in range(H):
        block = h if mdp.n_blocks > 1 else 0
        begin = mdp.ptr[(block * S + own) * A]
        count = mdp.ptr[(block * S + own + 1) * A] - begin
        total += int(count.sum())
        if total > MOST_ROWS:
            return None
        state = np.repeat(np.arange(own.size), count)
        row = np.arange(state.size) + np.repeat(begin - (np.cumsum(count) - count), count)
        last = h == H - 1
        paid = (reward if last else now)[row] + more[state]
        parts.append((np.full(row.size, h), state, pair[row] % A, state if last else target[row], mdp.prob[row], paid))
    step, *rest = (np.concatenate(column) for column in zip(*parts, strict=True))
    return FiniteMDP.from_rows(
        *rest,
        step=step,
        start=np.concatenate([mdp.start, np.zeros(copied.size)]),
        n_states=own.size,
        n_actions=A,
        discount=mdp.discount,
        labels=(*mdp.labels, *(f"{mdp.labels[s]} (owed {x:.15g})" for s, x in zip(copied, amount, strict=True))),
        action_labels=mdp.action_labels,
    )


def _with_first_step(mdp: FiniteMDP) -> FiniteMDP:
    """The MDP with one step before the first, which draws its start."""
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
    added = "start"
    while added in mdp.labels:
        added += "'"
    return FiniteMDP.from_rows(
        *rest,
        step=step,
        start=S,
        n_states=S + 1,
        n_actions=A,
        labels=(*mdp.labels, added),
        action_labels=mdp.action_labels,
    )


def _all_available(mdp: FiniteMDP) -> FiniteMDP:
    """The MDP with all actions in all states; those that were missing do what the lowest available one does."""
    S, A = mdp.n_states, mdp.n_actions
    there = np.diff(mdp.ptr).reshape(-1, A) > 0
    source = np.where(there, np.arange(A), there.argmax(axis=1)[:, None])
    pair = (np.arange(mdp.n_blocks * S)[:, None] * A + source).ravel()
    ptr, (_, row) = offsets(np.diff(mdp.ptr)[pair]), rows_of(mdp.ptr, pair)
    return replace(mdp, ptr=ptr, next_state=mdp.next_state[row], prob=mdp.prob[row], reward=mdp.reward[row])
