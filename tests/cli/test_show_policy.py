"""`tailrank show` of a policy on observations: latents, budgets and actions as the policy itself plays them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner

from tailrank import save
from tailrank.cli import main
from tailrank.models.grid import BudgetGrid
from tailrank.policies.decoders.table import TableDecoder
from tailrank.policies.observed import ObservationPolicy, ObservedPlan

H, K, A, C = 2, 3, 2, 4


@pytest.fixture
def saved(tmp_path):
    """Two latents that are met and one that is not; at step 1 latent 1 plays 0 up to budget 1, then 1."""
    decoder = TableDecoder(np.arange(K, dtype=np.float64)[:, None], 2)
    values = [np.zeros((K, A, C)) for _ in range(H)]
    values[1][1, 1] = [1.0, 1.0, -1.0, -1.0]
    values[0][0, 0] = 1.0
    grid = BudgetGrid(Fraction(1, 2), (Fraction(-1),) * H, "nearest")
    base, moves = np.array([[0.5, 0.5, 0.0]]), np.full((1, K, A, K), 1 / K)
    policy = ObservationPolicy(decoder, ObservedPlan(tuple(values), 3, 0.5, np.zeros(C)), grid, base, moves, False)
    path = tmp_path / "plan.policy"
    save(policy, path, info={"source": "a game", "tau": 0.1, "cvar": 0.25, "actions": {"kind": "discrete", "n": 2}})
    return str(path)


def shown(*arguments):
    result = CliRunner().invoke(main, ["show", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_latents_take_the_place_of_states(saved):
    text = shown(saved)
    for words in ("source      a game", "cvar        0.25", "decoder (table) of 1 features finds 3 latents"):
        assert words in text
    assert "tables: 2 steps, 3 latents, 2 actions, 4 to 4 budgets" in text
    # 3 units of 1/2 above what two steps pay at least, 2 (-1).
    assert "starts with budget -0.5" in text
    rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert rows == [
        ["0", "0", "any", "1"],
        ["0", "1", "any", "0"],
        ["1", "0", "any", "0"],
        ["1", "1", "up", "to", "-0.5", "0"],
        ["1", "1", "from", "0", "1"],
    ]
    assert "4 more rows" in shown(saved, "--rows", "1")
    assert "any" not in shown(saved, "--step", "1", "--state", "1")


def test_a_latent_that_is_not_there(saved):
    result = CliRunner().invoke(main, ["show", saved, "--state", "3"])
    assert result.exit_code == 2
    assert "latent = 3: must lie in 0..2" in result.stderr
