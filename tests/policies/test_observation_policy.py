"""Policies on observations: the filter is Bayes' rule, the budget falls by what was earned."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tailrank.learning.observed.reward_grid import RewardGrid
from tailrank.learning.observed.state import policy_of
from tailrank.models.grid import BudgetGrid
from tailrank.models.latent_counts import LatentCounts
from tailrank.planning.observed.problem import Support
from tailrank.policies.moved import Moved
from tailrank.policies.observed import FORGIVING, ObservationPolicy, ObservedPlan

K, A, H = 3, 2, 4


@dataclass
class Emissions:
    """Features are the number of a symbol; likely [steps, K, X]: P(x | z). log_odds: of weight times likelihood."""

    likely: np.ndarray
    weight: np.ndarray
    kind = "emissions"

    @property
    def shared(self):
        return len(self.likely) == 1

    @property
    def n_latents(self):
        return self.likely.shape[1]

    def log_odds(self, h, features):
        h = 0 if self.shared else h
        with np.errstate(divide="ignore"):
            return np.log(self.weight[h] * self.likely[h][:, features[:, 0].astype(int)].T) + 7.5


def example(seed, shared, filtered=True):
    rng = np.random.default_rng(seed)
    steps = 1 if shared else H
    base = rng.dirichlet(np.ones(K), size=steps)
    moves = rng.dirichlet(np.ones(K), size=(steps, K, A))
    decoder = Emissions(rng.dirichlet(np.ones(5), size=(steps, K)), base)
    tables = tuple(rng.uniform(size=(K, A, 9 - h)) for h in range(H))
    plan = ObservedPlan(tables, 6, 0.0, np.zeros(9))
    grid = BudgetGrid(Fraction(1, 4), (Fraction(-1, 2),) * H, "nearest")
    return ObservationPolicy(decoder, plan, grid, base, moves, filtered)


def by_paths(policy, h, symbols, actions):
    """P(z_h | symbols up to h, actions before h): the sum over all paths of latents."""
    steps = len(policy.base)
    total = np.zeros(K)
    for path in product(range(K), repeat=h + 1):
        p = policy.base[0][path[0]]
        for t, z in enumerate(path):
            s = t if steps > 1 else 0
            p *= policy.decoder.likely[s][z, symbols[t]]
            if t < h:
                after = t + 1 if steps > 1 else 0
                p *= (1 - FORGIVING) * policy.moves[s][z, actions[t], path[t + 1]] + FORGIVING * policy.base[after][
                    path[t + 1]
                ]
        total[path[-1]] += p
    return total / total.sum()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_filter_is_bayes_rule(seed, shared):
    policy = example(seed, shared)
    rng = np.random.default_rng(seed)
    n = 6
    symbols, actions = rng.integers(0, 5, size=(n, H)), rng.integers(0, A, size=(n, H))
    memory = policy.start(n)
    assert memory.shape == (n, 1 + K)
    for h in range(H):
        seen = symbols[:, h : h + 1].astype(np.float64)
        found = policy.latents(h, seen, memory)
        expected = [by_paths(policy, h, symbols[i], actions[i]) for i in range(n)]
        np.testing.assert_allclose(found, expected, atol=1e-12)
        budgets = memory[:, 0].astype(int)
        for i, a in enumerate(policy.act(h, seen, memory)):
            q = [sum(expected[i][z] * policy.plan.values[h][z, b, budgets[i]] for z in range(K)) for b in range(A)]
            assert a == np.argmin(q)
        memory = policy.update(h, Moved(seen, actions[:, h], np.full(n, -0.25), None), memory)


def test_without_the_filter_the_likeliest_latent_is_believed():
    policy = example(1, False, filtered=False)
    seen = np.arange(5.0)[:, None]
    memory = policy.start(5)
    for h in range(H):
        found = policy.latents(h, seen, memory)
        best = (policy.decoder.weight[h] * policy.decoder.likely[h].T).argmax(axis=1)
        np.testing.assert_array_equal(found, np.eye(K)[best])
        budgets = memory[:, 0].astype(int)
        expected = policy.plan.values[h][best, :, budgets].argmin(axis=1)
        np.testing.assert_array_equal(policy.act(h, seen, memory), expected)
        memory = policy.update(h, Moved(seen, np.zeros(5, dtype=int), np.zeros(5), None), memory)
        np.testing.assert_array_equal(memory[:, 1:], policy.start(5)[:, 1:])


@pytest.mark.parametrize("filtered", [False, True])
def test_the_budget_falls_by_what_was_earned(filtered):
    policy = example(2, False, filtered)
    seen, actions = np.zeros((4, 1)), np.zeros(4, dtype=int)
    memory = policy.update(0, Moved(seen, actions, np.array([-0.5, 0.0, 0.3, 5.0]), None), policy.start(4))
    assert memory[:, 0].tolist() == [6, 4, 3, 0], "in quarters above -1/2, rounded, and never below zero"
    again = policy.update(1, Moved(seen, actions, np.array([-0.5, -0.25, 0.0, 0.0]), None), memory)
    assert again[:, 0].tolist() == [6, 3, 1, 0]
    last = policy.update(H - 1, Moved(seen, actions, np.ones(4), None), again)
    np.testing.assert_array_equal(last, again), "nothing follows the last step"
    assert policy.horizon == H


def test_a_wrong_model_does_not_rule_out_what_is_seen():
    """Moves that say z' = 0 for sure, an observation that only latent 2 can show."""
    policy = example(3, False)
    likely = np.zeros((H, K, 5))
    likely[:, 0, 0] = likely[:, 1, 1] = likely[:, 2, 2] = 1.0
    moves = np.zeros((H, K, A, K))
    moves[..., 0] = 1.0
    policy = ObservationPolicy(Emissions(likely, policy.base), policy.plan, policy.grid, policy.base, moves)
    memory = policy.update(0, Moved(np.zeros((1, 1)), np.array([0]), np.zeros(1), None), policy.start(1))
    np.testing.assert_allclose(policy.latents(1, np.array([[2.0]]), memory), [[0, 0, 1]])


def counted(rows, steps=2):
    counts = LatentCounts(steps, K, A, 1)
    counts.add(*np.array(rows).T)
    return counts


GRID = RewardGrid(0.0, 1.0, 1, 0, "here")


def test_tables_of_a_counted_model():
    rows = [(0, 0, 0, 1, 0)] * 3 + [(0, 0, 0, 0, 1), (0, 1, 1, K, 0), (1, 1, 0, K, 0), (1, 1, 1, K, 0), (1, 0, 0, K, 1)]
    sure = policy_of(None, counted(rows), GRID, 2, [None, None])
    assert not sure.filtered
    np.testing.assert_allclose(sure.moves.sum(axis=-1), 1), "not looked at, but a law"
    some = Support(np.full((1, K), 1 / K), np.full((K, 1), 0.5), np.full(K, 0.5))
    policy = policy_of(None, counted(rows), GRID, 2, [None, some])
    assert policy.filtered
    np.testing.assert_allclose(policy.base, [[0.8, 0.2, 0], [1 / 3, 2 / 3, 0]])
    np.testing.assert_allclose(policy.moves[0, 0, 0], [0.25, 0.75, 0])
    np.testing.assert_allclose(policy.moves.sum(axis=-1), 1)
    np.testing.assert_allclose(policy.moves[0, 1, 1], policy.base[1]), "ended whenever it was tried: nothing is known"


@pytest.mark.parametrize("steps", [1, 2])
def test_a_pair_never_tried_says_nothing_about_what_follows(steps):
    """Least of all that a latent comes next that was never met, whatever the decoder makes of it."""
    rows = [(h, z, 0, z if h < steps - 1 or steps == 1 else K, 0) for h in range(steps) for z in (0, 0, 0, 1)]
    counts = counted(rows, steps)
    rng = np.random.default_rng(0)
    likely = rng.dirichlet(np.ones(5), size=(steps, K))
    weight = np.array([[0.75, 0.25, 1e-6]] * steps)
    policy = policy_of(Emissions(likely, weight), counts, GRID, 2, [None])
    policy = ObservationPolicy(
        policy.decoder,
        ObservedPlan((np.zeros((K, A, 2)),) * 2, 1, 0.0, np.zeros(2)),
        policy.grid,
        policy.base,
        policy.moves,
    )
    seen = np.array([[3.0]])
    memory = policy.update(0, Moved(seen, np.array([1]), np.zeros(1), None), policy.start(1))
    found = policy.latents(1, seen, memory)[0]
    odds = np.exp(policy.decoder.log_odds(1, seen)[0][:2])
    np.testing.assert_allclose(found, [*(odds / odds.sum()), 0.0], atol=1e-9)
