"""Other objectives than CVaR from logs: against the exact solver on the counted MDP, and in known processes."""

from __future__ import annotations

import numpy as np
import pytest

from logged import frame_of, small_mdp
from tailrank import FiniteMDP, InputError, MarkovPolicy, evaluate, solve
from tailrank.envs.logs.read import read_log
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.behaviour import behaviour_of
from tailrank.learning.offline.budgets import budgets_for
from tailrank.learning.offline.candidates import best_caution, preferred
from tailrank.learning.offline.coverage import action_shares
from tailrank.learning.offline.learn import learn_logs
from tailrank.planning.pessimistic.goals import TailGoal, WorthGoal, goal_of
from tailrank.policies.tables import ClonedPolicy
from tailrank.risk.measures import CVaR, Entropic, Mean, MeanCVaR, MeanVariance, Utility, VaR
from tailrank.runs.policy_files.storage import load, save

MEASURES = (
    MeanCVaR(0.3, 0.5),
    Entropic(0.7),
    MeanVariance(0.05),
    Mean(),
    Utility(((0.0, 0.0), (3.0, 6.0), (9.0, 8.0))),
)
TAIL = WorthGoal(CVaR(0.3), lambda t: np.minimum(t, 0.0) / 0.3, lambda b, w: b + w)
"""CVaR as any other OCE."""


def recorded(n: int, seed: int, H: int = 3, least: float = 0.0):
    """A log of a small MDP, its counts, the masks and the usual actions. least: the reward where the grid begins."""
    mdp = small_mdp(seed, H)
    log = read_log(frame_of(mdp, n, seed), states=range(3), actions=range(2))
    counts = counting.count(log, budgets_for(log, (least, 3.0), 1.0)[0], counting.Counting(False))
    return mdp, log, counts, (np.ones(6, dtype=bool),) * H, np.zeros((H, 3), dtype=np.int64)


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_cvar_by_worth_is_cvar_by_shortfall(seed, closed):
    _, log, counts, allowed, usual = recorded(150, seed)
    model = counting.every_law(counting.count(log, counts.budgets, counting.Counting(False, closed)), 0.3)
    tail = TailGoal(0.3)
    one, other = tail.plan(model, allowed, usual), TAIL.plan(model, allowed, usual)
    np.testing.assert_allclose(TAIL.values(model, other), tail.values(model, one), atol=1e-3)
    assert TAIL.upper(model, allowed) == pytest.approx(tail.upper(model, allowed), abs=1e-3)
    judged = TAIL.judge(model, other.actions)
    for here, there in zip(judged.saved, other.saved, strict=True):
        np.testing.assert_allclose(here, there)


def counted_mdp(counts: counting.LogCounts) -> FiniteMDP:
    """The MDP whose outcomes are as frequent as those of the log, which has all pairs."""
    step = counts.steps[0]
    pair = np.repeat(np.arange(step.ptr.size - 1), np.diff(step.ptr))
    reward = step.units * float(counts.budgets.grid.unit) + float(counts.budgets.grid.origin[0])
    start = counts.first / counts.first.sum()
    return FiniteMDP.from_rows(pair // 2, pair % 2, step.next_state, step.share, reward, horizon=3, start=start)


@pytest.mark.parametrize("least", [0.0, -2.0])
@pytest.mark.parametrize("measure", [CVaR(0.3), *MEASURES], ids=str)
def test_without_doubt_the_plan_is_that_of_the_exact_solver(measure, least):
    for seed in range(3):
        _, _, counts, allowed, usual = recorded(200, seed, least=least)
        model, goal = counting.doubted(counts), goal_of(measure)
        tables = goal.plan(model, allowed, usual)
        budget = int(goal.values(model, tables).argmax())
        exact = solve(counted_mdp(counts), objective=measure)
        slack = 0.05 if isinstance(measure, MeanVariance) else 1e-6  # its best budget lies between two of the grid
        assert goal.values(model, tables)[budget] == pytest.approx(exact.value, abs=slack)
        assert goal.upper(model, allowed) >= exact.value - 1e-6
        policy = goal.policy(model, tables.actions, usual, budget)
        law = evaluate(policy, counted_mdp(counts), 0.3).law
        assert goal.promise(model, tables.actions, budget) == pytest.approx(measure.of_law(law))
        visits = goal.reach(model, tables, budget).visits
        assert visits.sum() == pytest.approx(3.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_judge_with_smaller_budgets_sees_the_plan_as_it_is(seed):
    """Without doubt its value from b is b - E (b - R)^+ / tau, with R the return of the plan from its own budget."""
    _, _, counts, allowed, usual = recorded(200, seed, least=-1.0)
    model, goal = counting.doubted(counts), TailGoal(0.3)
    actions = goal.plan(model, allowed, usual).actions
    assert goal.shifts(model) == (0, 1, 2, 4, 8)  # budgets 0..12
    for by in (0, 1, 3, 8, 12):
        found = goal.values(model, goal.judge(model, goal.shifted(actions, by)))
        for own in range(by, found.size):
            law = evaluate(goal.policy(model, actions, usual, own), counted_mdp(counts), 0.3).law
            b = float(model.grid.value(own - by))
            short = float(law.probs @ np.maximum(b - law.values, 0.0))
            assert found[own - by] == pytest.approx(b - short / 0.3)
            assert found[own - by] <= law.cvar(0.3) + 1e-9


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_bounds_hold_in_known_processes(measure):
    for n, seed in ((60, 0), (60, 1), (2000, 2)):
        mdp = small_mdp(seed)
        learned = learn_logs(frame_of(mdp, n, 50 + seed), delta=0.1, objective=measure, reward_range=(0, 3))
        true = measure.of_law(evaluate(learned.policy, mdp, 0.3).law)
        best = solve(mdp, objective=measure).value
        assert learned.lower <= true + 1e-9 <= best + 0.02
        assert learned.upper >= best - 1e-9
        assert learned.behaviour.low <= learned.behaviour.cvar <= learned.behaviour.high
        assert learned.as_dict()["objective"] == str(measure)
    assert true > 0.9 * best
    assert learned.lower > 0.3 * best


def test_what_is_no_expectation_is_refused():
    with pytest.raises(InputError, match="objective var"):
        learn_logs(frame_of(small_mdp(), 20, 0), objective=VaR(0.1))


def test_interval_of_the_behaviour_by_hand():
    """Four returns 0, 1, 2, 3: the band moves the mass e from the best to 0, or from the worst to 3."""
    log = read_log({"episode": [0, 1, 2, 3], "state": [0] * 4, "action": [0] * 4, "reward": [0.0, 1.0, 2.0, 3.0]})
    found = behaviour_of(log, Mean(), 0.8, (0.0, 3.0), 1.0)
    e = np.sqrt(np.log(1 / 0.4) / 8)  # 0.338: all of the best, and 0.088 of the next
    assert found.low == pytest.approx((0 + 1) / 4 + 2 * (0.5 - e))
    assert found.high == pytest.approx((2 + 3) / 4 + 3 * e + 1 * (0.5 - e))


def test_caution_that_other_records_like():
    """Columns are the cautions 0, 0.1, 0.3, 1, 3, 10; rows the ways to draw halves."""
    better = [[0.0, 1.0, 2.0, 1.5, 1.0, 0.0], [0.0, 1.1, 2.0, 1.5, 1.0, 0.0]]
    assert best_caution(better) == 0.3
    # 0.3 is worth 3 more on average, with a standard error of 2; 1 is worth 0.5 more for sure.
    assert best_caution([[0.0, 1.0, 2.0, 1.5, 1.0, 0.0], [0.0, 1.0, 6.0, 1.5, 1.0, 0.0]]) == 1.0
    assert best_caution([[0.0, 1.0, 2.0, 1.0, 1.0, 0.0], [0.0, 1.0, 6.0, 1.0, 1.0, 0.0]]) == 0.1
    assert best_caution([[2.0] * 6] * 4) == best_caution([]) == 0.1
    assert best_caution([[2.0, 1.0, 1.0, 1.0, 1.0, 1.0]] * 4) == 0.0


def test_a_better_bound_is_worth_a_hundredth():
    """Above 1 there are 2 to promise, so 0.02 less is near enough."""
    assert preferred([3.0, 2.99, 2.9], [1.5, 1.7, 2.0], 1.0) == 1
    assert preferred([3.0, 2.97, 2.9], [1.5, 1.7, 2.0], 1.0) == 0
    assert preferred([0.0, 0.0], [0.1, 0.2], 1.0) == 1


def test_doubt_keeps_off_lucky_pairs():
    """Forty actions of one state pay 0 or 10 alike and were taken once each, the last pays 7 for sure and often."""
    rng = np.random.default_rng(0)
    action = np.concatenate([np.arange(40), np.full(200, 40)])
    reward = np.concatenate([10.0 * (rng.random(40) < 0.5), np.full(200, 7.0)])
    frame = {"episode": np.arange(240), "state": np.zeros(240, dtype=int), "action": action, "reward": reward}
    assert set(learn_logs(frame, 0.25, reward_range=(0, 10)).policy.actions.tolist()) == {40}
    rash = learn_logs(frame, 0.25, reward_range=(0, 10), caution=1e-9)
    assert rash.diagnostics["cross_fitted"] == {}


def test_clone_is_played_saved_and_judged_exactly(tmp_path):
    mdp = small_mdp(1)
    frame = frame_of(mdp, 40, 3)
    learned = learn_logs(frame, 0.3, fallback="behaviour")
    assert learned.status == "not improved"
    assert learned.lower == learned.behaviour.low
    policy = learned.policy
    assert isinstance(policy, ClonedPolicy)
    np.testing.assert_allclose(policy.law, action_shares(read_log(frame)))
    save(policy, tmp_path / "clone.policy")
    again = load(tmp_path / "clone.policy").policy
    np.testing.assert_array_equal(again.law, policy.law)
    there = np.zeros(5, dtype=int)
    np.testing.assert_array_equal(again.act(0, there, again.start(5)), policy.act(0, there, policy.start(5)))
    exact = evaluate(policy, mdp, 0.3).law
    played = evaluate(policy, mdp, 0.3, episodes=20_000, seed=1).law
    assert played.mean == pytest.approx(exact.mean, abs=0.05)
    assert played.cvar(0.3) == pytest.approx(exact.cvar(0.3), abs=0.05)
    sure = ClonedPolicy(np.eye(2)[[0, 1, 0]], 3)
    same = evaluate(MarkovPolicy(np.tile([0, 1, 0], (3, 1))), mdp, 0.3)
    assert evaluate(sure, mdp, 0.3).cvar == pytest.approx(same.cvar)
