"""The oracle that judges decoders by held-out likelihood."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank import InputError
from tailrank.envs.built_in.rich_lock import rich_lock
from tailrank.episodes.replay import Replay
from tailrank.learning.decoding.choose import (
    LEAST,
    Discriminative,
    Moves,
    _Judge,
    depends_on_actions,
    label,
    moves,
    outcome_log_likelihood,
)
from tailrank.learning.decoding.mixture import fit_mixture
from tailrank.learning.decoding.table import fit_table
from tailrank.models.latent_counts import LatentCounts
from tailrank.policies.decoders.base import decode


def random_moves(rng, n, steps, K, A, top):
    sizes = (steps, K, A, K + 1, top + 1)
    return Moves(rng.integers(0, 9, size=n), *(rng.integers(0, size, size=n) for size in sizes))


def by_hand(train, test, prior, K, top):
    """The docstring of `outcome_log_likelihood`, one transition at a time."""
    columns = list(zip(*(getattr(train, name).tolist() for name in ("h", "z", "a", "after", "units"))))
    outcomes = (K + 1) * (top + 1)
    result = []
    for h, z, a, after, units in zip(*(getattr(test, n).tolist() for n in ("h", "z", "a", "after", "units"))):
        p = 1 / outcomes
        for size, weight in ((1, 1.0), (2, 1.0), (3, max(prior, LEAST))):
            same = [row for row in columns if row[:size] == (h, z, a)[:size]]
            hits = sum(row[3:] == (after, units) for row in same)
            p = (hits + weight * p) / (len(same) + weight)
        step = [row for row in columns if row[0] == h]
        blind = (sum(row[3] == after for row in step) + 1 / (K + 1)) / (len(step) + 1)
        result.append(np.log(p) - np.log(blind))
    return result


@pytest.mark.parametrize("prior", [0.0, 0.1, 5.0])
@pytest.mark.parametrize(("steps", "K", "A", "top"), [(1, 3, 2, 2), (4, 2, 3, 1), (3, 5, 2, 0)])
def test_the_likelihood_by_hand(prior, steps, K, A, top):
    rng = np.random.default_rng([steps, K])
    train, test = random_moves(rng, 120, steps, K, A, top), random_moves(rng, 60, steps, K, A, top)
    counts = LatentCounts(steps, K, A, top)
    counts.add(train.h, train.z, train.a, train.after, train.units)
    found = outcome_log_likelihood(counts, train, test, prior)
    np.testing.assert_allclose(found, by_hand(train, test, prior, K, top), atol=1e-12)


def test_probabilities_sum_to_one_over_outcomes():
    rng = np.random.default_rng(0)
    K, A, top = 3, 2, 2
    train = random_moves(rng, 100, 2, K, A, top)
    after, units = (x.ravel() for x in np.meshgrid(np.arange(K + 1), np.arange(top + 1)))
    one = np.ones(after.size, dtype=np.int64)
    test = Moves(one, one, 2 * one, 0 * one, after, units)
    counts = LatentCounts(2, K, A, top)
    found = outcome_log_likelihood(counts, train, test, 0.5)
    step = train.h == 1
    blind = (np.bincount(train.after[step], minlength=K + 1) + 1 / (K + 1)) / (step.sum() + 1)
    assert (np.exp(found) * blind[after]).sum() == pytest.approx(1)


def null_moves(rng, n=60, habit=0.7):
    """Next latents that depend on step and latent, never on the action; actions are often a habit of the place."""
    h, z = rng.integers(0, 2, size=n), rng.integers(0, 2, size=n)
    a = np.where(rng.random(n) >= habit, rng.integers(0, 3, size=n), h + z)
    after = (rng.random(n) < np.array([[0.2, 0.6], [0.5, 0.9]])[h, z]).astype(np.int64)
    return Moves(np.zeros(n, dtype=np.int64), h, z, a, after, np.zeros(n, dtype=np.int64))


def test_false_alarms_are_as_rare_as_promised():
    """Of 400 sets without effect at most about 400 / (draws + 1) = 20 raise an alarm (fewer, because of ties)."""
    alarms = sum(depends_on_actions(null_moves(rng), rng, draws=19) for rng in map(np.random.default_rng, range(400)))
    assert 10 <= alarms <= 33


def test_effects_of_actions_are_seen():
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        quiet = null_moves(rng, 160, habit=0.0)
        # The lock: at step 1 in latent 0 one action of three leads on, the others do not.
        lock = (quiet.h == 1) & (quiet.z == 0)
        after = np.where(lock, (quiet.a == 0).astype(np.int64), quiet.after)
        found += depends_on_actions(Moves(quiet.episode, quiet.h, quiet.z, quiet.a, after, quiet.units), rng)
    assert found >= 19


def lengths_replay():
    """Three episodes of 3, 1 and 2 steps; the observation is the latent."""
    replay = Replay(3, 1)
    features = np.array([[0, 1, 0], [1, 0, 0], [1, 1, 0]])[..., None]
    actions, units = [[0, 1, 1], [1, 0, 0], [0, 0, 0]], [[0, 2, 1], [1, 0, 0], [2, 0, 0]]
    replay.add(features, np.array(actions), np.array(units), np.array([3, 1, 2]))
    return replay


@pytest.mark.parametrize(("shared", "since"), [(False, 0), (True, 0), (False, 1), (True, 2)])
def test_transitions_by_hand(shared, since):
    replay = lengths_replay()
    labels = np.array([[0, 1, 0], [1, -1, -1], [1, 1, -1]])
    found = label(fit_table(replay), replay, since)
    np.testing.assert_array_equal(found, labels[since:])
    m = moves(replay, found, 2, shared, since)
    expected = [
        (0, 0, 0, 0, 1, 0),
        (0, 1, 1, 1, 0, 2),
        (0, 2, 0, 1, 2, 1),
        (1, 0, 1, 1, 2, 1),
        (2, 0, 1, 0, 1, 2),
        (2, 1, 1, 0, 2, 0),
    ]
    expected = [(i, 0 if shared else h, *rest) for i, h, *rest in expected if i >= since]
    # What the horizon cut off (step 2): no other transition tells what follows latent 0 and action 1.
    assert list(zip(*(getattr(m, n).tolist() for n in ("episode", "h", "z", "a", "after", "units")))) == expected


def test_the_horizon_is_no_end_where_steps_share_a_table():
    """Two episodes go on to the horizon of 3, one ends before: of four last transitions only one is an end."""
    replay = Replay(3, 1)
    features = np.array([[0, 0, 0], [0, 1, 1], [1, 1, 0]])[..., None]
    replay.add(features, np.zeros((3, 3)), np.zeros((3, 3)), np.array([3, 3, 2]))
    labels = label(fit_table(replay), replay)
    m = moves(replay, labels, 2, True)
    assert list(zip(m.z.tolist(), m.after.tolist())) == [(0, 0), (0, 0), (0, 1), (1, 1), (1, 1), (1, 2)]
    apart = moves(replay, labels, 2, False)
    assert (apart.after == 2).tolist() == [False, False, True, False, False, True, False, True]
    # A pair that is only seen at the last step is kept, unless the same transitions are asked for whatever the labels.
    labels[1, 2] = 0
    replay.actions[1, 2] = 1
    assert moves(replay, labels, 2, True).a.tolist() == [0, 0, 0, 0, 1, 0, 0]
    assert moves(replay, labels, 2, True, whole=True).a.tolist() == [0, 0, 0, 0, 0, 0]
    # Episode 1 alone: latent 0 and action 1 are seen at its end only; counts may know more.
    assert moves(replay, labels[1:2], 2, True, 1).after.tolist() == [1, 0, 2]
    counts = LatentCounts(1, 2, 2, 0)
    counts.add(*(np.array([x]) for x in (0, 0, 1, 2, 0)))
    assert moves(replay, labels[1:2], 2, True, 1, known=counts).after.tolist() == [1, 0, 2]
    counts.add(*(np.array([x]) for x in (0, 0, 1, 1, 0)))
    assert moves(replay, labels[1:2], 2, True, 1, known=counts).after.tolist() == [1, 0]


def chain(rng, n, H, K, m, noise=0.1, sure=0.9):
    """Episodes of a chain of K latents: action a moves the latent on by a, mostly; no rewards.

    Observations show the latent along its own axis of a rotated space.
    """
    axes = np.linalg.qr(rng.normal(size=(m, m)))[0][:K]
    z = rng.integers(0, K, size=n)
    actions, latents = rng.integers(0, 2, size=(n, H)), np.empty((n, H), dtype=np.int64)
    for h in range(H):
        latents[:, h] = z
        z = np.where(rng.random(n) < sure, (z + 1 + actions[:, h]) % K, rng.integers(0, K, size=n))
    replay = Replay(H, m)
    replay.add(axes[latents] + noise * rng.normal(size=(n, H, m)), actions, np.zeros((n, H)), np.full(n, H))
    return replay, latents


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("K", [2, 4])
def test_the_number_of_latents_is_found(K, shared):
    rng = np.random.default_rng(K)
    replay, latents = chain(rng, 150, 3, K, 12)
    fitted = Discriminative(rank="auto", shared=shared).fit(replay, 2, 0, rng=rng)
    for h in range(3):
        z = decode(fitted.decoder, h, replay.features[:, h])
        pairs = set(zip(z.tolist(), latents[:, h].tolist()))
        assert len(pairs) == K == len({a for a, _ in pairs}) == len({b for _, b in pairs})
        np.testing.assert_array_equal(fitted.labels[:, h], z)
    assert fitted.chosen == "separated"


def test_no_more_latents_than_were_asked_for():
    rng = np.random.default_rng(0)
    replay, _ = chain(rng, 60, 2, 4, 12)
    assert Discriminative(rank=2).fit(replay, 2, 0, rng=rng).decoder.n_latents == 2


def judged(rng, replay, top=0):
    test = rng.permutation(replay.n)[: replay.n // 5]
    return _Judge(replay, 2, top, True, test)


def test_a_memory_of_single_observations_loses_on_noise():
    """Every observation its own latent explains all that it saw and nothing else."""
    rng = np.random.default_rng(1)
    replay, _ = chain(rng, 100, 4, 3, 8)
    judge = judged(rng, replay)
    truth = judge.fitted(fit_mixture([replay.features.reshape(-1, 8)], 3, rng=rng), "truth")
    memory = judge.fitted(fit_table(replay), "memory")
    assert judge.better(truth, memory)
    assert not judge.better(memory, truth)
    # nats a transition that the truth earns: mutual information of (latent, action) and next latent
    on = 0.9 + 0.1 / 3
    information = np.log(3) + on * np.log(on) + 2 * (0.1 / 3) * np.log(0.1 / 3)
    assert truth.held_out == pytest.approx(information, abs=0.15)
    assert memory.held_out < 0.1


def test_a_single_latent_loses_to_the_truth():
    rng = np.random.default_rng(2)
    replay, _ = chain(rng, 100, 4, 3, 8)
    judge = judged(rng, replay)
    truth = judge.fitted(fit_mixture([replay.features.reshape(-1, 8)], 3, rng=rng), "truth")
    blind = judge.fitted(fit_mixture([replay.features.reshape(-1, 8)], 1, rng=rng), "blind")
    assert judge.better(truth, blind)
    assert abs(blind.held_out) < 0.05


def test_chance_does_not_win():
    """A candidate that only differs by noise must not replace a simpler one, but for 1 time in 40."""
    from tailrank.learning.decoding.choose import _wins

    rng = np.random.default_rng(0)
    wins = sum(_wins(rng.normal(size=200), np.zeros(200)) for _ in range(1000))
    assert wins < 40
    assert _wins(np.full(5, 0.1), np.zeros(5))
    assert not _wins(np.array([9.0]), np.array([0.0]))


def test_the_lock_is_decoded():
    """The oracle on real play: uniformly random episodes of the rich lock, latents known to the test only."""
    lock = rich_lock(horizon=4, n_actions=3, seed=1)
    rng = np.random.default_rng(0)
    features, latents = [lock.reset(np.arange(0, 300, 2))], [lock.latent]
    actions, rewards = rng.integers(0, 3, size=(150, 4)), np.empty((150, 4))
    for h in range(4):
        rewards[:, h], seen, _ = lock.step(actions[:, h])
        features.append(seen)
        latents.append(lock.latent)
    replay = Replay(4, lock.n_features)
    replay.add(np.stack(features[:4], axis=1), actions, np.rint(10 * rewards), np.full(150, 4))
    fitted = Discriminative(rank=3).fit(replay, 3, 10, rng=rng)
    for h in range(4):
        pairs = set(zip(fitted.labels[:, h].tolist(), latents[h].tolist()))
        assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
    assert depends_on_actions(moves(replay, fitted.labels, 3, False), rng)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, "rank = 0: must be a whole number of at least 1"),
        ({"rank": "many"}, "rank = 'many': must be a number"),
        ({"model": "mixtur"}, "model = 'mixtur': must be one of .*did you mean 'mixture'"),
        ({"held_out": 1.0}, r"held_out = 1.0: must lie in \(0, 1\)"),
        ({"steps": 0}, "steps = 0: must be a whole number"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(InputError, match=message):
        Discriminative(**settings)


def test_a_table_of_too_many_observations_is_refused(monkeypatch):
    monkeypatch.setattr("tailrank.learning.decoding.table.LARGEST_TABLE", 10)
    replay, _ = chain(np.random.default_rng(0), 10, 3, 2, 4)
    with pytest.raises(InputError, match="model = 'table': 30 distinct observations were seen, at most 10"):
        Discriminative(model="table").fit(replay, 2, 0, rng=np.random.default_rng(0))


def test_tables_of_observations():
    replay = lengths_replay()
    table = fit_table(replay)
    assert (table.used, table.shared, table.kind) == (2, True, "table")
    assert decode(table, 2, np.array([[0.0], [1.0], [0.9]])).tolist() == [0, 1, 1]
    grown = table.with_novel(0, np.array([[5.0], [1.0], [5.0], [7.0]]))
    assert grown.used == 4
    assert decode(grown, 0, np.array([[5.0], [7.0], [0.0]])).tolist() == [2, 3, 0]
    assert table.with_novel(0, np.array([[1.0], [0.0]])) is table
    again = type(table).from_arrays(grown.to_arrays())
    np.testing.assert_array_equal(again.log_odds(0, np.array([[6.0]])), grown.log_odds(0, np.array([[6.0]])))
    full = table
    for x in range(100):
        full = full.with_novel(0, np.array([[10.0 + x]]))
    assert full.used == full.n_latents == table.n_latents
