"""`tailrank theory` on the command line."""

from __future__ import annotations

import json
import math

import pytest
from scipy.special import lambertw

from command import cli, fails
from tailrank.cli.theory import Theory, largest_fixed_point

FIGURES = ["--H", "5", "--A", "4", "--d", "3", "--class-size", "16", "--tau", ".1"]


def test_theory():
    assert "upsilon" in cli("theory", *FIGURES, "--epsilon", ".1").stdout
    found = json.loads(cli("theory", *FIGURES, "--epsilon", ".1", "--json").stdout)
    assert found["H"] == 5
    values = {row["quantity"]: row["value"] for row in found["table"]}
    assert values["upsilon"] == pytest.approx(1 / 150)
    fails(cli("theory", *FIGURES, "--epsilon", "0"), "epsilon")
    fails(cli("theory", *FIGURES, "--epsilon", "1e-310"), "too large")


@pytest.mark.parametrize(("a", "b"), [(1.0, 10.0), (3.0, 2.0), (1e20, 1e5), (2.5e12, 7.0), (10.0, 1.0)])
def test_the_fixed_point_is_that_of_lambert(a, b):
    """x = a log^2(b x) has the largest solution exp(-2 W_-1(-1 / (2 sqrt(a b)))) / b."""
    y = -2.0 * float(lambertw(-0.5 / math.sqrt(a * b), -1).real)
    assert largest_fixed_point(a, b) == pytest.approx(math.exp(y) / b, rel=1e-9)


def test_without_a_solution_one_iteration_is_enough():
    assert largest_fixed_point(1e-6, 1.5) == 1.0


def test_t1_stands_inside_iota():
    """SPEC 1.8: iota = log^2(H d T1 / (nu delta)), and T1 is a multiple of iota."""
    H, d, tau, epsilon, delta = 5, 3, 0.1, 0.1, 0.1
    found = {name: value for name, value, _ in Theory(H, 4, d, 16, tau, epsilon, delta).table()}
    inside = H * d * found["T1"] / (found["upsilon"] * delta)
    assert found["iota"] == pytest.approx(math.log(inside) ** 2)
    scale = H**7 * d**3 / (found["upsilon"] ** 3 * found["planner accuracy"] ** 2)
    assert found["T1"] == pytest.approx(scale * found["iota"])
    without = scale * math.log(H * d / (found["upsilon"] * delta)) ** 2
    assert found["T1"] > 30 * without
