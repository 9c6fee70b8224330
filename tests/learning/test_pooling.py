"""Laws of counted states by brute force; what was seen is kept once; states that nobody left promise nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from tailrank.checks import InputError
from tailrank.episodes.rollout import Observed
from tailrank.learning.simulators.candidates import FitData
from tailrank.learning.simulators.counted import ended_by_place
from tailrank.learning.simulators.kernel import KernelCandidate
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.learning.simulators.pooling import PRIORS, pooled_laws


def dirichlet_multinomial(counts, prior):
    """The log-likelihood of a sequence with these counts."""
    kept = prior > 0
    counts, prior = counts[kept], prior[kept]
    return gammaln(prior.sum()) - gammaln(prior.sum() + counts.sum()) + (gammaln(prior + counts) - gammaln(prior)).sum()


def laws_by_hand(counts, kappa):
    """p [M, A, N] as at the head of the module and sum_b w(a, b) n(x, b) [M, A], from counts [M, A, N]."""
    q = counts.sum(axis=1) / counts.sum(axis=(1, 2))[:, None]
    p, mass = np.zeros_like(counts), np.zeros(counts.shape[:2])
    for j, rows in enumerate(counts):
        for a, mine in enumerate(rows):
            share = np.ones(len(rows))
            for b in set(range(len(rows))) - {a}:
                one = dirichlet_multinomial(mine + rows[b], kappa * q[j])
                two = dirichlet_multinomial(mine, kappa * q[j]) + dirichlet_multinomial(rows[b], kappa * q[j])
                share[b] = np.exp(one - logsumexp([one, two]))
            mass[j, a] = share @ rows.sum(axis=1)
            p[j, a] = (share @ rows + kappa * q[j]) / (mass[j, a] + kappa)
    return p, mass


def drawn_transitions(n=4000, seed=0):
    """Pairs and outcomes of three states with six actions, of which 0, 2, 4 and 1, 3, 5 do the same."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(rng.dirichlet(np.full(12, 0.5), size=(3, 2))[:, None], 3, axis=1).reshape(3, 6, 12)
    pair = rng.integers(0, 18, size=n)
    outcome = (rng.random(n)[:, None] > truth.reshape(18, 12).cumsum(axis=1)[pair]).sum(axis=1)
    return pair, np.minimum(outcome, 11), rng.random(n) < 0.2, truth


def dense(laws, shape):
    p = np.zeros((shape[0] * shape[1], shape[2]))
    np.add.at(p, (laws.pair, laws.outcome), laws.weight)
    return p.reshape(shape)


def counts_of(pair, outcome, shape):
    found = np.zeros((shape[0] * shape[1], shape[2]))
    np.add.at(found, (pair, outcome), 1.0)
    return found.reshape(shape)


def test_laws_and_prior_are_those_of_brute_force():
    pair, outcome, held, truth = drawn_transitions()
    found, shape = pooled_laws(pair, outcome, held, 3, 6), truth.shape
    scores = []
    known = counts_of(pair[~held], outcome[~held], shape)
    state, action = divmod(pair[held], 6)
    for kappa in PRIORS:
        law = laws_by_hand(known, kappa)[0][state, action, outcome[held]]
        n = known.sum(axis=(1, 2))[state]
        scores.append(np.log((law * n + 1 / 12) / (n + 1)).sum())
    assert found.kappa == PRIORS[int(np.argmax(scores))] > PRIORS[0]
    p = dense(found, shape)
    expected, mass = laws_by_hand(counts_of(pair, outcome, shape), found.kappa)
    np.testing.assert_allclose(found.mass, mass)
    np.testing.assert_allclose(p / p.sum(axis=2, keepdims=True), expected, atol=1e-12)
    np.testing.assert_allclose(p.sum(axis=2), found.mass + found.kappa)
    plain = counts_of(pair, outcome, shape)
    plain /= plain.sum(axis=2, keepdims=True)
    assert np.abs(expected - truth).sum() < 0.75 * np.abs(plain - truth).sum()


def test_without_chance_the_counts_stay_as_they_are():
    rng = np.random.default_rng(0)
    pair = rng.integers(0, 40, size=2000)
    found = pooled_laws(pair, (7 * pair) % 20, rng.random(2000) < 0.2, 10, 4)
    assert found.kappa == 0.0
    assert found.pair.tolist() == sorted(set(pair.tolist()))
    np.testing.assert_allclose(found.weight, np.bincount(pair)[found.pair])


def episodes(features, rewards, actions=None):
    """Episodes that ran their whole length, from features [n, H + 1, m] and rewards [n, H]."""
    n, H = rewards.shape
    actions = np.zeros((n, H), dtype=np.int64) if actions is None else actions
    return Observed(actions, rewards, rewards.sum(axis=1), np.full(n, H), np.arange(n), features)


def test_observations_are_kept_once_and_given_back():
    rng = np.random.default_rng(0)
    features = rng.integers(0, 3, size=(40, 6, 2)).astype(float)
    batch = episodes(features, rng.normal(size=(40, 5)))
    played = PlayedEpisodes.none(5, 2).with_played(batch).with_played(batch)
    assert len(played.observations) == 9
    assert played.repeats
    np.testing.assert_array_equal(played.features, np.tile(features.reshape(-1, 2), (2, 1)))
    data = played.transitions(10**6, rng)
    np.testing.assert_array_equal(data.after.reshape(2, 40, 5, 2)[1], features[:, 1:])
    np.testing.assert_array_equal(played.head(7).features, features[:7].reshape(-1, 2))
    arrays = played.to_arrays()
    np.testing.assert_array_equal(PlayedEpisodes.none(5, 2).from_arrays(arrays).features, played.features)
    with pytest.raises(InputError, match="do not fit together"):
        PlayedEpisodes.none(5, 2).from_arrays(arrays | {"played.seen": arrays["played.seen"] + 1})


def test_a_state_that_nobody_left_promises_nothing():
    """Half of the episodes go 0, 1, 2 and are cut off there, half 1, 3, 3 and are paid 1 at last. In the model half of
    those that begin at 1 come to 2 with a step left, which nobody left: they get the least reward, 0.

    (Four states are allowed, so steps cannot be told apart.)"""
    features = np.repeat([[0.0, 1.0, 2.0], [1.0, 3.0, 3.0]], 50, axis=0)[:, :, None]
    played = PlayedEpisodes.none(2, 1).with_played(episodes(features, np.repeat([[0.0, 0.0], [0.0, 1.0]], 50, axis=0)))
    fitted = KernelCandidate(representatives=4).fit(FitData(played, 2, 1.0, numbered=True), np.random.default_rng(0))
    assert fitted.model.counted
    assert not fitted.model.choice.timed
    assert fitted.promise == pytest.approx(0.25)


def test_an_end_at_the_last_step_is_known_by_its_place():
    """Of four episodes one ends at place 2 after a step. Place 2 at the last step is an end, too; place 1 is none."""
    features = np.array([[0.0, 2.0, 2.0], [0.0, 1.0, 2.0], [0.0, 1.0, 1.0], [1.0, 1.0, 2.0]])[:, :, None]
    batch = replace(episodes(features, np.zeros((4, 2))), lengths=np.array([1, 2, 2, 2]))
    data = PlayedEpisodes.none(2, 1).with_played(batch).transitions(100, np.random.default_rng(0))
    assert data.ended.tolist() == [True, False, False, False, False, False, False]
    assert ended_by_place(data, 2).tolist() == [True, False, True, False, False, False, True]


def test_drawn_models_have_the_posterior_law():
    pair, outcome, _, _ = drawn_transitions(600)
    features = np.zeros((300, 3, 1))
    features[:, 1:, 0] = outcome.reshape(300, 2) % 3
    played = PlayedEpisodes.none(2, 1).with_played(episodes(features, np.zeros((300, 2)), pair.reshape(300, 2) % 6))
    model = KernelCandidate().fit(FitData(played, 6, 0.2), np.random.default_rng(0)).model
    rng, rows = np.random.default_rng(1), model.rows
    draws = np.array([model.drawn(rng).rows.weight for _ in range(4000)])
    size = np.diff(rows.ptr)
    of_pair = np.repeat(np.arange(size.size), size)
    mass = (model.nearby + model.prior).ravel()[of_pair]
    p = rows.weight
    for row in draws[:3]:
        np.testing.assert_allclose(np.bincount(of_pair, weights=row)[size > 0], 1.0)
    error = np.sqrt(p * (1 - p) / (mass + 1))
    assert np.all(np.abs(draws.mean(axis=0) - p) <= 5 * error / np.sqrt(4000) + 1e-12)
    many = error > 0
    np.testing.assert_allclose(draws.std(axis=0)[many], error[many], rtol=0.1)


def test_a_pair_that_was_never_tried_has_the_law_of_its_state_where_it_is_allowed():
    pair, outcome, held, truth = drawn_transitions()
    kept = (pair != 4) & (pair != 5)
    allowed = np.ones((3, 6), dtype=bool)
    allowed[0, 5] = False
    laws = pooled_laws(pair[kept], outcome[kept], held[kept], 3, 6, allowed)
    p, counts = dense(laws, truth.shape), counts_of(pair[kept], outcome[kept], truth.shape)
    np.testing.assert_allclose(p[0, 4], laws.kappa * counts[0].sum(axis=0) / counts[0].sum())
    assert p[0, 5].sum() == 0
    np.testing.assert_array_equal(laws.mass[0, 4:], 0)


def test_a_drawn_model_is_drawn_around_the_counts_and_in_doubt_about_outcomes_never_seen():
    pair, outcome, _, _ = drawn_transitions(600)
    features = np.column_stack([pair // 6, np.full(600, 3)])[:, :, None].astype(float)
    batch = episodes(
        features[:, [0, 1, 1]], np.column_stack([outcome, np.zeros(600)]) * 1.0, np.column_stack([pair % 6] * 2)
    )
    fitted = KernelCandidate().fit(
        FitData(PlayedEpisodes.none(2, 1).with_played(batch), 6, 0.1), np.random.default_rng(0)
    )
    model, rng = fitted.model, np.random.default_rng(1)
    mean = np.mean([model.drawn(rng).rows.weight for _ in range(400)], axis=0)
    np.testing.assert_allclose(mean, model.rows.weight, atol=0.04)
    np.testing.assert_allclose(1 / np.sqrt(1 + model.drawn(rng).nearby), 1 / (1 + model.nearby))
    assert fitted.supersedes
    assert fitted.explorer(rng).budgets is None
