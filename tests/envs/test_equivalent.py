"""The MDP that learners play in place of any other has the same returns, and rewards independent of the next state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tailrank
from brute_force import random_rows
from tailrank.envs import from_mdp
from tailrank.envs.built_in import equivalent as module
from tailrank.envs.built_in.equivalent import equivalent
from tailrank.models.mdp import FiniteMDP
from tailrank.models.rewards import dependences
from tailrank.policies.tables import MarkovPolicy

TAUS = (0.05, 0.3, 0.7, 1.0)


def paying_on_arrival(horizon: int, **options: object) -> FiniteMDP:
    """Action 0 pays 2 when it stays in state 0 and 0 when it falls into state 1; action 1 pays 0.5 for certain."""
    rows = [(0, 0, 0, 0.8, 2.0), (0, 0, 1, 0.2, 0.0), (0, 1, 0, 1.0, 0.5), (1, 0, 1, 1.0, 0.0), (1, 1, 1, 1.0, 0.0)]
    return FiniteMDP.from_rows(*zip(*rows, strict=True), horizon=horizon, **options)


@pytest.mark.parametrize("seed", range(40))
def test_the_best_cvar_is_that_of_the_original(seed):
    m = random_rows(np.random.default_rng(seed), "tenths", leaves=400)
    m = replace(m, discount=1.0 if seed % 2 else m.discount)
    mdp = FiniteMDP.from_rows(**m.columns())
    played, _ = equivalent(mdp)
    before = dependences(played).reshape(played.n_blocks, -1)[: played.horizon - 1]
    assert before.max(initial=0.0) <= module.DEPENDENT
    assert np.count_nonzero(played.start) == 1
    for tau in TAUS:
        found, truth = (tailrank.solve(x, tau=tau, tolerance=1e-6) for x in (played, mdp))
        assert found.upper >= truth.lower - 1e-9
        assert found.lower <= truth.upper + 1e-9


def test_rewards_are_owed_where_they_depend_on_the_next_state():
    played, (note,) = equivalent(paying_on_arrival(3))
    assert played.n_states == 3
    assert played.labels == (0, 1, "0 (owed 2)")
    assert "1 more states remember" in note
    assert equivalent(paying_on_arrival(1))[1] == ()  # nothing comes after the last step


def test_an_added_state_has_a_name_of_its_own():
    mdp = paying_on_arrival(1, labels=("start", "start'"), start=[0.5, 0.5])
    assert equivalent(mdp)[0].labels == ("start", "start'", "start''")


def test_the_law_of_a_policy_is_that_of_the_original():
    mdp = paying_on_arrival(4, discount=0.5)
    played, _ = equivalent(mdp)
    actions = np.array([[0, 0], [1, 0], [0, 0], [0, 0]])
    law = tailrank.evaluate(MarkovPolicy(actions), mdp, 0.5).law
    late = tailrank.evaluate(MarkovPolicy(np.column_stack([actions, actions[:, 0]])), played, 0.5).law
    assert late.values == pytest.approx(law.values, abs=1e-12)
    assert late.probs == pytest.approx(law.probs, abs=1e-12)


def test_too_many_copies_are_told_as_misspecified(monkeypatch):
    monkeypatch.setattr(module, "LARGEST_KERNEL", 10)
    played, (note,) = equivalent(paying_on_arrival(3))
    assert played.n_states == 2
    assert note.startswith("misspecified: rewards depend on the next state")


def test_a_policy_of_the_equivalent_mdp_is_evaluated_in_the_original():
    mdp = paying_on_arrival(3)
    plan = tailrank.solve(from_mdp(mdp).truth, tau=0.3)
    assert tailrank.evaluate(plan, mdp).cvar == pytest.approx(tailrank.solve(mdp, tau=0.3).cvar, abs=1e-9)
    with pytest.raises(tailrank.InputError, match="policy: is for 3 steps and 3 states, the MDP has 4 and 2"):
        tailrank.evaluate(plan, paying_on_arrival(4))
