"""Mixtures found from geometry: planted ones come back, noise stays one cloud, what is far is new."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank.learning.decoding import _mixture_kernels
from tailrank.learning.decoding.mixture import fill_mixture, fit_mixture, noise_edge, subspace
from tailrank.policies.decoders.base import decode, posterior
from tailrank.policies.decoders.mixture import MixtureDecoder


def rotation(m, rng):
    return np.linalg.qr(rng.normal(size=(m, m)))[0]


def planted(rng, numbers, n=120, m=32, noise=0.1, directions=4):
    """Observations [H] of [n, m], their latents, and the means [H] of [J, m]: each step has some of the directions."""
    axes = rotation(m, rng)[:, :directions].T
    samples, labels, means = [], [], []
    for J in numbers:
        offset = rng.normal(size=m)  # every step looks different, which tells nothing about latents
        centres = offset + axes[rng.permutation(directions)[:J]]
        z = rng.permutation(np.arange(n) % J)
        samples.append(centres[z] + noise * rng.normal(size=(n, m)))
        labels.append(z)
        means.append(centres)
    return samples, labels, means


def components(decoder, h):
    return np.flatnonzero(np.isfinite(decoder.log_weights[h]))


def same_partition(a, b):
    return len(set(zip(a.tolist(), b.tolist()))) == len(set(a.tolist())) == len(set(b.tolist()))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_planted_latents_come_back(seed):
    rng = np.random.default_rng(seed)
    numbers = [1, 2, 3, 4, 3, 2]
    samples, labels, means = planted(rng, numbers)
    decoder = fit_mixture(samples, 6, rng=rng)
    for h, J in enumerate(numbers):
        here = components(decoder, h)
        assert here.size == J
        z = decode(decoder, h, samples[h])
        assert same_partition(z, labels[h]), "purity is one"
        for j in here:
            true = labels[h][z == j][0]
            away = decoder.centres[h, j] - means[h][true] @ decoder.project
            # In the whitened subspace a mean of n observations errs by 1 / sqrt(n) a direction.
            assert np.abs(away).max() < 5 / np.sqrt((z == j).sum())
        np.testing.assert_allclose(np.exp(decoder.log_weights[h][here]).sum(), 1)
        assert (posterior(decoder, h, samples[h]).max(axis=1) > 0.99).all()


def test_units_of_features_do_not_matter():
    rng = np.random.default_rng(3)
    samples, labels, _ = planted(rng, [2, 3, 2])
    scale = 10.0 ** rng.uniform(-4, 4, size=32)
    decoder = fit_mixture([x * scale for x in samples], 5, rng=rng)
    for h in range(3):
        assert same_partition(decode(decoder, h, samples[h] * scale), labels[h])


@pytest.mark.xfail(strict=True, reason="every feature is divided by its standard deviation, latents included")
def test_latents_that_differ_in_one_feature_are_found():
    rng = np.random.default_rng(0)
    z = [rng.integers(0, 2, size=100) for _ in range(3)]
    samples = [np.eye(6)[x] + 0.05 * rng.normal(size=(100, 6)) for x in z]
    decoder = fit_mixture(samples, 3, rng=rng)
    assert all(same_partition(decode(decoder, h, samples[h]), z[h]) for h in range(3))


@pytest.mark.parametrize("seen", [1, 2])
def test_a_latent_seen_once_stands_out_where_other_steps_show_the_directions(seen):
    whole = 0
    for seed in range(5):
        rng = np.random.default_rng([seed, seen])
        m, n = 32, 60
        axes = rotation(m, rng)[:, :3].T
        samples = []
        for _ in range(8):
            samples.append(axes[np.arange(n) % 3] + 0.1 * rng.normal(size=(n, m)))
        rare = np.repeat([0, 1, 2], [(n - seen) // 2, n - seen - (n - seen) // 2, seen])
        samples[5] = axes[rare] + 0.1 * rng.normal(size=(n, m))
        decoder = fit_mixture(samples, 5, rng=rng)
        z = decode(decoder, 5, samples[5])
        assert not set(z[rare == 2].tolist()) & set(z[rare != 2].tolist())
        whole += same_partition(z, rare)
    assert whole >= 4, "two observations may be taken for two latents, but rarely"


def test_noise_is_one_cloud():
    rng = np.random.default_rng(1)
    single = []
    for _ in range(4):
        samples = [rng.normal(size=16) + rng.normal(size=(80, 16)) for _ in range(15)]
        decoder = fit_mixture(samples, 4, rng=rng)
        single += [components(decoder, h).size == 1 for h in range(15)]
    assert np.mean(single) >= 0.95


@pytest.mark.parametrize(("m", "directions", "n"), [(24, 1, 100), (24, 3, 100), (64, 5, 300)])
def test_the_subspace_is_the_planted_one(m, directions, n):
    rng = np.random.default_rng([m, directions])
    axes = rotation(m, rng)[:, :directions]
    samples = []
    for h in range(10):
        spread = np.zeros(directions)
        spread[h % directions] = 2.0  # a step varies in one direction only
        signal = (rng.normal(size=(n, directions)) * spread) @ axes.T
        samples.append(rng.normal(size=m) + 0.5 * rng.normal(size=(n, m)) + signal)
    basis, noise = subspace(samples, [np.ones(n)] * 10, 16)
    assert basis.shape == (m, directions)
    np.testing.assert_allclose(basis.T @ basis, np.eye(directions), atol=1e-10)
    cosines = np.linalg.svd(basis.T @ axes, compute_uv=False)
    assert cosines.min() > 0.97
    assert noise == pytest.approx(0.25, rel=0.15)


def test_weights_bring_out_a_rare_direction():
    """Balanced weights: five observations among two hundred count as much as the others."""
    rng = np.random.default_rng(0)
    m, n = 24, 200
    axis = rotation(m, rng)[:, :1]
    rare = np.arange(n) < 5
    samples = [rng.normal(size=(n, m)) + 6.0 * rare[:, None] * axis.T for _ in range(4)]
    weights = np.where(rare, 1 / 5, 1 / 195)
    basis, _ = subspace(samples, [weights] * 4, 16)
    plain, _ = subspace(samples, [np.ones(n)] * 4, 16)
    assert np.linalg.norm(basis.T @ axis) > max(0.9, np.linalg.norm(plain.T @ axis))


@pytest.mark.parametrize("n", [40, 400])
def test_with_equal_weights_the_edge_is_that_of_marchenko_and_pastur(n):
    assert noise_edge(np.full(n, 1 / n), 100) == pytest.approx((1 + np.sqrt(100 / n)) ** 2, rel=1e-9)


@pytest.mark.parametrize(("m", "counts"), [(512, (1, 9, 60)), (64, (2, 9, 200)), (256, (300, 300)), (300, (3, 1000))])
def test_the_edge_is_the_largest_eigenvalue_of_weighted_noise(m, counts):
    """Latents that count alike, met so many times each: the largest eigenvalue of plain noise lies just below."""
    rng = np.random.default_rng(m)
    share = np.concatenate([np.full(n, 1 / n) for n in counts]) / len(counts)
    tops = []
    for _ in range(8):
        noise = rng.normal(size=(share.size, m)) * np.sqrt(share)[:, None]
        tops.append(np.linalg.eigvalsh(noise @ noise.T)[-1])
    assert 0.8 < np.mean(tops) / noise_edge(share, m) < 1.02


def test_one_observation_in_many_dimensions_is_no_direction():
    """Of a latent that was met once a large weight shows the noise of that one observation, not where it lies."""
    rng = np.random.default_rng(2)
    m, n = 512, 60
    samples = [rng.normal(size=(n, m)) for _ in range(4)]
    for x in samples:
        x[0, 0] += 12.0
    weights = np.where(np.arange(n) == 0, 1.0, 1 / (n - 1))
    basis, _ = subspace(samples, [weights] * 4, 16)
    assert basis.shape == (m, 1), "four heavy observations would be four directions"


def numpy_em(points, centres, weights, passes):
    """EM of a mixture with unit covariance, up to the constant -k/2 log 2 pi an observation."""
    last = -np.inf
    for _ in range(passes):
        log = np.log(weights) - 0.5 * ((points[:, None] - centres) ** 2).sum(axis=2)
        top = log.max(axis=1, keepdims=True)
        total = float((top[:, 0] + np.log(np.exp(log - top).sum(axis=1))).sum())
        share = np.exp(log - top)
        share /= share.sum(axis=1, keepdims=True)
        centres, weights = share.T @ points / share.sum(axis=0)[:, None], share.mean(axis=0)
        if total - last < 1e-3:
            break
        last = total
    return centres, weights, total


@pytest.mark.parametrize("passes", [1, 3, 30])
def test_the_kernel_is_em(passes):
    rng = np.random.default_rng(passes)
    points = rng.normal(size=(60, 3)) + 1.5 * rng.integers(0, 2, size=(60, 1))
    centres, weights = points[:3].copy(), np.array([0.5, 0.3, 0.2])
    expected = numpy_em(points, centres, weights, passes)
    total = _mixture_kernels.em(points, centres, weights, passes)
    np.testing.assert_allclose(centres, expected[0], atol=1e-7)
    np.testing.assert_allclose(weights, expected[1], atol=1e-7)
    assert total == pytest.approx(expected[2], abs=1e-6)
    np.testing.assert_allclose(
        _mixture_kernels.nearest(points, centres), ((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
    )


def known(room=3):
    """Two latents at (0, 0) and (20, 0) of step 0, one at step 1, and room."""
    centres, weights = np.zeros((2, 2 + room, 2)), np.full((2, 2 + room), -np.inf)
    centres[0, 1] = [20.0, 0.0]
    weights[0, :2], weights[1, 0] = np.log([0.7, 0.3]), 0.0
    return MixtureDecoder(np.eye(2), centres, weights, np.eye(2))


def test_what_is_far_is_new_and_nothing_else():
    decoder = known()
    near = np.array([[0.5, 0.5], [19.0, 1.0], [3.0, 0.0]])
    assert decoder.with_novel(0, near) is decoder
    far = np.array([[0.0, 30.0], [0.5, 30.0], [1.0, 1.0], [40.0, 0.0]])
    grown = decoder.with_novel(0, far)
    assert components(grown, 0).tolist() == [0, 1, 2, 3]
    assert components(grown, 1).tolist() == [0]
    np.testing.assert_array_equal(grown.centres[0, 2:4], far[[0, 3]])
    assert decode(grown, 0, far).tolist() == [2, 2, 0, 3]
    assert components(decoder, 0).tolist() == [0, 1], "the old one stays as it was"
    # no room for all of them: the first come
    full = known(room=1).with_novel(0, far)
    assert components(full, 0).tolist() == [0, 1, 2]
    assert full.with_novel(0, np.array([[0.0, -80.0]])) is full
    # a shared decoder has one step
    shared = MixtureDecoder(np.eye(2), decoder.centres[:1], decoder.log_weights[:1], np.eye(2))
    assert components(shared.with_novel(7, far), 0).size == 4


def test_filling_cuts_the_space_into_parts():
    rng = np.random.default_rng(0)
    samples = [rng.uniform(size=(500, 2)) * [1.0, 1000.0]]
    decoder = fill_mixture(samples, 8, rng=rng)
    z = decode(decoder, 0, samples[0])
    assert sorted(set(z.tolist())) == list(range(8))
    assert np.bincount(z).min() > 20
    # Both features matter, whatever their units: parts are about as wide in each.
    wide = np.array([[np.ptp(samples[0][z == j, c]) for c in range(2)] for j in range(8)]) / [1.0, 1000.0]
    assert wide.max() < 0.8
    few = fill_mixture([np.repeat(np.eye(3), 5, axis=0)], 8, rng=rng)
    assert components(few, 0).size == 3, "no more parts than distinct observations"
    assert same_partition(decode(few, 0, np.repeat(np.eye(3), 5, axis=0)), np.repeat(np.arange(3), 5))


def test_arrays_come_back():
    rng = np.random.default_rng(0)
    samples, _, _ = planted(rng, [2, 3])
    decoder = fit_mixture(samples, 4, rng=rng)
    again = MixtureDecoder.from_arrays(decoder.to_arrays())
    np.testing.assert_array_equal(decoder.log_odds(1, samples[1]), again.log_odds(1, samples[1]))
    assert (again.kind, again.shared, again.n_latents) == ("mixture", False, 4)


def test_the_same_seed_gives_the_same_bits():
    samples, _, _ = planted(np.random.default_rng(2), [2, 3, 2], n=500)
    one, two = (fit_mixture(samples, 4, rng=np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(one.centres, two.centres)
    np.testing.assert_array_equal(one.log_weights, two.log_weights)


def test_a_warm_start_finds_the_same_latents():
    rng = np.random.default_rng(4)
    samples, labels, _ = planted(rng, [2, 3, 3])
    first = fit_mixture([x[:40] for x in samples], 5, rng=rng)
    again = fit_mixture(samples, 5, rng=rng, warm=first)
    for h in range(3):
        assert same_partition(decode(again, h, samples[h]), labels[h])
