"""The induction on rows against plain NumPy: every way through its kernels, the same bits on any cores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tailrank._system import parallel
from tailrank.models.grid import exact_grid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact import forward, induction, pushing, storage
from tailrank.planning.exact.limits import unlimited


def random_mdp(S=6, A=3, K=4, H=4, top=5, missing=0.2, seed=0):
    """K outcomes a pair on average, some actions not available, rewards of either sign."""
    rng = np.random.default_rng(seed)
    rows = []
    for s in range(S):
        for a in range(A):
            if a and rng.random() < missing:
                continue
            n = K if rng.random() < 0.5 else int(rng.integers(max(1, K // 2), K + 1))
            p = rng.dirichlet(np.ones(n))
            rows += zip([s] * n, [a] * n, rng.integers(0, S, n), p, rng.integers(-top, top + 1, n))
    return FiniteMDP.from_rows(*zip(*rows), horizon=H, n_states=S, n_actions=A, start=rng.dirichlet(np.ones(S)))


def plain(mdp, grid, budgets, bonus=None):
    """V_0(s, c) and Q [H, S, A, C] on these budgets (units), by a dictionary of functions of the budget."""
    S, A, H = mdp.n_states, mdp.n_actions, mdp.horizon
    low, high = budgets[0], budgets[-1]
    spread = int(np.abs(induction.units_of_steps(mdp, grid)(0)).max()) * H
    wide = np.arange(low - spread, high + spread + 1)
    V, result = np.tile(np.maximum(wide, 0).astype(float), (S, 1)), []
    for h in reversed(range(H)):
        ptr, after, prob, _ = mdp.rows(h)
        units = induction.units_of_steps(mdp, grid)(h)
        Q = np.full((S, A, wide.size), np.inf)
        for pair in np.flatnonzero(np.diff(ptr)):
            rows = slice(ptr[pair], ptr[pair + 1])
            moved = np.clip(np.arange(wide.size) - units[rows][:, None], 0, wide.size - 1)
            value = prob[rows] @ V[after[rows][:, None], moved]
            Q[pair // A, pair % A] = value - (0 if bonus is None else bonus[h, pair // A, pair % A])
        V = Q.min(axis=1)
        result.append(Q)
    inside = slice(spread, wide.size - spread)
    return V[:, inside], [Q[:, :, inside] for Q in reversed(result)]


def check(mdp, bonus=None):
    grid = exact_grid([np.unique(mdp.reward)], mdp.horizon, 1.0)
    plan = induction.layout(mdp, grid, induction.reachable(mdp))
    found = induction.induct(mdp, grid, plan, keep_actions=True, bonus=bonus)
    tables = plan.tables
    budgets, curve = found.curve(mdp.start)
    low = min(int(t.first.min()) for t in tables)
    high = max(int(t.last.max()) for t in tables)
    every = np.arange(low, high + 1)
    V, Q = plain(mdp, grid, every, bonus)
    inside = budgets - low
    np.testing.assert_allclose(curve, mdp.start @ V[:, inside], rtol=1e-11, atol=1e-11)
    for h, (table, begin) in enumerate(zip(tables[:-1], plan.begins)):
        for s in range(mdp.n_states):
            own = found.actions[begin + table.offset[s] : begin + table.offset[s + 1]]
            at = table.first[s] - low + np.arange(own.size)
            chosen = Q[h][s][own, at]
            np.testing.assert_allclose(chosen, Q[h][s].min(axis=0)[at], rtol=1e-11, atol=1e-11)
    return found


SHAPES = [
    {},
    {"A": 1},
    {"A": 4, "missing": 0.0},
    {"A": 9},
    {"S": 1},
    {"H": 1},
    {"top": 0},
    {"K": 7},
    {"K": 9},
    {"K": 1500, "S": 2, "A": 2},
    # pads as wide as rewards: all outcomes are added together
    *({"K": k, "H": 12, "top": 1} for k in (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 17)),
    {"top": 200, "H": 4},  # tables of several blocks, rewards wider than any pad
    {"top": 3, "H": 12, "S": 20},
]


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_induction_is_its_definition(monkeypatch, shape, ahead):
    if ahead:
        monkeypatch.setattr(induction, "CACHED", -1)
    check(random_mdp(**shape))


def test_with_a_bonus():
    mdp = random_mdp(seed=3)
    check(mdp, np.random.default_rng(0).uniform(0, 2, (mdp.horizon, mdp.n_states, mdp.n_actions)))


@pytest.mark.parametrize("chunk", [1, 60, 200])
def test_tables_may_take_the_place_of_those_of_the_next_step(monkeypatch, chunk):
    mdps = [random_mdp(S=40, H=6, seed=5), random_mdp(seed=6), near_mdp()]
    usual = [check(mdp) for mdp in mdps]
    monkeypatch.setattr(storage, "WHOLE", 0)
    monkeypatch.setattr(storage, "CHUNK", chunk)
    for mdp, found in zip(mdps, usual, strict=True):
        again = check(mdp)
        np.testing.assert_array_equal(again.actions, found.actions)
        for s in range(mdp.n_states):
            np.testing.assert_array_equal(again.curve(np.eye(mdp.n_states)[s]), found.curve(np.eye(mdp.n_states)[s]))
    again = again.layout.storage
    assert again.cuts.size > 4
    assert again.slots < 0.7 * 2 * (again.cuts.size - 1)  # next states are near


def near_mdp(S=200, A=2, K=3, H=4):
    rng, n = np.random.default_rng(0), S * A * K
    s = np.repeat(np.arange(S), A * K)
    return FiniteMDP.from_rows(
        s,
        np.tile(np.repeat(np.arange(A), K), S),
        (s + rng.integers(-2, 3, n)) % S,
        rng.dirichlet(np.ones(K), size=S * A).ravel(),
        rng.integers(0, 4, n),
        horizon=H,
        start=np.full(S, 1 / S),
    )


@pytest.mark.parametrize("seed", range(4))
def test_ranges_that_move_as_a_whole_are_those_of_every_step(monkeypatch, seed):
    mdp = random_mdp(S=12, A=3, K=12, H=12, top=2, missing=0.0, seed=seed)
    mdp = replace(mdp, start=np.eye(12)[0])
    grid = exact_grid([np.unique(mdp.reward)], mdp.horizon, 1.0)
    moves = []

    def ranges():
        ahead = induction.layout(mdp, grid, induction.reachable(mdp)).tables
        left = pushing.budget_tables(mdp, grid, mdp.horizon, 3, 10**6, unlimited)
        return [(t.first, t.offset) for t in (*ahead, *left)]

    for module in (induction, pushing):
        monkeypatch.setattr(module, "moved_by", lambda *a: moves.append(forward.moved_by(*a)) or moves[-1])
    shifted = ranges()
    assert len([m for m in moves if m]) == 2, "both ways, ranges should come to move as a whole"
    for module in (induction, pushing):
        monkeypatch.setattr(module, "moved_by", lambda *a: None)
    for one, two in zip(shifted, ranges(), strict=True):
        np.testing.assert_array_equal(one[0], two[0])
        np.testing.assert_array_equal(one[1], two[1])


def test_the_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(parallel, "SERIAL_WORK", 0)
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("TAILRANK_THREADS", threads)
        results.append(check(random_mdp(S=40, H=6)))
    for found in results[1:]:
        np.testing.assert_array_equal(found.actions, results[0].actions)
        for (_, one), (_, two) in [(found.curve(np.eye(40)[s]), results[0].curve(np.eye(40)[s])) for s in range(40)]:
            np.testing.assert_array_equal(one, two)
