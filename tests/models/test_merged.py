"""Equal rows added up: the order of the rows is that of a sort by pair, next state and reward, however it is found."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank.models import mdp as module
from tailrank.models.mdp import FiniteMDP


@pytest.mark.parametrize("longest", [64, 1])
def test_the_rows_of_many_are_those_of_few(monkeypatch, longest):
    rng = np.random.default_rng(0)
    state, action = np.repeat(np.arange(6), 30), np.tile(np.repeat(np.arange(2), 15), 6)
    prob = rng.dirichlet(np.ones(15), 12).ravel()
    mdp = FiniteMDP.from_rows(state, action, rng.integers(0, 3, 180), prob, rng.integers(0, 3, 180), horizon=2)
    few = mdp.merged()
    monkeypatch.setattr(module, "MANY_ROWS", 0)
    monkeypatch.setattr(module, "LONG_PAIR", longest)  # 1: a row moves further, so all rows are sorted after all
    many = mdp.merged()
    for name in ("ptr", "next_state", "prob", "reward"):
        np.testing.assert_array_equal(getattr(many, name), getattr(few, name))
    assert few.prob.size < mdp.prob.size
