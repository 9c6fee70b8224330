"""Counts of latent transitions against a dictionary."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tailrank.models.latent_counts import LatentCounts


def draws(rng, n, steps, K, A, top):
    """Columns (h, z, a, next, units) with many repeats; next = K ends the episode."""
    columns = [rng.integers(size, size=n) for size in (steps, K, A, K + 1, top + 1)]
    return [np.where(rng.random(n) < 0.5, x, x // 2) for x in columns]


@pytest.mark.parametrize(("steps", "K", "A", "top"), [(1, 1, 1, 0), (3, 2, 2, 1), (4, 3, 2, 5), (1, 6, 3, 2)])
def test_counts_are_those_of_a_dictionary(steps, K, A, top):
    rng = np.random.default_rng([steps, K])
    columns = draws(rng, 300, steps, K, A, top)
    expected = Counter(zip(*(x.tolist() for x in columns)))
    counts = LatentCounts(steps, K, A, top)
    counts.add(*columns)

    ptr, after, units, number = counts.outcomes()
    assert ptr[0] == 0
    assert ptr[-1] == number.size == len(expected)
    pairs = np.repeat(np.arange(steps * K * A), np.diff(ptr))
    h, z, a = np.unravel_index(pairs, (steps, K, A))
    found = dict(zip(zip(*(x.tolist() for x in (h, z, a, after, units))), number.tolist()))
    assert found == expected

    visits, transitions = np.zeros((steps, K, A)), np.zeros((steps, K, A, K + 1))
    for (h_, z_, a_, after_, _), n in expected.items():
        visits[h_, z_, a_] += n
        transitions[h_, z_, a_, after_] += n
    np.testing.assert_array_equal(counts.visits(), visits)
    np.testing.assert_array_equal(counts.transitions(), transitions)
    np.testing.assert_array_equal(counts.going_on(), transitions[..., :-1].sum(axis=-1))


def test_adding_little_by_little_is_adding_at_once():
    rng = np.random.default_rng(3)
    columns = draws(rng, 400, 3, 4, 2, 3)
    once, slowly = LatentCounts(3, 4, 2, 3), LatentCounts(3, 4, 2, 3)
    once.add(*columns)
    cuts = np.sort(rng.integers(0, 400, size=25))
    for part in np.split(np.arange(400), cuts):  # some parts are empty
        slowly.add(*(x[part] for x in columns))
    np.testing.assert_array_equal(once.codes, slowly.codes)
    np.testing.assert_array_equal(once.counts, slowly.counts)
    assert (np.diff(once.codes) > 0).all()


def test_nothing_counted_is_zero():
    counts = LatentCounts(2, 3, 2, 1)
    assert counts.visits().shape == (2, 3, 2)
    assert counts.transitions().shape == (2, 3, 2, 4)
    assert not counts.visits().any()
    ptr, *rest = counts.outcomes()
    assert ptr.tolist() == [0] * 13
    assert all(x.size == 0 for x in rest)


def test_a_copy_is_its_own():
    counts = LatentCounts(1, 2, 2, 1)
    one = [np.array([x]) for x in (0, 1, 1, 2, 1)]
    counts.add(*one)
    copy = counts.copy()
    counts.add(*one)
    assert (copy.counts.tolist(), counts.counts.tolist()) == ([1.0], [2.0])
    copy.add(*(np.array([x]) for x in (0, 0, 0, 0, 0)))
    assert counts.codes.size == 1
