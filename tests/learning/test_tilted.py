"""A step from the behaviour: its parts by hand, and that its bound holds and shows what plans cannot."""

from __future__ import annotations

import math

import numpy as np
import pytest

from logged import frame_of, small_mdp, wide
from tailrank import InputError, MarkovPolicy, evaluate
from tailrank.envs.logs.read import read_log
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.budgets import budgets_for
from tailrank.learning.offline.candidates import Planner
from tailrank.learning.offline.importance import sure_at_least
from tailrank.learning.offline.learn import learn_logs
from tailrank.learning.offline.split import TILTED
from tailrank.learning.offline.tilted import MIDDLE, advantages, behaviour_law, tilt
from tailrank.planning.pessimistic.goals import TailGoal
from tailrank.planning.pessimistic.induction import least_mean
from tailrank.policies.tables import ClonedPolicy
from tailrank.risk.measures import CVaR

LOG = {
    "episode": [0, 1, 2, 3],
    "state": [0, 0, 0, 1],
    "action": [0, 0, 1, 0],
    "reward": [0.0, 2.0, 2.0, 1.0],
    "probability": [0.5, 0.7, 0.2, 0.9],
    "terminated": [True] * 4,
}


def test_laws_by_hand():
    law = behaviour_law(read_log(LOG, actions=(0, 1, 2)))
    np.testing.assert_allclose(law, [[0.6 / 0.8, 0.2 / 0.8, 0.0], [1.0, 0.0, 0.0]])
    more = tilt(law, np.array([[0.0, math.log(3.0), 99.0], [5.0, 0.0, 0.0]]))
    np.testing.assert_allclose(more, [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])


def test_advantages_by_hand():
    """One step: what an action saves of the budget that the plan begins with is the least mean of min(b, reward)."""
    log = read_log(LOG, actions=(0, 1, 2))
    budgets, how = budgets_for(log, (0.0, 2.0), 1.0)[0], counting.Counting(False)
    planner = Planner(TailGoal(1.0), (np.ones(6, dtype=bool),), np.zeros((1, 2), dtype=int))
    found, law = advantages(planner, log, budgets, how), behaviour_law(log)
    first = least_mean(np.array([0.0, 2.0]), np.array([0.5, 0.5]), MIDDLE / 2)
    gain = np.array([first, 2.0 * math.exp(-MIDDLE)]) - (law[0, 0] * first + law[0, 1] * 2.0 * math.exp(-MIDDLE))
    deviation = math.sqrt(0.75 * (law[0, :2] * gain**2).sum())
    np.testing.assert_allclose(found, [[*(gain / deviation), 0.0], [0.0, 0.0, 0.0]], atol=1e-4)


def test_bound_by_weights_holds():
    """With delta = 0.3 it exceeds the truth in no more than 0.3 of 150 logs, and it does say something."""
    mdp, tau = small_mdp(2), 0.3
    policy = MarkovPolicy(np.ones((3, 3), dtype=np.int64))
    true, found = evaluate(policy, mdp, tau).cvar, []
    for seed in range(150):
        one, other = (read_log(frame_of(mdp, 300, 2 * seed + i), states=(0, 1, 2), actions=(0, 1)) for i in (0, 1))
        found.append(sure_at_least(policy, one, other, CVaR(tau), delta=0.3, ends=(0.0, 9.0)))
    assert np.mean(np.array(found) > true) <= 0.3
    assert np.mean(found) > 0.0


def test_a_step_shows_what_plans_cannot():
    """No pair was seen often and no long episode is the plan's, yet more of action 1 is surely better."""
    plan = learn_logs(wide(4000, 0), 0.5, dynamics="same", diagnose=False)
    assert plan.status == "not improved"
    assert "fallback=step" in plan.notes[-1]
    learned = learn_logs(wide(4000, 0), 0.5, dynamics="same", diagnose=False, fallback="step")
    assert learned.status == "improved"
    assert learned.diagnostics["returned"] == TILTED
    assert isinstance(learned.policy, ClonedPolicy)
    assert learned.bounds["all episodes"] < learned.behaviour.high < learned.lower == learned.bounds[TILTED]
    # Every step is like every other: returns are binomial with the mean chance of the law.
    p = float(np.mean(0.2 + 0.7 * learned.policy.law[:, 1]))
    law = [math.comb(4, k) * p**k * (1 - p) ** (4 - k) for k in range(5)]
    left, true = 0.5, 0.0
    for k, chance in enumerate(law):
        true += k * min(chance, left) / 0.5
        left -= min(chance, left)
    assert learned.lower <= true
    assert learned.promise == pytest.approx(true, abs=0.2)


def test_a_step_needs_probabilities():
    frame = wide(50, 0)
    del frame["probability"]
    with pytest.raises(InputError, match="fallback = step: needs states and the column 'probability'"):
        learn_logs(frame, 0.5, fallback="step")
