"""Maps of policies on observations: every cell is what the policy says there, and it is said what is drawn."""

from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
import pytest
from map_cases import Formula, beside_of

from tailrank.policies.recall import Recall, RecallPolicy
from tailrank.policies.subset import SubsetPolicy
from tailrank.policies.tables import UniformPolicy
from tailrank.report._maps import state_maps


def unpacked(packed):
    """The numbers in a packed array."""
    ((kind, text),) = packed.items()
    return np.frombuffer(base64.b64decode(text), dtype=f"<{kind}")


def floats(packed):
    return np.array(packed) if isinstance(packed, list) else unpacked(packed)


@pytest.mark.parametrize(("m", "by"), [(5, (3, 1)), (3, (2, 0)), (2, (1, 0)), (1, (0, 0))])
def test_every_cell_is_what_the_policy_says_there(m, by):
    policy, beside = Formula(m, by), beside_of(m)
    found = state_maps(policy, beside)
    drawn, across, up = found["features"], floats(found["across"]), floats(found["up"])
    assert set(drawn[:2]) == set(by), "the two coordinates that matter are drawn"
    assert (found["slices"] is not None) == (m == 3)
    slices = found["slices"] or [0.0]
    typical = np.array([dict(map(tuple, found["others"])).get(j, 0.0) for j in range(m)])
    actions, values = unpacked(found["actions"]), unpacked(found["values"])
    for h, budgets in zip(found["steps"], found["budgets"], strict=True):
        assert budgets[2] == pytest.approx(2.0 - 0.5 * h, abs=0.51), "the budget that is usual at this step"
        assert np.diff(budgets) == pytest.approx(np.full(4, 2.0)), "a half of the 8 between worst and best, in halves"
    every = (len(found["steps"]), 5, len(slices), up.size, across.size)
    assert actions.size == values.size == np.prod(every)
    for place in np.random.default_rng(0).integers(0, actions.size, size=200):
        step, budget, third, y, x = np.unravel_index(place, every)
        state = typical.copy()
        for j, value in zip(drawn, (across[x], up[y], slices[third]), strict=False):
            state[j] = value
        h, here = found["steps"][step], (state[None], np.array([found["budgets"][step][budget]]))
        assert actions[place] == policy.act(h, *here)[0]
        assert values[place] == pytest.approx(policy.shortfall(h, *here)[0], rel=1e-6)


def test_the_other_coordinates_are_those_of_one_observation_that_was_met():
    beside = beside_of(5)
    others = state_maps(Formula(), beside)["others"]
    assert sorted(j for j, _ in others) == [0, 2, 4]
    assert any(all(row[j] == value for j, value in others) for row in beside.seen)


def test_cells_that_were_met_are_told_from_others():
    beside = beside_of(2)
    ring = np.linspace(0, 2 * np.pi, 200)
    beside = replace(beside, seen=np.column_stack([np.cos(ring), np.sin(ring)]))
    found = state_maps(Formula(2, (0, 1)), beside)
    met = unpacked(found["met"]).reshape(floats(found["up"]).size, -1)
    assert met[0, met.shape[1] // 2] == 1
    assert met[16, 16] == 0
    assert met[0, 0] == 0
    assert len(found["ways"][0]) == 6, "the worst episode is five steps long"
    np.testing.assert_array_equal(found["ways"][0], beside.observations[0, :6][:, found["features"]])


def test_few_values_are_cells_of_their_own():
    beside = beside_of(2)
    seen = np.random.default_rng(0).choice([0.0, 1.0, 5.0], size=(200, 2))
    assert floats(state_maps(Formula(2, (0, 1)), replace(beside, seen=seen))["across"]).tolist() == [0.0, 1.0, 5.0]


def test_a_policy_on_some_of_the_actions_has_maps_too():
    policy, beside = Formula(2, (0, 1)), beside_of(2)
    plain, some = state_maps(policy, beside), state_maps(SubsetPolicy(policy, np.array([2, 5, 7, 11])), beside)
    np.testing.assert_array_equal(unpacked(some["actions"]), np.array([2, 5, 7, 11])[unpacked(plain["actions"])])
    assert some["values"] == plain["values"]


def test_what_cannot_be_drawn_is_said():
    beside = beside_of(5)
    assert "nothing to draw" in state_maps(Formula(), None)
    assert "5 numbers" not in state_maps(Formula(7), beside)
    assert "have 7 numbers" in state_maps(Formula(7), beside)
    assert "remembers more" in state_maps(UniformPolicy(2, 3, np.random.default_rng(0)), beside)
    recalling = SubsetPolicy(RecallPolicy(Formula(10), Recall(1), 5, 4), np.arange(4))
    assert "recalls the last observation:" in state_maps(recalling, beside)
    assert "the same" in state_maps(Formula(), replace(beside, seen=np.ones((200, 5))))
