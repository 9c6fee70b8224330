"""The decomposition of Chow et al. (2015), for comparison: the state is augmented by a confidence level.

    W_h(s, y) = max_a min_z sum_i p_i (r_i z_i + discount W_{h+1}(s'_i, z_i)),   W_H = 0

over outcomes i of (s, a) and z_i in [0, 1] with sum_i p_i z_i = y; W(s, y) / y is the value claimed at the
level y. W is kept at the levels of a grid and is linear in between. It is convex in y, so the inner
minimum is exact: the linear pieces of all outcomes are taken by increasing slope until y is used up.

The exchange of max and min that makes this a recursion holds for a fixed policy only: the claim is never
below the best CVaR of any policy, and it can be far above the one that its own policy earns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrank import checks
from tailrank._system.jit import compiled
from tailrank.checks import InputError
from tailrank.models.mdp import FiniteMDP
from tailrank.policies.tables import LevelPolicy

MEMORY_LIMIT = 2 * 2**30
"""Bytes that the tables of the policy may take."""
TIE = 1e-12
"""Actions whose values differ by less than this (relative to the state's returns) tie; the lowest wins."""


def default_levels(tau: float) -> np.ndarray:
    """0, tau, the twentieths, and 29 levels at equal ratios from tau / 100 to 1: about 50, increasing.

    The twentieths are there because models written by hand have their kinks at round levels.
    """
    near = 1e-3  # a segment this short relative to its level is not worth its rounding errors
    spaced = np.unique(np.concatenate([np.geomspace(tau / 100.0, 1.0, 29), np.arange(1, 21) / 20]))
    spaced = spaced[np.diff(spaced, prepend=0.0) > near * spaced]
    spaced = spaced[(np.abs(spaced - tau) > near * tau) & (spaced < 1.0 - near)]
    return np.unique(np.concatenate([[0.0, tau, 1.0], spaced]))


def chow(mdp: FiniteMDP, tau: float, levels: object = None) -> tuple[LevelPolicy, float, np.ndarray]:
    """The policy of the decomposition, the CVaR_tau it claims, and W_0 [S, K] in reward units.

    levels [K]: the grid, increasing from 0 to 1, at most 65536 (default: `default_levels`); tau is added if
    it is missing. After each outcome the policy moves to the level nearest to z_i. Level 0 says that the
    tail has been missed and any action will do; there the policy keeps to the action of the next level.
    """
    tau = checks.tail_level(tau)
    grid = default_levels(tau) if levels is None else _grid(levels, tau)
    S, H, K = mdp.n_states, mdp.horizon, grid.size
    level_type: np.dtype[Any] = np.dtype(np.uint8 if K <= 2**8 else np.uint16)
    action_type = np.dtype(np.uint8 if mdp.n_actions <= 2**8 else np.uint16 if mdp.n_actions <= 2**16 else np.int64)
    rows = mdp.prob.size * (H if mdp.n_blocks == 1 else 1)
    _require_memory(rows * K * level_type.itemsize + H * S * K * action_type.itemsize + 16 * S * K)
    next_level = np.zeros((rows, K), dtype=level_type)
    actions = np.zeros((H, S, K), dtype=action_type)
    after, end = np.zeros((S, K)), rows
    for h in reversed(range(H)):
        ptr, next_state, prob, reward = mdp.rows(h)
        now, begin = np.zeros((S, K)), end - prob.size
        decompose(
            grid,
            ptr,
            next_state,
            prob,
            reward,
            mdp.discount,
            after,
            mdp.n_actions,
            TIE,
            now,
            actions[h],
            next_level[begin:end],
        )
        after, end = now, begin
    claim, start_level = _start(mdp, grid, int(np.searchsorted(grid, tau)), after, level_type)
    policy = LevelPolicy(
        levels=grid,
        start_level=start_level,
        actions=actions,
        next_level=next_level,
        ptr=mdp.ptr,
        next_state=mdp.next_state,
        reward=mdp.reward,
        n_actions=mdp.n_actions,
    )
    return policy, claim, after


def _grid(levels: object, tau: float) -> np.ndarray:
    grid = checks.numbers(levels, "levels")
    if grid.size < 2 or grid[0] != 0.0 or grid[-1] != 1.0 or not (np.diff(grid) > 0).all():
        raise InputError(f"levels: must increase strictly from 0 to 1, found {grid.tolist()!s:.80}")
    grid = np.union1d(grid, [tau])
    if grid.size > 2**16:
        raise InputError(f"levels: at most {2**16} are supported, found {grid.size}")
    return grid


def _require_memory(needed: int) -> None:
    if needed > MEMORY_LIMIT:
        raise InputError(
            f"levels: the tables of a policy over confidence levels need {needed / 2**30:.3g} GB, "
            f"the limit is {MEMORY_LIMIT / 2**30:.3g} GB; use fewer levels"
        )


def _start(
    mdp: FiniteMDP, grid: np.ndarray, at: int, first: np.ndarray, level_type: np.dtype[Any]
) -> tuple[float, np.ndarray]:
    """The claim, and the level [S] of episodes that start in each state: a step whose outcomes are states."""
    states = np.flatnonzero(mdp.start)
    begins = np.zeros((states.size, grid.size), dtype=level_type)
    value, ptr = np.zeros((1, grid.size)), np.array([0, states.size])
    free, actions = np.zeros(states.size), np.zeros((1, grid.size), dtype=np.uint8)
    decompose(grid, ptr, states, mdp.start[states], free, 1.0, first, 1, TIE, value, actions, begins)
    start_level = np.full(mdp.n_states, at, dtype=np.int64)
    start_level[states] = begins[:, at]
    return float(value[0, at] / grid[at]), start_level


@compiled
def decompose(
    levels,
    ptr,
    next_state,
    prob,
    reward,
    discount,
    after,
    n_actions,
    tie,
    values,
    actions,
    next_level,
):
    """One step: values [S, K] = W_h from after = W_{h+1} [S', K], its actions [S, K], next_level [n, K].

    next_level is the level nearest to the minimiser z_i, for each row under its own action. Minimisers that
    tie are told apart by the order of the rows.
    """
    K = levels.size
    most = 0
    for pair in range(ptr.size - 1):
        most = max(most, ptr[pair + 1] - ptr[pair])
    slope, q, done = np.empty(most * (K - 1)), np.empty(K), np.empty(most, dtype=np.int64)
    for s in range(values.shape[0]):
        fresh, scale = True, 0.0
        for a in range(n_actions):
            begin, end = ptr[s * n_actions + a], ptr[s * n_actions + a + 1]
            if begin == end:
                continue
            n = 0
            for row in range(begin, end):
                t = next_state[row]
                for k in range(K - 1):
                    slope[n] = reward[row] + discount * (after[t, k + 1] - after[t, k]) / (levels[k + 1] - levels[k])
                    scale = max(scale, abs(slope[n]))
                    n += 1
            order = np.argsort(slope[:n], kind="mergesort")
            done[: end - begin] = 0
            filled, total, j = 0.0, 0.0, 0  # pieces before order[j] are used up
            for k in range(K):
                rest, part = levels[k] - filled, 0.0
                i = 0
                while j < n:
                    i = order[j] // (K - 1)
                    piece = order[j] % (K - 1)
                    length = prob[begin + i] * (levels[piece + 1] - levels[piece])
                    if length > rest:
                        part = rest / length
                        break
                    rest -= length
                    filled += length
                    total += length * slope[order[j]]
                    done[i] += 1
                    j += 1
                q[k] = total + (max(rest, 0.0) * slope[order[j]] if j < n else 0.0)
                for row in range(begin, end):
                    next_level[row, k] = done[row - begin]
                if part >= 0.5:
                    next_level[begin + i, k] += 1
            for k in range(K):
                if fresh or q[k] > values[s, k] + tie * scale * levels[k]:
                    actions[s, k] = a
                values[s, k] = q[k] if fresh else max(values[s, k], q[k])
            fresh = False
        actions[s, 0] = actions[s, 1]
