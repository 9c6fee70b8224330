"""The neural decoder: its likelihood, its training, and that acting with it needs NumPy only."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from tailrank.checks import InputError
from tailrank.envs.built_in.rich_lock import rich_lock
from tailrank.episodes.replay import Replay
from tailrank.learning.decoding._neural_batches import CUT, ENDED, NEXT, laid_out, moments
from tailrank.learning.decoding._neural_start import continued, initial
from tailrank.learning.decoding.neural import fit_neural
from tailrank.policies.decoders.base import decode, posterior
from tailrank.policies.decoders.network import NeuralDecoder, NeuralSettings, forward
from tailrank.policies.decoders.registry import decoder_from

jax = pytest.importorskip("jax")
pytest.importorskip("optax")
jnp = jax.numpy
H, A, K, M = 4, 3, 3, 8
SMALL = NeuralSettings(width=32, restarts=2, steps=200)


def engine():
    from tailrank.learning.decoding import _neural_jax

    return _neural_jax


def short_episodes(n=7, m=2, seed=0, horizon=H):
    """Episodes of any length, features that name their place: (episode, step)."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, horizon + 1, size=n)
    features = np.stack(np.broadcast_arrays(np.arange(n)[:, None], np.arange(horizon)), axis=-1)
    features = np.concatenate([features, rng.normal(size=(n, horizon, m - 2))], axis=-1)
    replay = Replay(horizon, m)
    replay.add(features, rng.integers(A, size=(n, horizon)), rng.integers(2, size=(n, horizon)), lengths)
    return replay


@pytest.fixture(scope="module")
def lock():
    """Episodes of a lock where the right actions of both good latents differ at every step, and true latents."""
    sim = rich_lock(horizon=H, n_actions=A, noise=0.1, seed=18)
    rewards = sim.lock.rewards.which
    right = np.array([[np.flatnonzero(rewards[h, g] == (0 if h < H - 1 else 2))[0] for g in (0, 1)] for h in range(H)])
    assert (right[:, 0] != right[:, 1]).all()

    def episodes(n, rng):
        x, latents, actions, units, features = sim.reset(2 * rng.integers(2**31, size=n)), [], [], [], []
        for h in range(H):
            good = (sim.latent < 2) & (rng.random(n) < 0.6)
            a = np.where(good, right[h][np.minimum(sim.latent, 1)], rng.integers(A, size=n))
            latents.append(sim.latent.copy())
            features.append(x)
            r, x, _ = sim.step(a)
            actions.append(a)
            units.append(np.rint(r * 10))
        replay = Replay(H, sim.n_features)
        replay.add(*(np.stack(column, axis=1) for column in (features, actions, units)), np.full(n, H))
        return replay, np.stack(latents, axis=1)

    rng = np.random.default_rng(2)
    return episodes(300, rng), episodes(500, rng)


def purity(decoder, replay, latents):
    """Share of observations that share their latent with most of those decoded alike."""
    together = np.zeros((H, K, K))
    for h in range(H):
        np.add.at(together[h], (decode(decoder, h, replay.features[:, h]), latents[:, h]), 1)
    return together.max(axis=2).sum() / together.sum()


@pytest.mark.parametrize("shared", [False, True])
def test_layout_holds_each_transition_once_with_what_follows_it(shared):
    replay = short_episodes(n=11, seed=3)
    batch = laid_out(replay, np.arange(11), np.array([0, 1]), batch=64, shared=shared, labels=None)
    assert batch.x.shape[0] == (1 if shared else H)
    flat, found = batch.x.reshape(-1, 2), set()
    for place in np.argwhere(batch.weight > 0):
        s, b = place
        i, h = (int(v) for v in batch.x[s, b])
        found.add((i, h))
        assert shared or h == s
        assert batch.action[s, b] == replay.actions[i, h]
        assert batch.reward[s, b] == replay.units[i, h]
        if h + 1 < replay.lengths[i]:
            assert batch.outcome[s, b] == NEXT
            assert flat[batch.after[s, b]].tolist() == [i, h + 1]
        else:
            assert batch.outcome[s, b] == (CUT if shared and h == H - 1 else ENDED)
    assert found == {(i, h) for i in range(11) for h in range(replay.lengths[i])}


def test_layout_keeps_to_the_batch():
    replay = short_episodes(n=40, seed=3)
    batch = laid_out(replay, np.arange(40), np.array([0, 1]), batch=8, shared=False, labels=None)
    assert batch.x.shape == (H, 8, 2)
    for s, b in np.argwhere((batch.weight > 0) & (batch.outcome == NEXT)):
        i, h = batch.x[s, b]
        assert batch.x.reshape(-1, 2)[batch.after[s, b]].tolist() == [i, h + 1]
        assert batch.weight.reshape(-1)[batch.after[s, b]] == 1


@pytest.mark.parametrize("shared", [False, True])
def test_likelihood_is_the_sum_over_latents(shared):
    rng = np.random.default_rng(0)
    batch = laid_out(short_episodes(), np.arange(7), np.array([0, 1]), batch=64, shared=shared, labels=None)
    S, B = batch.weight.shape
    q = rng.dirichlet(np.ones(K), size=(S, B))
    T, R = rng.dirichlet(np.ones(K + 1), size=(S, K, A)), rng.dirichlet(np.ones(2), size=(S, K, A))
    e = engine()
    value = np.asarray(jax.jit(e.log_likelihood)(np.log(q), e.LatentTables(T, R), batch))
    flat = q.reshape(-1, K)
    for s, b in np.argwhere(batch.weight > 0):
        following = [flat[batch.after[s, i]] for i in range(B) if batch.weight[s, i] and batch.outcome[s, i] == NEXT]
        total = 0.0
        for z in range(K):
            a, r = batch.action[s, b], batch.reward[s, b]
            if batch.outcome[s, b] == NEXT:
                p = np.mean(following, axis=0)
                factor = sum(T[s, z, a, j] * flat[batch.after[s, b], j] / p[j] for j in range(K))
            else:
                factor = T[s, z, a, K] if batch.outcome[s, b] == ENDED else 1.0
            total += q[s, b, z] * R[s, z, a, r] * factor
        assert value[s, b] == pytest.approx(np.log(total), abs=2e-5)


def test_tables_are_counts_when_latents_are_known():
    replay = short_episodes(n=30, seed=5)
    latents = np.random.default_rng(6).integers(K, size=(30, H))
    batch = laid_out(replay, np.arange(30), np.array([0, 1]), batch=64, shared=False, labels=latents)
    e = engine()
    with np.errstate(divide="ignore"):
        log_q = np.log(np.eye(K, dtype=np.float32)[batch.label])
    tables = jax.jit(partial(e.settled, n_actions=A, n_rewards=2, prior=1e-7))(log_q, batch)
    after, paid = np.zeros((H, K, A, K + 1)), np.zeros((H, K, A, 2))
    for i in range(30):
        for h in range(replay.lengths[i]):
            on = h + 1 < replay.lengths[i]
            z, a = latents[i, h], replay.actions[i, h]
            after[h, z, a, latents[i, h + 1] if on else K] += 1
            paid[h, z, a, replay.units[i, h]] += 1
    seen = after.sum(axis=-1) > 0
    assert seen.sum() > 15
    for table, count in ((tables.following, after), (tables.reward, paid)):
        wanted = count[seen] / count[seen].sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(np.asarray(table)[seen], wanted, atol=1e-5)


def test_gradients_are_those_of_the_likelihood():
    replay = short_episodes(m=5)
    batch = laid_out(replay, np.arange(7), np.array([0, 1]), batch=64, shared=False, labels=None)
    e, rng = engine(), np.random.default_rng(2)
    weights = initial(NeuralSettings(width=4), n_features=5, n_latents=K, steps=H, rng=rng)
    wide = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64  # where jax is older
    with wide(True):
        weights = {k: v.astype(np.float64) for k, v in weights.items()}
        tables = e.LatentTables(
            rng.dirichlet(np.ones(K + 1), size=(H, K, A)), rng.dirichlet(np.ones(2), size=(H, K, A))
        )
        both = jax.jit(jax.value_and_grad(lambda w: e.loss(w, tables, batch, 0.0, None)[0]))
        slope = {k: np.asarray(v) for k, v in both(weights)[1].items()}
        for name, array in weights.items():
            way = rng.normal(size=array.shape)
            step = 1e-5 * way
            up, down = ({**weights, name: array + sign * step} for sign in (1, -1))
            assert float(both(up)[0] - both(down)[0]) / 2e-5 == pytest.approx(
                float((slope[name] * way).sum()), abs=1e-7
            )


def test_finds_the_latents_of_a_lock(lock):
    (replay, _), (fresh, latents) = lock
    fit = fit_neural(replay, K, A, settings=SMALL, shared=False, rng=np.random.default_rng(0))
    assert purity(fit.decoder, fresh, latents) > 0.98
    assert fit.converged
    assert fit.held_out > 0.2
    sure = np.concatenate([posterior(fit.decoder, h, fresh.features[:, h]).max(axis=1) for h in range(H)])
    assert sure.mean() > 0.99
    again = fit_neural(replay, K, A, settings=SMALL, shared=False, rng=np.random.default_rng(0))
    for name, array in fit.decoder.to_arrays().items():
        np.testing.assert_array_equal(array, again.decoder.to_arrays()[name])


def test_random_weights_alone_find_what_matters(lock, monkeypatch):
    (replay, _), (fresh, latents) = lock
    monkeypatch.setattr("tailrank.learning.decoding.neural.grouped", lambda weights, *_: weights)
    settings = NeuralSettings(width=32, restarts=4, steps=300)
    fit = fit_neural(replay, K, A, settings=settings, shared=False, rng=np.random.default_rng(0))
    assert fit.best_step > 0
    assert purity(fit.decoder, fresh, latents) > 0.98


def test_labels_are_kept(lock):
    (replay, latents), (fresh, others) = lock
    names = np.array([[2, 0, 1], [1, 0, 2], [0, 1, 2], [1, 2, 0]])
    labels = np.take_along_axis(names[None], latents[:, :, None], axis=2)[..., 0]
    labels[::5] = -1
    one = NeuralSettings(width=32, restarts=1, steps=200)
    fit = fit_neural(replay, K, A, settings=one, shared=False, rng=np.random.default_rng(0), labels=labels)
    agree = [np.mean(decode(fit.decoder, h, fresh.features[:, h]) == names[h][others[:, h]]) for h in range(H)]
    assert min(agree) > 0.98


def test_an_earlier_decoder_is_not_made_worse(lock):
    (replay, _), (fresh, latents) = lock
    first = fit_neural(replay, K, A, settings=SMALL, shared=False, rng=np.random.default_rng(0))
    one, held = NeuralSettings(width=32, restarts=1, steps=20), np.arange(60)
    fit = fit_neural(
        fresh, K, A, settings=one, shared=False, rng=np.random.default_rng(5), warm=first.decoder, held=held
    )
    assert purity(fit.decoder, fresh, latents) > 0.98
    for h in range(1, H):  # the first step has one latent, which may be split anyhow
        same = decode(first.decoder, h, fresh.features[:, h]) == decode(fit.decoder, h, fresh.features[:, h])
        assert same.mean() > 0.98


def test_noise_is_not_memorised():
    rng = np.random.default_rng(0)
    replay = Replay(H, M)
    replay.add(rng.normal(size=(300, H, M)), rng.integers(A, size=(300, H)), 3 * np.ones((300, H)), np.full(300, H))
    replay._units[:4] = np.arange(4)[:, None]
    fit = fit_neural(replay, K, A, settings=SMALL, shared=False, rng=rng, held=np.arange(4, 64))
    assert -0.05 < fit.held_out < 0.05
    several = NeuralSettings(width=32, restarts=1, steps=50, ensemble=2)
    assert fit_neural(replay, K, A, settings=several, shared=False, rng=rng).disagreement > 0.2


def test_members_agree_on_a_lock(lock):
    (replay, latents), _ = lock
    several = NeuralSettings(width=32, restarts=2, steps=50, ensemble=2)
    fit = fit_neural(replay, K, A, settings=several, shared=False, rng=np.random.default_rng(0), labels=latents)
    assert fit.disagreement < 0.02


def test_shared_decoder_sees_all_steps():
    rng = np.random.default_rng(0)
    n, horizon = 60, 6
    latents = np.zeros((n, horizon), dtype=int)
    actions = rng.integers(2, size=(n, horizon))
    for h in range(1, horizon):
        latents[:, h] = (latents[:, h - 1] + actions[:, h - 1]) % 2
    features = 1.0 * np.stack([2.0 * latents - 1.0, np.zeros(latents.shape)], axis=-1)
    features += rng.normal(size=features.shape) * [0.3, 3.0]
    replay = Replay(horizon, 2)
    replay.add(features, actions, latents * (rng.random((n, horizon)) < 0.5), np.full(n, horizon))
    settings = NeuralSettings(architecture="linear", restarts=2, steps=150, learning_rate=2e-2)
    fit = fit_neural(replay, 2, 2, settings=settings, shared=True, rng=rng)
    found = fit.decoder.log_odds(0, features.reshape(-1, 2)).argmax(axis=1)
    right = np.mean(found == latents.ravel())
    assert max(right, 1 - right) > 0.97
    np.testing.assert_array_equal(fit.decoder.log_odds(3, features[:, 0]), fit.decoder.log_odds(0, features[:, 0]))


SHAPES = [
    ({"architecture": "linear"}, 6, False),
    ({"layers": 2, "width": 5, "heads": "shared"}, 6, False),
    ({"width": 5}, 6, True),
    ({"architecture": "conv", "image_shape": (9, 8, 2), "width": 5}, 144, False),
]


def some_decoder(settings, m, shared, seed=0):
    rng = np.random.default_rng(seed)
    steps = 1 if shared else H
    weights = initial(settings, n_features=m, n_latents=K, steps=steps, rng=rng)
    weights = {k: v + 0.1 * rng.normal(size=v.shape).astype(np.float32) for k, v in weights.items()}
    channels = settings.image_shape[2] if settings.image_shape else None
    replay = Replay(H, m)
    replay.add(3 + 2 * rng.normal(size=(9, H, m)), *np.zeros((2, 9, H)), np.full(9, H))
    batch = laid_out(replay, np.arange(9), np.array([0]), batch=64, shared=shared, labels=None)
    return NeuralDecoder(weights, *moments(batch, channels), 2.0, settings.image_shape, shared), replay


@pytest.mark.parametrize(("chosen", "m", "shared"), SHAPES)
def test_decoder_is_the_same_in_files_and_in_jax(chosen, m, shared, tmp_path):
    from safetensors.numpy import load_file, save_file

    settings = NeuralSettings(**chosen)
    decoder, replay = some_decoder(settings, m, shared)
    save_file(decoder.to_arrays(), tmp_path / "decoder.safetensors")
    loaded = NeuralDecoder.from_arrays(load_file(tmp_path / "decoder.safetensors"))
    assert (loaded.kind, loaded.n_latents, loaded.shared) == ("neural", K, shared)
    x = (replay.features.transpose(1, 0, 2) - decoder.mean[:, None]) / decoder.scale
    x = x[:1] if shared else x
    odds = 2.0 * np.asarray(jax.jit(lambda w, x: forward(jnp, w, x, settings.image_shape))(decoder.weights, x))
    for h in range(len(x)):
        np.testing.assert_array_equal(
            loaded.log_odds(h, replay.features[:, h]), decoder.log_odds(h, replay.features[:, h])
        )
        np.testing.assert_allclose(decoder.log_odds(h, replay.features[:, h]), odds[h], atol=2e-4)


@pytest.mark.parametrize(("chosen", "m", "shared"), SHAPES)
def test_an_earlier_decoder_says_the_same_of_features_standardised_anew(chosen, m, shared):
    settings = NeuralSettings(**chosen)
    decoder, replay = some_decoder(settings, m, shared)
    _, other = some_decoder(settings, m, shared, seed=1)
    batch = laid_out(other, np.arange(9), np.array([0]), batch=64, shared=shared, labels=None)
    mean, scale = moments(batch, settings.image_shape[2] if settings.image_shape else None)
    weights = continued(decoder, decoder.weights, shared, mean, scale)
    again = NeuralDecoder(weights, mean, scale, 2.0, settings.image_shape, shared)
    for h in range(H):
        x = replay.features[:, h]
        np.testing.assert_allclose(again.log_odds(h, x), decoder.log_odds(h, x), atol=1e-3)
    with pytest.raises(InputError, match="warm: head is"):
        continued(decoder, {**weights, "head": np.zeros((1, 2, 3))}, shared, mean, scale)


def test_convolution_by_hand():
    rng = np.random.default_rng(0)
    settings = NeuralSettings(architecture="conv", image_shape=(9, 8, 2), width=5)
    weights = initial(settings, n_features=144, n_latents=K, steps=1, rng=rng)
    image = x = rng.normal(size=(9, 8, 2))
    for i in range(2):
        kernel = weights[f"conv{i}"].reshape(3, 3, x.shape[2], -1)
        rows, columns = (x.shape[0] - 3) // 2 + 1, (x.shape[1] - 3) // 2 + 1
        out = np.zeros((rows, columns, kernel.shape[-1]))
        for r in range(rows):
            for c in range(columns):
                out[r, c] = np.einsum("ijd,ijde->e", x[2 * r : 2 * r + 3, 2 * c : 2 * c + 3], kernel)
        x = np.maximum(out, 0.0)
    wanted = np.tanh(x.ravel() @ weights["hidden0"]) @ weights["head"][0]
    np.testing.assert_allclose(forward(np, weights, image.reshape(1, 1, 144), (9, 8, 2))[0, 0], wanted, atol=1e-5)


def test_features_are_standardised_by_step():
    rng = np.random.default_rng(0)
    replay = Replay(H, 3)
    features = rng.normal(size=(400, H, 3)) * [2.0, 0.5, 0.0] + 10.0 * np.arange(H)[:, None]
    replay.add(features, *np.zeros((2, 400, H)), np.full(400, H))
    batch = laid_out(replay, np.arange(400), np.array([0]), batch=512, shared=False, labels=None)
    mean, scale = moments(batch, None)
    np.testing.assert_allclose(mean, features.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(scale[:2], [2.0, 0.5], rtol=0.05)


def test_acting_does_not_need_jax(tmp_path):
    decoder, _ = some_decoder(NeuralSettings(), 6, False)
    np.savez(tmp_path / "decoder.npz", **decoder.to_arrays())
    code = (
        "import sys, numpy as np\n"
        "from tailrank.learning.decoding.neural import NeuralDecoder\n"
        f"decoder = NeuralDecoder.from_arrays(dict(np.load({str(tmp_path / 'decoder.npz')!r})))\n"
        "print(decoder.log_odds(1, np.zeros((2, 6))).shape, *({'jax', 'optax'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(2, 3)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NeuralSettings(layers=3), "layers = 3"),
        (lambda: NeuralSettings(architecture="mpl"), "did you mean 'mlp'"),
        (lambda: NeuralSettings(held_out=1.0), "held_out = 1.0"),
        (lambda: NeuralSettings(architecture="conv"), "image_shape = None"),
        (lambda: NeuralSettings(architecture="conv", image_shape=(5, 9, 1)), "image_shape = "),
        (lambda: decoder_from("neural", {}, 3), "decoder: must hold"),
        (lambda: bad_fit(n=1), "has 1 episodes"),
        (lambda: bad_fit(rank=0), "rank = 0"),
        (lambda: bad_fit(labels=np.zeros((2, 2), dtype=int)), r"found \(2, 2\)"),
        (lambda: bad_fit(labels=np.full((7, H), 3)), r"found 3\.\.3"),
        (lambda: bad_fit(labels=np.zeros((7, H), dtype=int), heads="shared"), "needs heads = 'step'"),
        (lambda: bad_fit(held=np.arange(7)), "holds 7 of 7"),
        (lambda: bad_fit(architecture="conv", image_shape=(7, 7, 1)), "must make 2 features"),
    ],
)
def test_errors_name_what_is_wrong(make, message):
    with pytest.raises(InputError, match=message):
        make()


def bad_fit(n=7, rank=K, labels=None, held=None, **settings):
    chosen = NeuralSettings(**settings)
    rng = np.random.default_rng(0)
    return fit_neural(short_episodes(n), rank, A, settings=chosen, shared=False, rng=rng, labels=labels, held=held)
