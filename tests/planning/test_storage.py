"""Chunks of steps in turn: what is computed is the same, and less of it is in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tailrank import FiniteMDP, solve
from tailrank.planning.exact import induction, pushing, storage
from tailrank.planning.exact.curve import InductionRequest
from tailrank.planning.exact.return_law import return_law


def walk(S=400, A=2, K=3, H=5, near=2, seed=0):
    """Next states on a ring, within `near` of the present one (0: anywhere)."""
    rng, n = np.random.default_rng(seed), S * A * K
    s = np.repeat(np.arange(S), A * K)
    after = (s + rng.integers(-near, near + 1, n)) % S if near else rng.integers(0, S, n)
    probs, rewards = rng.dirichlet(np.ones(K), size=S * A).ravel(), rng.integers(0, 4, n)
    a = np.tile(np.repeat(np.arange(A), K), S)
    return FiniteMDP.from_rows(s, a, after, probs, rewards, horizon=H, start=np.full(S, 1 / S))


def in_chunks(monkeypatch, chunk=80):
    monkeypatch.setattr(storage, "WHOLE", 0)
    monkeypatch.setattr(storage, "CHUNK", chunk)


@pytest.mark.parametrize("near", [0, 2])
@pytest.mark.parametrize("undominated", [True, False])
def test_a_solve_in_chunks_is_the_same(monkeypatch, near, undominated):
    mdp = walk(near=near)
    usual = solve(mdp, 0.2, undominated=undominated)
    in_chunks(monkeypatch)
    found = solve(replace(mdp), 0.2, undominated=undominated)
    np.testing.assert_array_equal(found.policy.actions, usual.policy.actions)
    np.testing.assert_allclose(found.curve.shortfall, usual.curve.shortfall, rtol=1e-13)
    np.testing.assert_allclose(found.law.probs, usual.law.probs, rtol=1e-12)
    np.testing.assert_array_equal(found.law.values, usual.law.values)
    if undominated:
        np.testing.assert_allclose(found.curve.mean, usual.curve.mean, rtol=1e-13)


@pytest.mark.parametrize("first", [0, 2])
def test_a_state_that_nothing_leads_to_may_be_a_chunk(monkeypatch, first):
    """One state before or after others with large tables. The law is that of the same solve in one chunk."""
    rng = np.random.default_rng(3)
    others = [s for s in range(3) if s != first]
    rows = [(s, a, after, 0.5, int(rng.integers(0, 90))) for s in range(3) for a in range(2) for after in others]
    mdp = FiniteMDP.from_rows(*zip(*rows, strict=True), horizon=6, start=first)
    usual = solve(mdp, 0.2)
    values, probs = usual.law.values, usual.law.probs
    in_chunks(monkeypatch)
    found = solve(replace(mdp), 0.2)
    np.testing.assert_array_equal(found.law.values, values)
    np.testing.assert_allclose(found.law.probs, probs, rtol=1e-12)


@pytest.mark.parametrize("near", [0, 2])
def test_a_rounded_law_is_not_cut(monkeypatch, near):
    mdp = walk(near=near)
    mdp = replace(mdp, reward=mdp.reward + np.random.default_rng(1).random(mdp.reward.size))
    policy = solve(mdp, 0.2, unit=0.25).policy
    usual = return_law(policy, mdp, listed_limit=0)
    in_chunks(monkeypatch)
    found = return_law(policy, replace(mdp), listed_limit=0)
    assert found.method == usual.method == "moments"
    np.testing.assert_array_equal(found.law.probs, usual.law.probs)
    np.testing.assert_array_equal(found.deviation, usual.deviation)


def stored(monkeypatch, mdp, chunk=80):
    in_chunks(monkeypatch, chunk)
    grid = solve(mdp, 0.2).policy.grid
    return grid, induction.layout(mdp, grid, induction.reachable(mdp)).storage


def test_near_states_need_a_few_chunks_of_each_step(monkeypatch):
    mdp = walk()
    grid, found = stored(monkeypatch, mdp)
    chunks = found.cuts.size - 1
    assert chunks > 40
    assert found.passing < 0.6 * chunks
    assert [(task.step, task.chunk) for task in found.order[:3]] == [(5, 0), (5, 1), (5, 2)]
    assert found.order[3].step == 4  # before the last step is done
    tables = pushing.budget_tables(mdp, grid, 5, 6, 10**6, lambda: None)
    forward = storage.Storage.of(mdp, tables[::-1], True, forward=True)
    assert forward.cuts.size > 20
    assert forward.passing < 0.8 * (forward.cuts.size - 1)


def test_what_a_solve_is_said_to_need_leaves_out_the_first_step(monkeypatch):
    mdp = walk()
    grid, found = stored(monkeypatch, mdp)
    job = InductionRequest(mdp, grid, induction.layout(mdp, grid, induction.reachable(mdp)), keep_actions=True)
    assert job.kept_bytes - job.bytes == 8 * found.slot * (found.slots - found.passing) > 0


def test_states_anywhere_need_two_steps_one_after_the_other(monkeypatch):
    mdp = walk(near=0)
    grid, found = stored(monkeypatch, mdp)
    chunks = found.cuts.size - 1
    assert [task.step for task in found.order] == sorted((h for h in range(6) for _ in range(chunks)), reverse=True)
    assert found.turns == 2
    tables = pushing.budget_tables(mdp, grid, 5, 6, 10**6, lambda: None)
    assert storage.Storage.of(mdp, tables[::-1], True, forward=True).cuts.size == 2  # who pushes looks at all states


def test_steps_that_differ_are_not_computed_in_turn(monkeypatch):
    mdp = replace(walk(), discount=0.5)
    _, found = stored(monkeypatch, mdp)
    steps = [task.step for task in found.order]
    assert steps == sorted(steps, reverse=True)


@pytest.mark.parametrize("near", [0, 2])
def test_no_slot_is_taken_twice_and_all_that_is_read_is_there(monkeypatch, near):
    _, found = stored(monkeypatch, walk(near=near))
    there, most = set(), 0
    for task in found.order:
        assert task.step == 5 or all((task.step + 1, j) in there for j in task.read)
        there.add((task.step, task.chunk))
        most = max(most, len(there))
        steps = [h for h, i in there if i == task.chunk]
        assert max(steps) - min(steps) < found.turns
        there -= set(task.released)
    assert most == found.slots
