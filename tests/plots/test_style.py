"""Names at the ends of lines move apart: against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank.plots.style import spread


@pytest.mark.parametrize("ends", [[0.1, 0.12, 0.9], [0.5, 0.5, 0.5], [0.3, 0.1, 0.35, 0.0], [0.2]])
def test_names_move_as_little_as_they_can(ends):
    gap = 0.1
    found = np.array(spread(ends, gap))
    order = np.argsort(ends, kind="stable")
    assert (np.diff(found[order]) >= gap - 1e-12).all()
    cost = ((found - ends) ** 2).sum()
    shifts = np.linspace(-0.3, 0.3, 25 if len(ends) < 4 else 13)
    others = np.array(ends) + np.stack(np.meshgrid(*[shifts] * len(ends)), axis=-1).reshape(-1, len(ends))
    others = others[(np.diff(others[:, order], axis=1) >= gap).all(axis=1)]
    assert len(others) > 10
    assert ((others - ends) ** 2).sum(axis=1).min() >= cost - 1e-12
