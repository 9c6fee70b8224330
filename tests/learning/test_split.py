"""A plan of some episodes judged by the others: judges know nothing of it, and there are no more than it needs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from logged import frame_of, small_mdp
from tailrank import evaluate
from tailrank.envs.logs.read import read_log
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.candidates import Planner
from tailrank.learning.offline.coverage import usual_actions
from tailrank.learning.offline.split import APART, TILTED, WEIGHTED, SplitTask, split_plan
from tailrank.planning.pessimistic.goals import TailGoal

TAU = 0.3


def made(log, order, delta=0.1):
    planner = Planner(TailGoal(TAU), (np.ones(6, dtype=bool),) * 3, usual_actions(log))
    more = (counting.Counting(False), delta, delta, None, True, None)
    return split_plan(log, order, SplitTask(planner, (0.0, 3.0), (0.0, 9.0), 1.0, *more), np.random.default_rng(0))


def logged(n, seed):
    return read_log(frame_of(small_mdp(2), n, seed), states=range(3), actions=range(2))


@pytest.mark.parametrize("n", [60, 3000])
def test_plan_knows_nothing_of_its_judges(n):
    """Whatever the last tenth earned, which is never among those that make the plan, the plan is the same."""
    log, order = logged(n, 0), np.random.default_rng(1).permutation(n)
    last = np.isin(np.repeat(np.arange(n), 3), order[int(0.9 * n) :])
    other = replace(log, reward=np.where(last, 3.0 - log.reward, log.reward))
    one, two = made(log, order), made(other, order)
    assert (one.plan.budget, one.plan.less) == (two.plan.budget, two.plan.less)
    for here, there in zip(one.plan.actions, two.plan.actions, strict=True):
        np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(one.tilted.law, two.tilted.law)
    assert one.bounds != two.bounds or n == 60


def test_many_records_need_few_judges():
    for n, fewest, most in ((60, 30, 30), (20_000, 2000, 4000)):
        found = made(logged(n, 3), np.arange(n))
        assert fewest <= found.counts.first.sum() <= most
        assert found.bounds[APART] == found.plan.lower or found.bounds[WEIGHTED] == found.plan.lower


def test_bounds_hold_for_their_policies():
    """With delta = 0.3 for all three, each fails in no more than 0.1 of 60 logs."""
    mdp, goal = small_mdp(2), TailGoal(TAU)
    missed = dict.fromkeys((APART, WEIGHTED, TILTED), 0)
    for seed in range(60):
        log = logged(150, seed)
        found = made(log, np.arange(150), delta=0.3)
        plan = goal.policy(found.model, found.plan.actions, usual_actions(log), found.plan.budget)
        for name, policy in ((APART, plan), (WEIGHTED, plan), (TILTED, found.tilted)):
            missed[name] += found.bounds[name] > evaluate(policy, mdp, TAU).cvar + 1e-9
    assert max(missed.values()) <= 6
