"""What figures of laws leave out."""

from __future__ import annotations

import numpy as np

from tailrank.plots._laws import _bins, span
from tailrank.risk.law import ReturnLaw


def law(values, probs):
    return ReturnLaw(np.array(values, dtype=float), np.array(probs) / np.sum(probs))


def test_negligible_outcomes_are_left_out_where_they_take_much_room():
    rare, plain = law([-900, 0, 5, 9], [1e-7, 0.2, 0.4, 0.4]), law([0, 5, 9], [0.3, 0.3, 0.4])
    assert span([plain]) == (0.0, 9.0)
    assert span([rare, plain]) == (0.0, 9.0)
    centre, mass, worst = _bins(rare, 0.1, 0.0, 9.0, 1.0)
    assert centre[[0, -1]].tolist() == [0.0, 9.0]
    np.testing.assert_allclose(mass.sum(), 1.0, atol=1e-6)
    np.testing.assert_allclose(worst[0], 0.1, atol=1e-6)


def test_outcomes_that_count_stay():
    seldom = law([-900, 0, 9], [1e-3, 0.5, 0.5])
    assert span([seldom]) == (-900.0, 9.0)
    near = law([-1, 0, 9], [1e-7, 0.5, 0.5])
    assert span([near]) == (-1.0, 9.0)
