"""The instructions on rows against what they say they compute, in plain Python."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tailrank._system.jit import compiled
from tailrank.planning import _row_kernels
from tailrank.planning._row_kernels import lowest as _lowest
from tailrank.planning._row_kernels import sum_rows as _sum_rows

PLAIN = {name: getattr(_row_kernels, name).__wrapped__ for name in ("sum_rows", "lowest")}


@compiled
def summed(x, to, n, at, weight, begin, end, shift, v, base, more):
    _sum_rows(x, to, n, at, weight, begin, end, shift, v, base, more)


@compiled
def least(x, at, bonus, name, m, n, tie, best, chosen, label):
    _lowest(x, at, bonus, name, m, n, tie, best, chosen, label)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 31, 32, 33, 40, 100])
@pytest.mark.parametrize(("begin", "end"), [(0, 0), (0, 1), (2, 9), (0, 20)])
@pytest.mark.parametrize("more", [False, True])
def test_sums_of_rows_are_those_of_python_and_nothing_else_is_written(n, begin, end, more):
    rng = np.random.default_rng([n, begin, end])
    v, at, weight = rng.normal(size=400), rng.integers(0, 280, 20), rng.random(20)
    expected, found = np.full((2, 120), 3.5)
    rest = (at, weight, begin, end, 5, v, 0.25, more)
    PLAIN["sum_rows"](expected, 4, n, *rest)
    summed(found, 4, n, *rest)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)
    assert (np.delete(found, range(4, 4 + n)) == 3.5).all()


@pytest.mark.parametrize("n", [1, 8, 33, 77])
@pytest.mark.parametrize("m", [1, 2, 4, 7])
def test_lowest_is_that_of_python_with_ties(n, m):
    rng = np.random.default_rng([n, m])
    x = rng.integers(0, 3, 1000) * (1.0 + 1e-15 * rng.integers(-2, 3, 1000))  # many ties, some but for rounding
    at, bonus = rng.integers(0, 900, m), rng.integers(0, 2, m) * 0.5
    name = np.arange(m) * 2.0 + 1.0
    expected, found = np.full((2, 3, n + 9), 7.0)
    PLAIN["lowest"](x, at, bonus, name, m, n, 1e-13, *expected)
    least(x, at, bonus, name, m, n, 1e-13, *found)
    np.testing.assert_array_equal(found, expected)
    assert m == 1 or n < 33 or (found[2, :n] == -1.0).any()
    assert m > 1 or (found[2, :n] == name[0]).all()


def test_compiling_leaves_the_collector_as_it_was():
    @compiled
    def fresh(x):
        return x + 3

    assert gc.isenabled()
    assert fresh(2) == 5
    assert gc.isenabled()
