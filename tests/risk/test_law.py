"""VaR and CVaR of laws and samples against four other ways to compute them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_force import cvar_by_integral, cvar_by_lp, cvar_by_sorting, cvar_by_supremum, var_by_definition
from tailrank.checks import InputError
from tailrank.risk import law

LEVELS = (1e-4, 0.01, 0.05, 0.1, 0.25, 1 / 3, 0.5, 0.7, 0.9, 0.999, 1.0)


def random_law(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n = int(rng.integers(1, 12))
    values = rng.integers(-3, 4, n).astype(float) if rng.random() < 0.5 else rng.normal(size=n)
    return values, rng.dirichlet(np.ones(n))


def close(found: float, expected: float, scale: float, digits: float = 1e-12) -> bool:
    return abs(found - float(expected)) <= digits * max(scale, 1.0)


@pytest.mark.parametrize("seed", range(25))
def test_four_ways_agree_on_random_laws(seed):
    rng = np.random.default_rng(seed)
    values, probs = random_law(rng)
    scale = float(np.abs(values).max())
    for tau in (*LEVELS, float(rng.uniform(0.01, 1))):
        exact = float(cvar_by_integral(values, probs, tau))
        assert close(law.cvar(values, tau, probs), exact, scale / min(1.0, 10 * tau))
        assert close(cvar_by_supremum(values, probs, tau), exact, scale / tau)
        assert close(cvar_by_sorting(values, probs, tau), exact, scale / tau)
        assert close(cvar_by_lp(values, probs, tau), exact, scale / tau)


@pytest.mark.parametrize("seed", range(25))
def test_samples_are_laws_with_equal_weights(seed):
    rng = np.random.default_rng(seed)
    sample = rng.normal(size=int(rng.integers(1, 40)))
    weights = [Fraction(1, sample.size)] * sample.size
    for tau in (*LEVELS, 1 / sample.size, 1.5 / sample.size):
        if tau > 1:
            continue
        assert close(law.cvar(sample, tau), cvar_by_integral(sample, weights, tau), 4.0)
        assert law.var(sample, 0.999 * tau) == float(var_by_definition(sample, weights, 0.999 * tau))


def test_fractional_tail_splits_the_boundary_value():
    assert law.cvar([1, 2, 3, 4], 0.375) == pytest.approx((1 + 0.5 * 2) / 1.5, abs=1e-15)
    assert law.cvar([4, 1, 3, 2], 0.3) == pytest.approx((1 + 0.2 * 2) / 1.2, abs=1e-15)
    assert law.var([1, 2, 3, 4], 0.375) == 2


def test_ties_count_together():
    values, probs = [5, 1, 1, 1, 2], [0.2, 0.1, 0.2, 0.1, 0.4]
    assert law.var(values, 0.4, probs) == 1
    assert law.var(values, 0.41, probs) == 2
    assert law.cvar(values, 0.6, probs) == pytest.approx((0.4 * 1 + 0.2 * 2) / 0.6, abs=1e-14)
    ties = law.ReturnLaw.of(values, probs)
    assert ties.values.tolist() == [1, 2, 5]
    assert ties.probs == pytest.approx([0.4, 0.4, 0.2], abs=1e-15)


def test_level_one_is_the_mean():
    rng = np.random.default_rng(3)
    values, probs = random_law(rng)
    assert close(law.cvar(values, 1.0, probs), float(values @ probs), 3.0)
    assert law.var(values, 1.0, probs) == values.max()
    assert law.ReturnLaw.of(values, probs).mean == pytest.approx(float(values @ probs), abs=1e-14)


@pytest.mark.parametrize("tau", [1e-300, 1e-12, 0.01, 0.0999999])
def test_level_below_the_smallest_atom_is_the_worst_value(tau):
    assert law.cvar([3.0, -7.25, 8.0], tau, [0.5, 0.1, 0.4]) == -7.25
    assert law.var([3.0, -7.25, 8.0], tau, [0.5, 0.1, 0.4]) == -7.25


@pytest.mark.parametrize("tau", LEVELS)
def test_one_value(tau):
    assert law.cvar([2.5], tau) == law.var([2.5], tau) == 2.5


def test_zero_probability_is_no_atom():
    values, probs = [-100.0, 0.0, 1.0], [0.0, 0.5, 0.5]
    assert law.cvar(values, 0.01, probs) == law.var(values, 0.01, probs) == 0.0
    assert law.ReturnLaw.of(values, probs).values.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("probs", "tau", "expected"),
    [
        (("0.7", "0.1", "0.1", "0.1"), "0.9", 2),  # 0.7 + 0.1 + 0.1 < 0.9 in floats
        (("0.1",) * 10, "0.3", 2),  # 0.1 + 0.1 + 0.1 > 0.3 in floats
        (("0.1",) * 10, "0.8", 7),
        (("0.05",) * 20, "0.15", 2),
    ],
)
def test_boundary_is_found_in_spite_of_float_sums(probs, tau, expected):
    values = list(range(len(probs)))
    floats = [float(p) for p in probs]
    assert var_by_definition(values, probs, tau) == expected
    assert law.var(values, float(tau), floats) == expected
    assert close(law.cvar(values, float(tau), floats), cvar_by_integral(values, probs, tau), expected)


def test_quantile_just_above_a_boundary_is_the_next_value():
    assert law.var([0, 1], 0.5 + 1e-9, [0.5, 0.5]) == 1
    assert law.var([0, 1], 0.5 - 1e-9, [0.5, 0.5]) == 0


@pytest.mark.parametrize("offset", [1e9, -1e12, 2.0**50])
@pytest.mark.parametrize("tau", [0.001, 0.1, 0.35, 1.0])
def test_huge_offset_costs_only_its_own_rounding(offset, tau):
    rng = np.random.default_rng(5)
    values = offset + np.round(rng.normal(size=50) * 64) / 64
    probs = rng.dirichlet(np.ones(50))
    exact = cvar_by_integral([Fraction(v) - Fraction(offset) for v in values], probs, tau)
    assert abs((law.cvar(values, tau, probs) - offset) - float(exact)) <= 2 * np.spacing(abs(offset))
    mean = cvar_by_integral([Fraction(v) - Fraction(offset) for v in values], probs, 1)
    assert abs((law.ReturnLaw.of(values, probs).mean - offset) - float(mean)) <= 2 * np.spacing(abs(offset))


def test_mean_of_many_values_far_from_zero():
    rng = np.random.default_rng(1)
    spread = np.arange(5000) / 64
    probs = rng.dirichlet(np.ones(5000))
    found = law.ReturnLaw.of(1e12 + spread, probs).mean - 1e12
    assert found == pytest.approx(float(probs @ spread), abs=np.spacing(1e12))


def test_level_one_reaches_the_last_of_many_values():
    """A float sum of many equal weights ends short of one, or beyond."""
    for n in (100_000, 700_000):
        assert law.var(np.arange(n), 1.0) == n - 1


def test_many_values_keep_their_digits():
    rng = np.random.default_rng(6)
    sample = rng.normal(size=20_001)
    for tau in (0.05, 0.1, 1.0):
        k = tau * sample.size
        worst = np.sort(sample)
        whole = int(k)
        part = (k - whole) * worst[whole] if whole < sample.size else 0.0
        assert close(law.cvar(sample, tau), (worst[:whole].sum() + part) / k, 4.0, 1e-11)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], 0.0), r"tau = 0\.0: must lie in \(0, 1\]"),
        (([1.0], 1.5), r"tau = 1\.5: must lie in \(0, 1\]"),
        (([1.0], -0.1), r"tau = -0\.1: must lie in \(0, 1\]"),
        (([1.0], float("nan")), r"tau = nan: must be finite"),
        (([1.0], "a tenth"), r"tau = 'a tenth': must be a number"),
        (([], 0.5), r"values: at least one is needed, found none"),
        (([1.0, float("nan")], 0.5), r"values\[1\] = nan: must be finite"),
        (([1.0, 2.0, float("inf")], 0.5), r"values\[2\] = inf: must be finite"),
        (([1.0, 2.0], 0.5, [0.5, 0.4]), r"probs sums to 0\.9, expected 1"),
        (([1.0, 2.0], 0.5, [1.25, -0.25]), r"probs\[1\] = -0\.25: a probability must not be negative"),
        (([1.0, 2.0], 0.5, [1.0]), r"probs: must be 2 probabilities, found shape \(1,\)"),
        (([1.0, 2.0], 0.5, ["x", "y"]), r"probs: must be 2 probabilities"),
    ],
)
@pytest.mark.parametrize("function", [law.cvar, law.var])
def test_bad_input_is_named(function, arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)


def test_bad_values_are_named():
    with pytest.raises(InputError, match="values"):
        law.cvar(["a", "b"], 0.5)


# Properties

numbers = st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 6))
levels = st.floats(0.01, 1.0)


@st.composite
def laws(draw, least=1):
    n = draw(st.integers(least, 8))
    values = draw(st.lists(numbers, min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(1, 20), min_size=n, max_size=n))
    return np.array(values), np.array(weights) / sum(weights)


quick = settings(max_examples=60, deadline=None)


@quick
@given(laws(), levels, levels)
def test_monotone_in_the_level(drawn, tau, other):
    low, high = sorted((tau, other))
    assert law.cvar(drawn[0], low, drawn[1]) <= law.cvar(drawn[0], high, drawn[1]) + 1e-10
    assert law.var(drawn[0], low, drawn[1]) <= law.var(drawn[0], high, drawn[1])


@quick
@given(laws(), levels, numbers, st.floats(0.01, 50))
def test_translation_and_positive_scaling(drawn, tau, shift, factor):
    values, probs = drawn
    base, quantile = law.cvar(values, tau, probs), law.var(values, tau, probs)
    assert law.cvar(values + shift, tau, probs) == pytest.approx(base + shift, abs=1e-9)
    assert law.cvar(factor * values, tau, probs) == pytest.approx(factor * base, abs=1e-9 * factor * 100)
    assert law.var(factor * values + shift, tau, probs) == pytest.approx(factor * quantile + shift, abs=1e-9)


@quick
@given(laws(), levels, st.lists(numbers, min_size=8, max_size=8))
def test_lipschitz_in_the_largest_change(drawn, tau, noise):
    values, probs = drawn
    moved = values + np.array(noise)[: values.size] / 10
    change = np.abs(moved - values).max()
    assert abs(law.cvar(moved, tau, probs) - law.cvar(values, tau, probs)) <= change + 1e-10


@quick
@given(laws(), levels)
def test_between_the_worst_value_and_quantile_and_below_the_mean(drawn, tau):
    values, probs = drawn
    found = law.cvar(values, tau, probs)
    assert values.min() - 1e-10 <= found <= law.var(values, tau, probs)
    assert found <= probs @ values + 1e-10


@quick
@given(laws(), levels)
def test_agrees_with_rational_arithmetic(drawn, tau):
    values, probs = drawn
    assert law.cvar(values, tau, probs) == pytest.approx(float(cvar_by_integral(values, probs, tau)), abs=1e-10)


@quick
@given(laws(), laws(), levels, st.floats(0.05, 0.95))
def test_convex_in_the_law(first, second, tau, weight):
    values = np.concatenate([first[0], second[0]])
    probs = np.concatenate([weight * first[1], (1 - weight) * second[1]])
    parts = weight * law.cvar(first[0], tau, first[1]) + (1 - weight) * law.cvar(second[0], tau, second[1])
    assert law.cvar(values, tau, probs) <= parts + 1e-9


def test_a_mixture_can_be_strictly_worse_than_both():
    assert law.cvar([0.5], 0.5) == 0.5
    assert law.cvar([0.0, 1.0], 0.5, [0.25, 0.75]) == 0.5
    assert law.cvar([0.5, 0.0, 1.0], 0.5, [0.5, 0.125, 0.375]) == 0.375


@quick
@given(laws(), levels, st.floats(-150, 150))
def test_no_budget_beats_the_quantile(drawn, tau, budget):
    values, probs = drawn
    found = law.ReturnLaw.of(values, probs)
    assert budget - found.shortfall(budget) / tau <= found.cvar(tau) + 1e-9
