"""A policy for the states and actions of one numbering as a policy for those of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tailrank.checks import InputError
from tailrank.policies.tables import BudgetPolicy


def places(labels: Sequence[object], among: Sequence[object], what: str) -> np.ndarray:
    """Where each label is among others, [n]: by name, or where these are no names of theirs by number from 0."""
    index = {label: i for i, label in enumerate(among)}
    texts = {str(label): i for i, label in enumerate(among)}
    if all(label in index or str(label) in texts for label in labels):
        return np.array([index[x] if x in index else texts[str(x)] for x in labels], dtype=np.int64)
    if all(isinstance(label, int) and 0 <= label < len(among) for label in labels):
        return np.array(labels, dtype=np.int64)
    odd = next(label for label in labels if label not in index and str(label) not in texts)
    raise InputError(f"{what} {odd!r:.60}: is not one of the {len(among)} {what}s there")


def relabelled(policy: BudgetPolicy, states: np.ndarray, actions: np.ndarray, elsewhere: np.ndarray) -> BudgetPolicy:
    """The policy over other states. states [S]: where each of its own is among the S' others; actions [A] likewise.

    elsewhere [H, S']: played in the states that it does not know.
    """
    H, S, others = policy.first.shape[0], states.size, elsewhere.shape[1]
    if len(set(states.tolist())) < S:
        raise InputError("states: two of the policy's are one and the same there")
    first, size = np.zeros((H, others), dtype=np.int64), np.zeros((H, others), dtype=np.int64)
    first[:, states], size[:, states] = policy.first, np.diff(policy.offset, axis=1)
    begin = np.zeros((H, others), dtype=np.int64)
    begin[:, states] = policy.offset[:, :-1]
    ends = np.cumsum(size, axis=1)
    steps = np.concatenate([[0], np.cumsum(ends[:-1, -1])])
    offset = np.concatenate([np.zeros((H, 1), dtype=np.int64), ends], axis=1) + steps[:, None]
    total = int(size.sum())
    entry = np.arange(total) + np.repeat((begin - offset[:, :-1]).ravel(), size.ravel())
    played = actions[policy.actions[entry].astype(np.int64)]
    beyond = elsewhere.astype(np.int64).copy()
    beyond[:, states] = actions[policy.elsewhere.astype(np.int64)]
    return replace(policy, first=first, offset=offset, actions=played, elsewhere=beyond)
