"""Sparse counts, the finite class and the tabular oracle, against loops and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tailrank.checks import InputError
from tailrank.learning.oracles.counts import TabularCounts
from tailrank.learning.oracles.finite_class import FiniteClass
from tailrank.learning.oracles.fit import log_likelihood
from tailrank.models.counts import SparseCounts
from tailrank.models.lowrank import StepModel

RNG = np.random.default_rng(0)


def random_step(rng, g=4, a=2, d=3, after=5):
    return StepModel(rng.dirichlet(np.ones(d), (g, a)), rng.dirichlet(np.ones(after), d))


def by_loops(step, counts):
    total = 0.0
    for (g, a, s), n in np.ndenumerate(counts):
        if n:
            p = sum(step.phi[g, a, j] * step.psi[j, s] for j in range(step.psi.shape[0]))
            total += n * (math.log(p) if p > 0 else -math.inf)
    return total


def test_sparse_counts_agree_with_a_table():
    rng = np.random.default_rng(1)
    g, a, s = rng.integers(0, 4, 300), rng.integers(0, 2, 300), rng.integers(0, 5, 300)
    dense = np.zeros((4, 2, 5))
    np.add.at(dense, (g, a, s), 1.0)
    raw, table = SparseCounts.of(g, a, s, (4, 2, 5)), SparseCounts.from_dense(dense)
    for x, y in ((raw.pair, table.pair), (raw.after, table.after), (raw.count, table.count)):
        assert np.array_equal(x, y)
    assert raw.total == 300
    step = random_step(rng)
    assert log_likelihood(step, raw) == pytest.approx(by_loops(step, dense), rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_finite_class_is_the_argmax(seed):
    rng = np.random.default_rng(seed)
    models = [random_step(rng) for _ in range(7)]
    counts = rng.poisson(1.0, (4, 2, 5)).astype(float)
    oracle = FiniteClass(models)
    expected = [by_loops(m, counts) for m in models]
    fit = oracle.fit(counts, rng=RNG)
    assert oracle.scores(counts) == pytest.approx(expected, rel=1e-12)
    assert fit.step is models[int(np.argmax(expected))]
    assert fit.log_likelihood == pytest.approx(max(expected), rel=1e-12)
    assert oracle.class_size == 7
    assert oracle.log_class_size(1e9, (4, 2, 5)) == pytest.approx(math.log(7))
    assert oracle.rank == oracle.dimension((4, 2, 5)) == 3


def one_hot(targets, after=3):
    """A deterministic step of one state and as many actions as targets."""
    return StepModel(np.eye(after)[list(targets)][None], np.eye(after))


def test_finite_class_zeros_and_ties():
    counts = np.zeros((1, 2, 3))
    counts[0, 0, 1] = 2
    models = [one_hot([0, 0]), one_hot([1, 0]), one_hot([1, 2])]
    fit = FiniteClass(models).fit(counts, rng=RNG)
    assert fit.step is models[1]
    assert fit.log_likelihood == 0.0
    counts[0, 1, 1] = 1
    with pytest.raises(InputError, match=r"not realizable, all 3 candidates exclude \(g, a, g'\) = \(0, 1, 1\)"):
        FiniteClass(models).fit(counts, rng=RNG)
    counts[:] = 0
    counts[0, 0, 0] = counts[0, 1, 2] = 1
    with pytest.raises(InputError, match=r"each of the 3 candidates excludes .* models\[0\] .* \(0, 1, 2\)"):
        FiniteClass(models).fit(counts, rng=RNG)


def test_finite_class_refuses_what_is_no_class():
    good = random_step(RNG)
    with pytest.raises(InputError, match="models: at least one"):
        FiniteClass([])
    with pytest.raises(InputError, match=r"models\[1\]: phi \(3, 2, 3\)"):
        FiniteClass([good, random_step(RNG, g=3)])
    with pytest.raises(InputError, match=r"models\[1\]\.psi\[0\] sums to 1\.1"):
        FiniteClass([good, StepModel(good.phi, good.psi * 1.1)])
    with pytest.raises(InputError, match=r"candidates' shape \(4, 2, 5\), found \(4, 2, 6\)"):
        FiniteClass([good]).fit(np.ones((4, 2, 6)), rng=RNG)


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_tabular_is_the_closed_form(smoothing):
    counts = np.random.default_rng(3).poisson(1.5, (4, 2, 5)).astype(float)
    counts[2, 1] = 0
    fit = TabularCounts(smoothing).fit(counts, rng=RNG)
    fit.step.check("step")
    for g in range(4):
        for a in range(2):
            n = counts[g, a].sum()
            law = (counts[g, a] + smoothing / 5) / (n + smoothing) if n else np.full(5, 0.2)
            assert fit.step.kernel[g, a] == pytest.approx(law, abs=1e-14)
    assert fit.log_likelihood == pytest.approx(by_loops(fit.step, counts), rel=1e-12)
    assert TabularCounts().dimension((4, 2, 5)) == 8
    assert TabularCounts().log_class_size(100, (4, 2, 5)) == pytest.approx(32 * math.log(100))


def test_bad_counts():
    counts = np.ones((2, 2, 2))
    counts[1, 0, 1] = -3
    with pytest.raises(InputError, match=r"counts\[1, 0, 1\] = -3.0: must be finite and not negative"):
        TabularCounts().fit(counts, rng=RNG)
    with pytest.raises(InputError, match=r"counts: must be a table .* found shape \(2, 2\)"):
        TabularCounts().fit(np.ones((2, 2)), rng=RNG)
    with pytest.raises(InputError, match=r"actions\[1\] = 2: must lie in 0..1"):
        SparseCounts.of(np.array([0, 0]), np.array([0, 2]), np.array([0, 0]), (1, 2, 1))
    with pytest.raises(InputError, match="entry 1 is not after entry 0"):
        TabularCounts().fit(SparseCounts(np.array([1, 0]), np.array([0, 0]), np.ones(2), (2, 1, 2)), rng=RNG)
    with pytest.raises(InputError, match=r"counts\[0, 0, 1\] = -1.0"):
        TabularCounts().fit(SparseCounts(np.array([0]), np.array([1]), -np.ones(1), (2, 1, 2)), rng=RNG)
    with pytest.raises(InputError, match="smoothing = -1"):
        TabularCounts(-1)
