"""Random problems against rational arithmetic (tests/fuzz_checks.py): a few hundred of them, the same every time."""

from __future__ import annotations

import numpy as np
import pytest

import fuzz_checks as fuzz

SEEDS = range(8)


@pytest.mark.parametrize("kind", fuzz.KINDS)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_planners_agree_with_rational_arithmetic(kind):
    place = fuzz.KINDS.index(kind)
    for check in fuzz.CHECKS[:2]:
        for seed in SEEDS:
            found = check(np.random.default_rng([seed, place]), kind)
            assert found
            assert max(found.values()) <= 1.0, (check.__name__, kind, seed, found)


@pytest.mark.parametrize("kind", ["rare", "reals"])
def test_larger_problems_agree_with_an_induction_over_sums(kind):
    for seed in SEEDS[:3]:
        found = fuzz.check_larger(np.random.default_rng(seed), kind)
        assert max(found.values()) <= 1.0, (kind, seed, found)


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_objectives_agree_with_all_policies(kind):
    for seed in range(5):
        found = fuzz.check_objectives(np.random.default_rng([77, seed, fuzz.KINDS.index(kind)]), kind)
        assert max(found.values()) <= 1.0, (kind, seed, found)


def test_objectives_at_the_edge_of_rounding():
    """Drawn by the study: returns of 4e12 that are all the same, and returns as close to a target as numbers are."""
    for seed in (71249, 71260, 70975):
        found = fuzz.check_objectives(np.random.default_rng([seed, 6]), fuzz.KINDS[6])
        assert max(found.values()) <= 1.0, (seed, found)
