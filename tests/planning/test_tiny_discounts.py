"""Rewards that are paid late under a strong discount: tiny returns, as exact as others relative to their size."""

from __future__ import annotations

import numpy as np
import pytest

import tailrank
from tailrank.models.mdp import FiniteMDP

GAMES = ([(0.5, 1.0), (0.5, 2.0)], [(1.0, 1.3)], [(0.2, 0.1), (0.8, np.pi)])
"""The last step's actions, each with outcomes (p, r)."""

TAU = 0.3


def pays_at_its_end(steps: int, discount: float) -> FiniteMDP:
    """A chain of states without a choice or reward, then one step of `GAMES`."""
    rows = [(s, 0, s + 1, 1.0, 0.0) for s in range(steps - 1)]
    rows += [(steps - 1, a, steps - 1, p, r) for a, game in enumerate(GAMES) for p, r in game]
    return FiniteMDP.from_rows(*zip(*rows, strict=True), horizon=steps, discount=discount)


@pytest.mark.parametrize(("steps", "discount"), [(60, 0.5), (80, 0.5), (300, 0.8), (700, 0.9), (50, 0.01), (150, 0.01)])
def test_a_chain_that_pays_at_its_end_is_bracketed_relative_to_what_it_pays(steps, discount):
    paid = discount ** (steps - 1)
    plan = tailrank.solve(pays_at_its_end(steps, discount), tau=TAU, tolerance="1%", seconds=20.0)
    best = 1.3  # the sure action: the others have CVaR 1 and (0.02 + 0.1 pi) / 0.3 = 1.11
    assert plan.lower <= best * paid * (1 + 1e-12)
    assert plan.upper >= best * paid * (1 - 1e-12)
    assert plan.upper - plan.lower <= 0.01 * best * paid
    assert not plan.notes


def test_a_frozen_lake_with_a_strong_discount_is_solved():
    pytest.importorskip("gymnasium")
    mdp = tailrank.read_mdp("FrozenLake8x8-v1", horizon=50, discount=0.01).mdp
    plan = tailrank.solve(mdp, tau=1.0)
    assert 0.0 < plan.lower <= plan.upper <= plan.lower * 1.01


def test_a_discount_that_leaves_nothing_is_no_error():
    plan = tailrank.solve(pays_at_its_end(300, 0.01), tau=TAU)
    assert plan.lower == plan.upper == 0.0
