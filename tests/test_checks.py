"""Checks of numbers: what is let through, and the one line for what is not."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank import checks
from tailrank.checks import InputError


@pytest.mark.parametrize(
    ("interval", "allowed", "refused"),
    [
        ("(0, 1)", (1e-300, 0.5), (0, 1, -0.1, 1.1)),
        ("(0, 1]", (1e-300, 1), (0, -1, 1.1)),
        ("[0, 1)", (0, 0.5), (1, -1e-9, 2)),
        ("[0.5, 2]", (0.5, 2, "1.5"), (0.49, 2.01)),
    ],
)
def test_an_interval_has_the_ends_that_it_says(interval, allowed, refused):
    for value in allowed:
        assert checks.inside(value, "x", interval) == float(value)
    for value in refused:
        with pytest.raises(InputError) as error:
            checks.inside(value, "x", interval)
        assert str(error.value) == f"x = {value}: must lie in {interval}"


@pytest.mark.parametrize("check", [checks.positive, checks.not_negative, lambda v, n: checks.inside(v, n, "[0, 1]")])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), "much", None, -1])
def test_what_is_no_number_or_below_zero_is_refused(check, value):
    with pytest.raises(InputError, match=r"^x = .*: must \S[^\n]*$"):
        check(value, "x")


def test_zero_is_not_positive_and_not_negative():
    assert checks.not_negative(0, "x") == 0.0
    with pytest.raises(InputError, match="x = 0: must be positive"):
        checks.positive(0, "x")


@pytest.mark.parametrize(("values", "first"), [([0, 3, 4, -1], r"a\[2\] = 4"), ([2, -1], r"a\[1\] = -1")])
def test_the_first_index_outside_is_named(values, first):
    checks.indices(np.arange(4), "a", 4, "at step 0")
    checks.indices(np.arange(0), "a", 4, "at step 0")
    with pytest.raises(InputError, match=rf"^{first} at step 7: must lie in 0\.\.3$"):
        checks.indices(np.array(values), "a", 4, "at step 7")


@pytest.mark.parametrize("value", [None, 3, ["a"], {"a": 1}])
def test_what_is_no_word_is_refused_as_a_word_would_be(value):
    with pytest.raises(InputError, match=r"^x = .*: must be one of a, b$"):
        checks.one_of(value, "x", ("a", "b"))


def test_a_span_is_two_numbers_in_order():
    assert checks.span(["1", 2], "x") == (1.0, 2.0)
    for values in (3, None, (1,), (1, 2, 3), (2, 1), ("a", 1), (float("nan"), 1)):
        with pytest.raises(InputError, match=r"^x = "):
            checks.span(values, "x")
