"""EM against a plain NumPy twin, a planted model, and its own promise never to lose likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrank.checks import InputError
from tailrank.learning.oracles import latent_em
from tailrank.learning.oracles._em_kernels import LARGEST_COMPILED
from tailrank.learning.oracles.fit import log_likelihood
from tailrank.learning.oracles.latent_em import LatentEM
from tailrank.models.counts import SparseCounts
from tailrank.models.lowrank import StepModel, draw


def twin(counts, phi, psi, floor):
    """One EM pass on a dense table: phi [G, A, d], psi [d, G'] -> the next of each, and the log-likelihood."""
    p = phi @ psi
    value = (counts * np.log(p)).sum()
    r = phi[:, :, :, None] * psi / p[:, :, None, :]
    mass = counts[:, :, None, :] * r
    return law(mass.sum(3), floor), law(mass.sum((0, 1)), floor), value


def law(mass, floor):
    """max(mass / scale, floor) summing to one, the scale by bisection."""
    low, high = mass.sum(-1, keepdims=True), 2.0 * mass.sum(-1, keepdims=True)
    for _ in range(200):
        mid = (low + high) / 2
        over = np.maximum(mass / mid, floor).sum(-1, keepdims=True) > 1
        low, high = np.where(over, mid, low), np.where(over, high, mid)
    return np.maximum(mass / high, floor)


def planted(rng, n, g, a, d, after, phi_spread=0.3, psi_spread=0.3):
    step = StepModel(rng.dirichlet(np.full(d, phi_spread), (g, a)), rng.dirichlet(np.full(after, psi_spread), d))
    s, act = rng.integers(0, g, n), rng.integers(0, a, n)
    nexts = draw(step.psi[draw(step.phi[s, act], rng)], rng)
    return step, SparseCounts.of(s, act, nexts, (g, a, after))


@pytest.mark.parametrize(("rank", "floor"), [(1, 1e-12), (3, 1e-12), (3, 0.02), (LARGEST_COMPILED + 1, 1e-12)])
def test_iterates_are_the_twins(rank, floor):
    rng = np.random.default_rng(0)
    g, a, after = 6, 2, 36
    counts = rng.poisson(0.7, (g, a, after)) + 1.0 * (rng.random((g, a, after)) < 0.5)
    warm = StepModel(law(rng.random((g, a, rank)), floor), law(rng.random((rank, after)), floor))
    phi, psi = warm.phi, warm.psi
    for passes in range(1, 21):
        phi, psi, _ = twin(counts, phi, psi, floor)
        if passes not in (1, 5, 20):
            continue
        fit = LatentEM(rank, max_iterations=passes, tolerance=0.0, floor=floor).fit(counts, rng=rng, warm=warm)
        assert fit.step.phi == pytest.approx(phi, abs=1e-10)
        assert fit.step.psi == pytest.approx(psi, abs=1e-10)
        assert fit.log_likelihood == pytest.approx(twin(counts, phi, psi, floor)[2], rel=1e-12)
        if rank > 1:
            assert not fit.converged
            assert fit.trace.shape == (passes + 1,)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rank=st.integers(1, 4),
    density=st.floats(0.05, 3.0),
    floor=st.sampled_from([1e-12, 1e-3, 0.05]),
    accelerate=st.booleans(),
)
def test_likelihood_never_falls(seed, rank, density, floor, accelerate):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(density, (5, 2, 6)).astype(float)
    oracle = LatentEM(rank, max_iterations=60, tolerance=0.0, floor=floor, accelerate=accelerate)
    fit = oracle.fit(counts, rng=rng)
    assert (np.diff(fit.trace) >= -1e-9 * np.abs(fit.trace[1:]) - 1e-12).all()
    assert fit.log_likelihood == pytest.approx(log_likelihood(fit.step, counts), rel=1e-10, abs=1e-9)
    fit.step.check("step")
    assert min(fit.step.phi.min(), fit.step.psi.min()) >= floor * (1 - 1e-9)


def test_recovers_a_planted_kernel():
    rng = np.random.default_rng(5)
    step, counts = planted(rng, 200_000, 20, 3, 3, 30)
    fit = LatentEM(3, restarts=3, max_iterations=500).fit(counts, rng=rng)
    error = np.abs(fit.step.kernel - step.kernel).sum(axis=-1)
    free = np.abs(empirical(counts) - step.kernel).sum(axis=-1)
    assert fit.converged
    assert fit.log_likelihood >= log_likelihood(step, counts)
    assert error.mean() < 0.025
    assert error.mean() < 0.5 * free.mean()


def empirical(counts):
    """Empirical kernel of counts."""
    table = np.zeros(counts.shape)
    table.reshape(-1, counts.shape[2])[counts.pair, counts.after] = counts.count
    return table / table.sum(axis=-1, keepdims=True)


def test_acceleration_saves_passes_when_data_are_many():
    rng = np.random.default_rng(2)
    _, counts = planted(rng, 200_000, 60, 4, 5, 60, psi_spread=0.5)
    warm = StepModel(rng.dirichlet(np.ones(5), (60, 4)), rng.dirichlet(np.ones(60), 5))
    plain = LatentEM(5, max_iterations=400, tolerance=1e-7).fit(counts, rng=rng, warm=warm)
    fast = LatentEM(5, max_iterations=400, tolerance=1e-9, accelerate=True).fit(counts, rng=rng, warm=warm)
    assert fast.log_likelihood >= plain.log_likelihood
    assert int(np.argmax(fast.trace >= plain.log_likelihood)) < 0.75 * plain.trace.size


def test_restarts_keep_the_likeliest_and_bits_repeat():
    _, counts = planted(np.random.default_rng(3), 2000, 10, 2, 3, 10)
    one, same = (LatentEM(3, restarts=4).fit(counts, rng=np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(one.step.phi, same.step.phi)
    assert np.array_equal(one.step.psi, same.step.psi)
    assert np.array_equal(one.trace, same.trace)
    rng = np.random.default_rng(7)
    singles = [LatentEM(3).fit(counts, rng=rng).log_likelihood for _ in range(4)]
    assert one.log_likelihood == max(singles)


def test_a_warm_start_at_the_end_stays_there():
    _, counts = planted(np.random.default_rng(4), 5000, 10, 2, 3, 10)
    rng = np.random.default_rng(0)
    fit = LatentEM(3, max_iterations=2000).fit(counts, rng=rng)
    again = LatentEM(3).fit(counts, rng=rng, warm=fit.step)
    assert fit.converged
    assert again.converged
    assert again.trace.size == 2
    assert again.log_likelihood >= fit.log_likelihood


def test_what_was_never_seen():
    rng = np.random.default_rng(1)
    counts = rng.poisson(3.0, (4, 2, 6)).astype(float)
    counts[1, 0] = counts[3] = 0
    warm = StepModel(np.tile([0.5, 0.5 - 1e-12, 1e-12], (4, 2, 1)), rng.dirichlet(np.ones(6), 3))
    fit = LatentEM(3, tolerance=0.0, max_iterations=30).fit(counts, rng=rng, warm=warm)
    weights = np.einsum("ga,gaj->j", counts.sum(axis=-1), fit.step.phi) / counts.sum()
    for pair in ((1, 0), (3, 0), (3, 1)):
        assert fit.step.phi[pair] == pytest.approx(weights, abs=1e-9)
    fit.step.check("step")
    nothing = LatentEM(3).fit(np.zeros((4, 2, 6)), rng=rng, warm=warm)
    assert nothing.step.psi == pytest.approx(warm.psi, abs=1e-12)
    assert nothing.step.phi == pytest.approx(np.full((4, 2, 3), 1 / 3))
    assert nothing.log_likelihood == 0.0


def test_errors():
    counts = np.ones((2, 2, 3))
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="rank = 0: must be a whole number of at least 1"):
        LatentEM(0)
    with pytest.raises(InputError, match="rank = 4: must be at most the number of next states, 3"):
        LatentEM(4).fit(counts, rng=rng)
    with pytest.raises(InputError, match="floor = 0"):
        LatentEM(2, floor=0.0)
    with pytest.raises(InputError, match=r"floor = 0\.4"):
        LatentEM(2, floor=0.4).fit(counts, rng=rng)
    with pytest.raises(InputError, match=r"counts\[0, 0, 0\] = -1.0"):
        LatentEM(2).fit(-counts, rng=rng)
    with pytest.raises(InputError, match=r"warm: phi and psi must have shapes \(2, 2, 2\) and \(2, 3\)"):
        LatentEM(2).fit(counts, rng=rng, warm=StepModel(np.ones((2, 2, 1)), np.ones((1, 3)) / 3))
    assert LatentEM(2).log_class_size(100, (2, 2, 3)) == pytest.approx(8 * np.log(100))


def test_parts_of_a_pass_add_up_and_their_bits_do_not_depend_on_threads(monkeypatch):
    rng = np.random.default_rng(5)
    counts = SparseCounts.of(*(rng.integers(0, n, 4000) for n in (30, 3, 25)), (30, 3, 25))
    oracle = LatentEM(4, tolerance=0.0, max_iterations=6)

    def fit(threads, products):
        monkeypatch.setenv("TAILRANK_THREADS", threads)
        monkeypatch.setattr(latent_em, "PART_PRODUCTS", products)
        return oracle.fit(counts, rng=np.random.default_rng(0))

    whole, one, two = fit("1", 10**9), fit("1", 1000), fit("2", 1000)
    np.testing.assert_allclose(one.trace, whole.trace, rtol=1e-12)
    np.testing.assert_allclose(one.step.psi, whole.step.psi, rtol=1e-9)
    np.testing.assert_allclose(one.step.phi, whole.step.phi, rtol=1e-9)
    np.testing.assert_array_equal(two.step.psi, one.step.psi)
    np.testing.assert_array_equal(two.trace, one.trace)
