"""What must hold between the answers to related problems, on MDPs that hypothesis draws and shrinks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brute_force
import tailrank
from brute_force import Tiny
from tailrank.models.mdp import FiniteMDP

LEVELS = (0.05, 0.2, 0.35, 0.5, 0.8, 1.0)
quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)

levels = st.sampled_from([0.03, 0.1, 0.25, 1 / 3, 0.5, 0.77, 1.0])
whole_rewards = st.integers(-4, 4).map(float)
odd_rewards = st.floats(-3, 3, allow_nan=False).map(lambda x: round(x, 3))
undiscounted = st.just(1.0)


@st.composite
def problems(draw, rewards=whole_rewards, discounts=undiscounted):
    """1-3 states, 1-3 actions, 1-3 steps, 1-3 outcomes a pair with probabilities in eighths."""
    S, A, H = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rows = []
    for s in range(S):
        for a in range(A):
            weights = draw(st.sampled_from([(8,), (4, 4), (1, 7), (2, 6), (3, 4, 1), (6, 1, 1)]))
            rows += [(None, s, a, draw(st.integers(0, S - 1)), w / 8, draw(rewards)) for w in weights]
    share = draw(st.sampled_from([(1.0,), (0.25, 0.75), (0.5, 0.25, 0.25)]))[:S]
    start = tuple(p / sum(share) for p in share) + (0.0,) * (S - len(share))
    return Tiny(tuple(rows), H, start, draw(discounts), A)


def solve(m: Tiny, tau: float | tuple[float, ...], **options: object) -> tailrank.Plan:
    return tailrank.solve(FiniteMDP.from_rows(**m.columns()), tau=tau, **options)


def changed(m: Tiny, change) -> Tiny:
    """The same MDP with `change(step, s, a, t, p, r)` in place of each row."""
    return replace(m, rows=tuple(change(*row) for row in m.rows))


@quick
@given(problems())
def test_optimum_grows_with_the_level_and_its_integral_is_convex(m):
    """tau CVaR*(tau) is a supremum of integrals of increasing functions, each of them convex in tau."""
    plans = solve(m, LEVELS)
    best = np.array([plan.cvar for plan in plans])
    assert (np.diff(best) >= -1e-9).all()
    slopes = np.diff(np.array(LEVELS) * best) / np.diff(LEVELS)
    assert (np.diff(slopes) >= -1e-8).all()


@quick
@given(problems(), levels, st.sampled_from([-7.0, 0.1, 2.5, 1000.0]))
def test_adding_a_constant_to_every_reward_adds_it_once_a_step(m, tau, constant):
    moved = changed(m, lambda h, s, a, t, p, r: (h, s, a, t, p, r + constant))
    before, after = solve(m, tau), solve(moved, tau)
    assert after.cvar == pytest.approx(before.cvar + m.horizon * constant, abs=1e-9)
    assert after.risk_neutral.mean == pytest.approx(before.risk_neutral.mean + m.horizon * constant, abs=1e-9)


@quick
@given(problems(), levels, st.sampled_from([0.1, 1 / 3, 7.0, 1e6, 1e-6]))
def test_positive_scaling_scales_the_answer(m, tau, factor):
    scaled = changed(m, lambda h, s, a, t, p, r: (h, s, a, t, p, factor * r))
    before, after = solve(m, tau), solve(scaled, tau)
    assert after.status == "exact"
    assert after.cvar == pytest.approx(factor * before.cvar, abs=1e-9 * factor)
    assert after.mean == pytest.approx(factor * before.mean, abs=1e-9 * factor)


@quick
@given(problems(), levels, st.randoms(use_true_random=False))
def test_names_of_states_and_order_of_rows_do_not_matter(m, tau, random):
    S = len(m.start)
    new = random.sample(range(S), S)
    renamed = changed(m, lambda h, s, a, t, p, r: (h, new[s], a, new[t], p, r))
    rows = random.sample(renamed.rows, len(renamed.rows))
    start = [0.0] * S
    for s, p in enumerate(m.start):
        start[new[s]] = p
    before, after = solve(m, tau), solve(replace(renamed, rows=tuple(rows), start=tuple(start)), tau)
    assert after.cvar == pytest.approx(before.cvar, abs=1e-9)
    assert after.risk_neutral.mean == pytest.approx(before.risk_neutral.mean, abs=1e-9)


@quick
@given(problems(), levels, st.integers(0, 100), st.sampled_from([0.5, 0.1, 0.999]))
def test_splitting_an_outcome_changes_nothing(m, tau, which, share):
    h, s, a, t, p, r = m.rows[which % len(m.rows)]
    parts = ((h, s, a, t, share * p, r), (h, s, a, t, (1 - share) * p, r))
    k = which % len(m.rows)
    split = replace(m, rows=m.rows[:k] + parts + m.rows[k + 1 :])
    before, after = solve(m, tau), solve(split, tau)
    assert after.cvar == pytest.approx(before.cvar, abs=1e-9)
    assert after.law.values == pytest.approx(before.law.values, abs=1e-9)
    assert after.law.probs == pytest.approx(before.law.probs, abs=1e-9)


@quick
@given(problems(), levels)
def test_forgetting_how_far_a_budget_is_exceeded_loses_nothing(m, tau):
    """The planner stops counting where a budget is out of reach or assured; this induction never does."""
    budgets = brute_force.totals(m)
    free = np.max(budgets - brute_force.least_shortfall_by_sums(m, budgets) / tau)
    assert solve(m, tau).cvar == pytest.approx(free, abs=1e-9)


@quick
@given(problems(odd_rewards, st.sampled_from([1.0, 0.9, 0.5])), levels)
def test_brackets_shrink_with_the_unit_and_hold_the_answer(m, tau):
    best = brute_force.best_cvar_by_brute_force(m, [tau])[0]
    for unit in (1.0, 0.25, 0.01):
        plan = solve(m, tau, unit=unit, tolerance=1e6)
        assert plan.lower - 1e-9 <= best <= plan.upper + 1e-9
        # each step is rounded by at most one unit, up for the bound and to the nearest for the policy
        assert plan.upper - plan.lower <= 2 * m.horizon * unit + 1e-9


@quick
@given(problems(odd_rewards, st.sampled_from([0.9, 0.7])), levels, st.sampled_from([0.5, 0.05, 0.001]))
def test_the_width_asked_for_is_kept(m, tau, tolerance):
    plan = solve(m, tau, tolerance=tolerance)
    best = brute_force.best_cvar_by_brute_force(m, [tau])[0]
    assert plan.lower - 1e-9 <= best <= plan.upper + 1e-9
    assert plan.upper - plan.lower <= tolerance + 1e-9


@quick
@given(problems(), levels)
def test_the_frontier_holds_the_answer_at_every_level(m, tau):
    frontier = solve(m, tau).frontier()
    for level in (*LEVELS, tau, 1e-6):
        assert frontier.cvar(level) == pytest.approx(solve(m, level).cvar, abs=1e-9)
