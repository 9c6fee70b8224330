"""Plans from logs: by hand, coverage of every bound in small simulations, and what is said where records are few."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tailrank
from logged import frame_of, small_mdp
from tailrank import FiniteMDP, InputError, evaluate, solve
from tailrank.envs.logs.read import read_log
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.budgets import budgets_for
from tailrank.learning.offline.dynamics import held_out
from tailrank.learning.offline.learn import learn_logs
from tailrank.planning.pessimistic.induction import least_mean, plan_pessimistic, shortfall_of

THREE = {
    "episode": [0, 0, 1, 1, 2, 2],
    "step": [0, 1] * 3,
    "state": ["first", "second"] * 3,
    "action": ["go"] * 6,
    "reward": [1.0, 2.0] * 3,
    "terminated": [False, True] * 3,
}
"""Two states, three episodes, all alike."""


def test_three_episodes_by_hand():
    """Every pair was seen three times with one outcome, so each keeps exp(-radius) of what it leads to."""
    log = read_log(THREE)
    budgets = budgets_for(log, (0.0, 2.0), 1.0)[0]
    assert budgets.widths.tolist() == [4, 2, 0]
    delta = 0.1
    counts = counting.count(log, budgets, counting.Counting(False))
    model = counting.every_law(counts, delta)
    # The chances that the two rules give to three like outcomes, and the price of the j-th statement.
    first = 1.0 * (1 / 1.5) * (2 / 2.5)
    second = 1.0 * (0.5 / 1) * (1.5 / 2)
    c = -math.log((first + second) / 2)

    def kept(j: int) -> float:
        price = math.log(2.11 * (j + 1) * math.log(j + 1) ** 2)
        return math.exp(-(math.log(1 / delta) + price + c) / 2)  # M = 3 - 1

    start, at_first, at_second = kept(1), kept(2), kept(3)
    tables = plan_pessimistic(model, (np.ones(2, dtype=bool),) * 2, np.zeros((2, 2), dtype=np.int64))
    assert tables.saved[1][1].tolist() == pytest.approx([0, at_second, 2 * at_second])
    assert tables.saved[0][0, 3] == pytest.approx(at_first * (1 + 2 * at_second))
    assert tables.curve[3] == pytest.approx(start * at_first * (1 + 2 * at_second))
    assert shortfall_of(tables)[3] == pytest.approx(3 - tables.curve[3])
    learned = learn_logs(THREE, tau=0.5, dynamics="same")
    assert learned.behaviour.cvar == learned.promise == 3.0
    assert learned.status == "not improved"
    assert 0.0 <= learned.lower < 0.01
    assert learned.states == ("first", "second")


def test_rule_of_prediction_is_a_law():
    """The chances of all sequences of a length sum to no more than one (labels of new outcomes in order)."""
    from itertools import product

    for N in (1, 2, 3, 4):
        total = 0.0
        for word in product(range(N), repeat=N):
            if any(word[i] > max(word[:i], default=-1) + 1 for i in range(N)):
                continue  # a new outcome takes the next label
            n = np.bincount(word).astype(float)
            ptr = np.array([0, n.size])
            share, c = counting._shares(ptr, n)
            best = float((np.where(n > 1, (n - 1) * np.log(np.maximum(share, 1e-300)), 0.0)).sum())
            total += math.exp(best - c[0])
        assert total == pytest.approx(1.0)


@pytest.mark.parametrize("p", [[1.0], [0.9, 0.1], [0.5, 0.3, 0.2], [0.1] * 10])
def test_balls_hold_the_truth(p):
    """With delta = 0.3 the ball of a pair misses the true law in no more than 0.3 of 2,000 logs."""
    rng, misses, law = np.random.default_rng(1), 0, np.array(p)
    for _ in range(2000):
        n = rng.multinomial(rng.integers(5, 60), law).astype(float)
        seen = n > 0
        _, c = counting._shares(np.array([0, int(seen.sum())]), n[seen])
        again = n[seen] - 1
        share = again / max(again.sum(), 1.0)
        distance = float((again * np.log(np.where(again > 0, share / law[seen], 1.0))).sum())
        misses += distance > c[0] + math.log(1 / 0.3)
    assert misses / 2000 <= 0.3


def test_bounds_for_one_function_hold():
    """Radius of `fixed`: the least mean of skewed numbers exceeds their true mean in no more than delta of the logs."""
    rng, delta, misses = np.random.default_rng(2), 0.3, 0
    for _ in range(2000):
        n = int(rng.integers(5, 100))
        x = (rng.random(n) < 0.1) * 10.0
        radius = (math.log(1 / delta) + 0.5 * math.log(n + 1) + math.log(2)) / n
        misses += least_mean(x, np.full(n, 1 / n), radius) > 1.0
    assert misses / 2000 <= delta


def test_prices_sum_to_less_than_one():
    j = np.arange(1.0, 10**6)
    assert np.exp(-counting.price_of(j)).sum() + 1 / math.log(1e6) / 2.11 <= 1.0


@pytest.mark.parametrize("dynamics", ["same", "by-step"])
def test_bounds_hold_and_tighten(dynamics):
    mdp, tau = small_mdp(), 0.3
    best = solve(mdp, tau).cvar
    gaps = []
    for n, logs in ((60, 25), (2000, 6)):
        for seed in range(logs):
            learned = learn_logs(frame_of(mdp, n, 1000 * n + seed), tau, 0.1, dynamics=dynamics)
            true = evaluate(learned.policy, mdp, tau).cvar
            assert learned.lower <= true + 1e-9 <= best + 2e-9
            assert learned.upper >= best - 1e-9
            assert learned.behaviour.low <= learned.behaviour.cvar <= learned.behaviour.high
        gaps.append(best - true)
    assert gaps[1] < 0.05 * best
    assert learned.lower > 0.5 * best


def test_status_improved_where_records_are_many():
    mdp = small_mdp(3, H=4)
    learned = learn_logs(frame_of(mdp, 20000, 0), 0.2)
    assert learned.status == "improved"
    assert learned.lower > learned.behaviour.high
    assert evaluate(learned.policy, mdp, 0.2).cvar == pytest.approx(solve(mdp, 0.2).cvar, rel=0.02)
    assert repr(learned).startswith("Policy from 20000 recorded episodes for the CVaR at tau = ")
    assert "(improved)" in repr(learned)
    assert set(learned.as_dict()) == {
        "status", "tau", "delta", "episodes", "transitions", "lower", "upper", "promise", "behaviour", "seconds",
    }  # fmt: skip


def test_a_hole_in_the_records_is_not_walked_into():
    """Action 1 is never taken in state 0 and would be best there: the plan leaves it alone, upper does not."""
    rows = [(0, 0, 0, 0.9, 2), (0, 0, 0, 0.1, 1), (0, 1, 0, 1.0, 9)]
    mdp = FiniteMDP.from_rows(*zip(*rows), horizon=2)
    frame = frame_of(mdp, 500, 0)
    frame["action"], frame["probability"] = np.zeros(1000, dtype=int), np.ones(1000)
    rng = np.random.default_rng(0)
    frame["reward"] = np.where(rng.random(1000) < 0.9, 2.0, 1.0)
    learned = learn_logs(frame, 0.5, actions=(0, 1), reward_range=(0, 9))
    assert (learned.policy.actions == 0).all()
    assert learned.upper == pytest.approx(18.0)
    assert learned.lower <= evaluate(learned.policy, mdp, 0.5).cvar
    assert learned.coverage.seen_pairs == 1
    assert learned.coverage.possible_pairs == 2


def test_dynamics_are_told_apart():
    same, other = small_mdp(0, H=4), None
    rng = np.random.default_rng(5)
    other = FiniteMDP.from_arrays(rng.dirichlet(0.3 * np.ones(3), (4, 3, 2)), rng.integers(0, 3, (4, 3, 2, 3)))
    for mdp, by_step in ((same, False), (other, True)):
        log = read_log(frame_of(mdp, 800, 1))
        found = held_out(log, np.random.default_rng(0))
        assert (found["by_step"] > found["same"]) == by_step


def test_ends_that_hide_nothing():
    """Episodes that end only at the last step: half of the last outcomes are not known, none may be counted."""
    frame = {
        "episode": [0, 0, 1, 1],
        "state": [0, 0, 0, 0],
        "action": [0] * 4,
        "reward": [0.0] * 4,
        "terminated": [False, True, False, False],
    }
    log = read_log(frame)
    counts = counting.count(log, budgets_for(log, (0.0, 1.0), 1.0)[0], counting.Counting(False))
    assert counts.steps[0].count.tolist() == [2.0]
    assert counts.steps[0].next_state.tolist() == [0]


def test_discount_and_rounding_are_safe():
    mdp = small_mdp(7)
    frame = frame_of(mdp, 3000, 2)
    frame["reward"] = frame["reward"] + np.random.default_rng(0).random(9000) * 0.3
    learned = learn_logs(frame, 0.3, discount=0.9, budgets=100)
    assert learned.policy.grid.rounding == "down"
    assert learned.lower <= learned.promise <= learned.upper
    assert learned.lower > 0.0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tau": 0}, "tau"),
        ({"delta": 1.0}, "delta"),
        ({"dynamics": "none"}, "dynamics"),
        ({"states": "some"}, "states"),
        ({"reward_range": (0, 1)}, "reward_range"),
        ({"reward_range": (2, 0)}, "reward_range = 2 0: the first must not be above the second"),
        ({"reward_range": ("a", 2)}, "reward_range = 'a': must be a number"),
        ({"reward_range": (0,)}, "reward_range = .*: must be two numbers"),
        ({"reward_range": 3}, "reward_range = 3: must be two numbers"),
        ({"reward_range": (-1e300, 1e300)}, "reward_range.* at most 1e"),
        ({"return_range": (0, 1)}, "return_range"),
        ({"return_range": (0,)}, "return_range = .*: must be two numbers"),
        ({"horizon": 1}, "column 'step'"),
        ({"dynamics": None}, "dynamics = None: must be one of"),
        ({"states": None}, "states = None: must be a list"),
        ({"states": ["first", "second", "first"]}, r"states: 'first' is there twice, in states\[0\] and states\[2\]"),
        ({"actions": ["go", "go"]}, "actions: 'go' is there twice"),
        ({"actions": 3}, "actions = 3: must be a list"),
        ({"columns": 3}, "columns = 3: must be a mapping"),
        ({"columns": {"state": 3}}, "column state=3"),
        ({"objective": "cvar"}, "objective = 'cvar': must be a measure"),
        ({"objective": tailrank.CVaR}, "objective = .*: must be a measure"),
    ],
)
def test_bad_settings(options, text):
    with pytest.raises(InputError, match=text):
        tailrank.learn_logs(THREE, **options)
