"""The check of named arrays: what fits gives sizes, what does not is named with the rule that it breaks."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank._system.arrays import check_arrays
from tailrank.checks import InputError

MOVES = np.full((1, 2, 3, 2), 0.5)


def test_letters_are_one_size_everywhere():
    arrays = {"moves": MOVES, "base": np.ones((1, 2)), "offset": np.array([0, 2, 5]), "flat": np.zeros(0)}
    described = {"moves": "float [T=1|H, K, A, K] >= 0, sums to 1", "base": "float [T, K]"}
    described |= {"offset": "whole [K+1] offsets of n", "flat": "float [m*]"}
    assert check_arrays(arrays, described, H=4, n=5) == {"H": 4, "n": 5, "T": 1, "K": 2, "A": 3, "m": 0}


@pytest.mark.parametrize(
    ("array", "description", "message"),
    [
        (np.ones((2, 3)), "float [n, n]", r"x: must be float \[n, n\], found float64 of shape \[2, 3\]"),
        (np.ones((2, 3)), "float [H, 2]", r"x: must be float \[H, 2\] with H = 4, found"),
        (np.ones(3), "float [1|H]", r"x: must be float \[1\|H\] with H = 4"),
        (np.ones(0), "float [n]", r"x: must be float \[n\]"),
        (np.ones(9), "float [2*H+2]", "of shape .9."),
        (np.ones(3), "whole [n]", "found float64"),
        (np.ones(3), "float64 [n, *]", "found"),
        (np.ones(3, dtype=np.float32), "float64 [n]", "found float32"),
        (np.ones(3, dtype=np.int8), "uint64 [n]", "found int8"),
        (np.array([2**60]), "whole [n]", "x: is out of range"),
        (np.array([2**64 - 1], dtype=np.uint64), "whole [n]", "x: is out of range"),
        (np.array([1, np.nan]), "float [n]", "x: must be finite"),
        (np.array([1, -2]), "whole [n] >= 0", "x: must be >= 0, holds -2"),
        (np.array([1, 4]), "whole [n] < H", "x: must be < 4, holds 4"),
        (np.array([3, 2], dtype=np.uint8), "whole [n] ordered", "x: must be ordered"),
        (np.array([3, 3]), "whole [n] increasing", "x: must be increasing"),
        (np.array([0, 3]), "whole [n] offsets of H", "x: must lead from 0 to 4"),
        (np.array([0, 5, 4]), "whole [n] offsets of H", "x: must lead from 0 to 4"),
        (np.array([1, 4]), "whole [n] offsets of H", "x: must lead from 0 to 4"),
        (np.array([0.5, 0.6]), "float [n] sums to 1", "x: must sum to 1"),
    ],
)
def test_what_does_not_fit_is_refused(array, description, message):
    with pytest.raises(InputError, match=message):
        check_arrays({"x": array}, {"x": description}, H=4)


def test_names_are_checked():
    with pytest.raises(InputError, match=r"part: must hold \['y'\]; found \['x'\]"):
        check_arrays({"x": MOVES}, {"x": "float [*, *, *, *]", "y": "float []"}, "part.")
    with pytest.raises(InputError, match=r"arrays: must not hold \['x'\]"):
        check_arrays({"x": MOVES}, {})
    assert check_arrays({"x": np.array([-np.inf])}, {"x": "float [n] any"}) == {"n": 1}
