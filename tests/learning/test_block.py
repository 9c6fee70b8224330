"""Blocks: the profile likelihood against enumeration, planted blocks, monotone climbs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrank.checks import InputError
from tailrank.learning.oracles.block import BlockEM
from tailrank.learning.oracles.fit import log_likelihood
from tailrank.models.counts import SparseCounts
from tailrank.models.lowrank import StepModel, draw


def best_by_enumeration(counts, d):
    """The largest likelihood over all partitions of the next states into at most d blocks."""
    best = -np.inf
    for block in itertools.product(range(d), repeat=counts.shape[2]):
        total = 0.0
        for s, j in enumerate(block):
            members = [t for t, k in enumerate(block) if k == j]
            for g, a in np.ndindex(counts.shape[:2]):
                if counts[g, a, s]:
                    phi = counts[g, a, members].sum() / counts[g, a].sum()
                    total += counts[g, a, s] * np.log(phi * counts[:, :, s].sum() / counts[:, :, members].sum())
        best = max(best, total)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_finds_the_best_partition(seed):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(1.5, (3, 2, 6)).astype(float)
    fit = BlockEM(2, restarts=12).fit(counts, rng=rng)
    assert fit.log_likelihood == pytest.approx(best_by_enumeration(counts, 2), rel=1e-9)
    assert fit.converged


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 5), density=st.floats(0.02, 3.0), tied=st.booleans())
def test_climbs_and_keeps_the_structure(seed, d, density, tied):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(density, (5, 2, 7)).astype(float)
    fit = BlockEM(d, [0, 1, 1, 0, 2] if tied else None, restarts=2).fit(counts, rng=rng)
    assert (np.diff(fit.trace) >= -1e-9 * np.abs(fit.trace[1:]) - 1e-9).all()
    assert fit.log_likelihood == pytest.approx(fit.trace[-1], rel=1e-8, abs=1e-8)
    assert fit.log_likelihood == pytest.approx(log_likelihood(fit.step, counts), rel=1e-12)
    fit.step.check("step")
    assert ((fit.step.psi > 0).sum(axis=0) == 1).all()
    assert fit.step.phi.min() > 0
    if tied:
        assert np.array_equal(fit.step.phi[0], fit.step.phi[3])
        assert np.array_equal(fit.step.phi[1], fit.step.phi[2])


def planted(rng, n, g, a, d, after):
    block = np.arange(after) % d
    psi = np.zeros((d, after))
    psi[block, np.arange(after)] = rng.random(after) + 0.2
    step = StepModel(rng.dirichlet(np.full(d, 0.3), (g, a)), psi / psi.sum(axis=1, keepdims=True))
    s, act = rng.integers(0, g, n), rng.integers(0, a, n)
    return block, step, SparseCounts.of(s, act, draw(step.psi[draw(step.phi[s, act], rng)], rng), (g, a, after))


def test_recovers_planted_blocks():
    rng = np.random.default_rng(1)
    block, step, counts = planted(rng, 50_000, 30, 4, 4, 60)
    fit = BlockEM(4).fit(counts, rng=rng)
    found = np.argmax(fit.step.psi, axis=0)
    assert len({(x, y) for x, y in zip(block, found)}) == 4
    assert np.abs(fit.step.kernel - step.kernel).sum(axis=-1).mean() < 0.1
    assert fit.log_likelihood >= log_likelihood(step, counts)


def test_bits_repeat_and_warm_is_one_of_the_starts():
    _, step, counts = planted(np.random.default_rng(2), 3000, 10, 2, 3, 20)
    one, same = (BlockEM(3).fit(counts, rng=np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one.step.phi, same.step.phi)
    assert np.array_equal(one.step.psi, same.step.psi)
    warm = BlockEM(3, restarts=1).fit(counts, rng=np.random.default_rng(6), warm=step)
    assert warm.log_likelihood >= log_likelihood(step, counts)


def test_nothing_seen_and_errors():
    rng = np.random.default_rng(0)
    fit = BlockEM(3).fit(np.zeros((2, 2, 4)), rng=rng)
    fit.step.check("step")
    assert fit.log_likelihood == 0.0
    with pytest.raises(InputError, match="blocks = 0: must be a whole number of at least 1"):
        BlockEM(0)
    with pytest.raises(InputError, match="blocks = 5: must be at most the number of next states, 4"):
        BlockEM(5).fit(np.ones((2, 2, 4)), rng=rng)
    with pytest.raises(InputError, match=r"blocks_before: must be 2 labels, found shape \(3,\)"):
        BlockEM(2, [0, 1, 1]).fit(np.ones((2, 2, 4)), rng=rng)
    with pytest.raises(InputError, match=r"counts\[0, 0, 0\] = -1.0"):
        BlockEM(2).fit(-np.ones((2, 2, 4)), rng=rng)
    assert BlockEM(2).log_class_size(10, (2, 2, 4)) == pytest.approx(6 * np.log(10) + 4 * np.log(2))
    assert BlockEM(2).rank == BlockEM(2).dimension((2, 2, 4)) == 2
