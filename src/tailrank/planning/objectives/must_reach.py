"""A goal that is compulsory: only policies that reach it surely count.

    sure_H = {goal},   sure_h = {goal} and all s with an action whose outcomes all lie in sure_{h+1}

The goal ends the episode: nothing is earned after it. From a state in sure_h the actions whose outcomes all lie in
sure_{h+1} stay, all others are taken away, so every policy of the MDP that is left reaches the goal within its horizon.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrank.checks import InputError
from tailrank.models.mdp import FiniteMDP


def must_reach(mdp: FiniteMDP, goal: object) -> FiniteMDP:
    """The MDP whose policies are those of `mdp` that reach the state with the label `goal` surely."""
    at = goal_index(mdp, goal)
    S, A, H = mdp.n_states, mdp.n_actions, mdp.horizon
    sure = np.zeros((H + 1, S), dtype=bool)
    sure[:, at] = True
    counts, columns = [], []
    for h in reversed(range(H)):
        ptr, after, prob, reward = mdp.rows(h)
        owner = np.repeat(np.arange(S * A), np.diff(ptr))
        misses = np.bincount(owner[(prob > 0) & ~sure[h + 1][after]], minlength=S * A) > 0
        keeps = (np.diff(ptr) > 0) & ~misses
        sure[h] |= keeps.reshape(S, A).any(axis=1)
        # Where no action is sure, all stay: nobody gets there.
        stays = keeps | ~np.repeat(sure[h], A)
        stays[at * A : (at + 1) * A] = False
        row = stays[owner]
        count = np.bincount(owner[row], minlength=S * A)
        count[at * A] = 1
        place = int(count[: at * A].sum())
        parts = ((after[row], at), (prob[row], 1.0), (reward[row], 0.0))
        columns.append([np.insert(x, place, value) for x, value in parts])
        counts.append(count)
    lost = np.flatnonzero((mdp.start > 0) & ~sure[0])
    if lost.size:
        raise InputError(
            f"must reach {goal}: cannot be reached surely within {H} steps from the start {mdp.labels[lost[0]]}"
        )
    rows = [np.concatenate(x) for x in zip(*reversed(columns), strict=True)]
    return replace(
        mdp,
        ptr=np.concatenate([[0], np.cumsum(np.concatenate(counts[::-1]))]).astype(np.int64),
        next_state=rows[0].astype(np.int32),
        prob=rows[1],
        reward=rows[2],
    )


def goal_index(mdp: FiniteMDP, goal: object) -> int:
    """The state whose label is `goal`, also where one is a text and the other a number."""
    labels = [str(label) for label in mdp.labels]
    if str(goal) not in labels:
        raise InputError(
            f"must reach {goal}: is no state, the states are {', '.join(labels[:8])}{' ...'[: len(labels) // 2]}"
        )
    return labels.index(str(goal))
