"""Images through an encoder: what is kept of them, the likelihood, the policy file, and a learner that sees a spot."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from safetensors import safe_open
from safetensors.numpy import save_file

from tailrank import load, save
from tailrank.checks import InputError
from tailrank.envs import open_simulator
from tailrank.envs.gymnasium.spaces import Encoder
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.images import training as training_module
from tailrank.learning.images.seeing import images_of
from tailrank.learning.images.training import EncoderTraining, Pieces, begun, train_encoder
from tailrank.learning.registry import make_learner
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.images import ImageEncoder, ImagePolicy, embedded, layout_of
from tailrank.policies.softmax import Network, SoftmaxPolicy
from tailrank.policies.tables import UniformPolicy


class Hall(gymnasium.Env):
    """A spot between 0 and 1 on an image of 12 x 12 with noise; action 1 goes right, where 1 is paid at the end.

    Another spot below it is anywhere at any time, and means nothing.
    """

    def __init__(self):
        self.observation_space = spaces.Box(0, 255, (12, 12), np.uint8)
        self.action_space = spaces.Discrete(2)

    def _seen(self):
        rows, columns = np.mgrid[0:12, 0:12]
        spot = np.exp(-((rows - 3) ** 2 + (columns - 1 - 9 * self.place) ** 2) / 2)
        spot += np.exp(-((rows - 9) ** 2 + (columns - self.np_random.uniform(0, 11)) ** 2) / 2)
        return (20 + 200 * spot + self.np_random.integers(0, 10, (12, 12))).astype(np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(0.3, 0.7)
        return self._seen(), {}

    def step(self, action):
        self.place = np.clip(self.place + (0.15 if action else -0.15) + self.np_random.normal(0, 0.02), 0, 1)
        return self._seen(), float(self.place >= 1) - 0.05, bool(self.place >= 1), False, {}


def hall(**more):
    return open_simulator(Hall, horizon=12, width=8, **more)


@pytest.fixture(scope="module")
def played():
    env = hall()
    layout = images_of(env)
    uniform = UniformPolicy(2, 12, np.random.default_rng(0))
    batch = play_simulator(uniform, env, np.arange(0, 80, 2), keep_features=True)
    place = batch.features.reshape(*batch.features.shape[:2], 12, 12)[:, :, :6].mean(axis=2).argmax(axis=2)
    here = np.arange(13) <= batch.lengths[:, None]
    kept = PlayedEpisodes.none(12, layout.width, np.uint8)
    return kept.with_played(batch, layout), layout, place[here]


@pytest.fixture(scope="module")
def trained(played):
    found, layout, _ = played
    return train_encoder(found, layout, 2, np.random.default_rng(0))


def test_images_are_found_among_other_observations_and_kept_as_bytes():
    space = spaces.Dict(
        {
            "camera": spaces.Box(0, 255, (3, 81, 100), np.uint8),
            "grid": spaces.Box(0.0, 1.0, (9, 9, 2), np.float32),
            "small": spaces.Box(0, 255, (5, 9), np.uint8),
            "speed": spaces.Box(-9.0, 9.0, (2,), np.float32),
        }
    )
    encoder = Encoder.of(space)
    assert encoder.images == ((0, (81, 100, 3)),)
    space.seed(0)
    seen = [space.sample() for _ in range(3)]
    features = encoder.encode(seen)
    layout = layout_of(encoder.n_features, list(encoder.images))
    rows = layout.rows(features)
    assert rows.dtype == np.uint8
    assert rows.shape == (3, layout.width) == (3, 27 * 34 * 3 + 4 * (162 + 45 + 2))
    image = layout.pixels(rows)[0]
    for i, j in ((0, 0), (26, 33), (13, 20)):
        block = seen[1]["camera"][:, 3 * i : 3 * i + 3, 3 * j : 3 * j + 3].reshape(3, -1).mean(axis=1)
        np.testing.assert_allclose(image[1, i, j], block, atol=0.5)
    np.testing.assert_array_equal(layout.rest(rows), features[:, 3 * 81 * 100 :].astype(np.float32))
    np.testing.assert_array_equal(layout.rows(features[None]), rows[None])
    with pytest.raises(InputError, match="images: need 24300 features"):
        layout_of(100, [(0, (81, 100, 3))])


def brute_force(w, batch):
    """The log-likelihoods of `_training_jax`, transition by transition."""
    B, L = batch.action.shape
    frames = batch.images[0].reshape(-1, *batch.images[0].shape[2:]).astype(np.float64)
    raw = np.concatenate([embedded(np, w, (frame[None],)) for frame in frames])
    z = ((raw - raw.mean(axis=0)) / np.sqrt(raw.var(axis=0) + 1e-6)).reshape(B, L + 2, -1)
    live = [(b, t) for b in range(B) for t in range(L) if batch.played[b, t]]
    found = np.zeros((3, B, L))
    for b, t in live:
        a, now, after = batch.action[b, t], z[b, t + 1], z[b, t + 2]
        seen = np.concatenate([now, now - z[b, t], batch.rest[b, t + 1]])
        mean = now + np.tanh(seen @ w["next"] + w["next.action"][a]) @ w["next.out"][a]
        odds = {j: -0.5 * (np.exp(10 * w["precision"]) * (mean - z[j[0], j[1] + 2]) ** 2).sum() for j in live}
        found[0, b, t] = odds[b, t] - np.log(sum(np.exp(x) for x in odds.values()))
        inner = np.tanh(np.concatenate([seen, after]) @ w["paid"] + w["paid.action"][a])
        reward, end = inner @ w["paid.out"] + w["paid.bias"][a]
        v = 0.01 + np.exp(w["variance"])
        found[1, b, t] = -0.5 * (np.log(v) + (reward - batch.reward[b, t]) ** 2 / v)
        found[2, b, t] = -np.log1p(np.exp(-end if batch.ended[b, t] else end))
    return found


def small_batch():
    from tailrank.learning.images._training_jax import SegmentBatch

    rng = np.random.default_rng(3)
    played = np.array([[True, True], [True, False]])
    images = (rng.integers(0, 256, (2, 4, 7, 7, 1)).astype(np.uint8),)
    numbers = rng.normal(size=(2, 4, 2)), rng.integers(0, 3, (2, 2)), rng.normal(size=(2, 2))
    layout = layout_of(51, [(0, (7, 7, 1))])
    weights = begun(layout, 3, rng)
    weights |= {name: x + 0.1 * rng.normal(size=x.shape) for name, x in weights.items()} | {"precision": np.zeros(8)}
    fixed = {"mean0": np.full((7, 7, 1), 128.0), "scale0": np.array(1 / 64)}
    return SegmentBatch(images, *numbers, np.array([[0.0, 0.0], [1.0, 0.0]]), played), weights, fixed


def test_the_likelihood_and_its_gradient_are_those_of_brute_force():
    import jax

    from tailrank.learning.images._training_jax import log_likelihoods, loss

    batch, weights, fixed = small_batch()
    wide = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64  # where jax is older
    with wide(True):
        found = [np.asarray(x).reshape(2, 2) for x in jax.jit(log_likelihoods)(weights, fixed, batch)]
        slopes = jax.jit(jax.grad(loss))(weights, fixed, batch)
        slopes = {name: np.asarray(x, dtype=np.float64) for name, x in slopes.items()}
    right = brute_force(weights | fixed, batch)
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)
    rng = np.random.default_rng(0)
    for name in ("conv0.0", "sharp0.1", "hidden", "out", "next", "next.out", "precision", "paid", "variance"):
        way = rng.normal(size=weights[name].shape)
        up, down = (
            -brute_force(weights | fixed | {name: weights[name] + s * 1e-5 * way}, batch).sum() / 3 for s in (1, -1)
        )
        np.testing.assert_allclose((slopes[name] * way).sum(), (up - down) / 2e-5, rtol=2e-3, atol=1e-6)


def test_numpy_says_what_jax_says_in_any_company(trained, played):
    import jax
    import jax.numpy as jnp

    rows, layout = played[0].observations, trained.layout
    z = trained.encoder.seen(rows[:40])
    images = tuple(jnp.asarray(x, dtype=jnp.float32) for x in layout.pixels(rows[:40]))
    raw = np.asarray(jax.jit(lambda *x: embedded(jnp, trained.weights, x))(*images))
    np.testing.assert_allclose(z, (raw - trained.weights["centre"]) / trained.weights["spread"], atol=2e-4)
    for some in (slice(7, 8), slice(3, 29), [38, 2]):
        # Not bit by bit: on some processors a row of a product depends on its place among the others.
        np.testing.assert_allclose(trained.encoder.seen(rows[some]), z[some], rtol=0, atol=1e-6)


def wrong(training, played):
    """How far the spot is from where it is in the image that looks most alike, in pixels."""
    found, _, place = played
    z = training.viewed(found).features
    learn, ask = np.arange(0, len(z), 2), np.arange(1, len(z), 2)
    near = ((z[ask, None] - z[learn]) ** 2).sum(axis=2).argmin(axis=1)
    return np.abs(place[learn][near] - place[ask]).mean()


def test_masks_stay_with_their_steps(trained, played):
    masks = np.arange(played[0].steps)[:, None].astype(np.uint8)
    np.testing.assert_array_equal(trained.viewed(replace(played[0], allowed=masks)).allowed, masks)


def test_the_encoder_sees_what_can_be_foreseen(trained, played):
    rng, (found, layout, _) = np.random.default_rng(0), played
    weights = trained.weights | begun(layout, 2, rng)
    weights |= training_module._spread(weights, layout, found, rng)
    untrained = replace(trained, weights=weights)
    assert wrong(trained, played) < 0.7 * wrong(untrained, played)


def test_pieces_end_with_their_episode(played):
    found, layout, _ = played
    pieces, rows = Pieces.of(found, layout, 0.0, 1.0), found.observations[found.seen]
    last, e = np.cumsum(found.lengths) - 1, int(np.argmax(found.lengths))
    batch = pieces.batch(np.array([last[0], last[e] + 1 - found.lengths[e]]), (np.zeros(0), np.ones(0)))
    np.testing.assert_array_equal(batch.played, [[True, False, False, False], [True] * 4])
    end, first = int(found.lengths[0]), found.begin[e]
    np.testing.assert_array_equal(batch.images[0][0, :3].reshape(3, -1), rows[[end - 2, end - 1, end]])
    np.testing.assert_array_equal(batch.images[0][1, :3].reshape(3, -1), rows[[first, first, first + 1]])
    assert batch.ended[0, 0] == (found.lengths[0] < 12)
    assert batch.action[0, 0] == found.actions[last[0]]


def on_images(encoder, A=2):
    rng = np.random.default_rng(1)
    return ImagePolicy(SoftmaxPolicy(Network((), rng.normal(size=(12, encoder.n_seen, A)), np.zeros((12, A)))), encoder)


def test_a_policy_file_comes_back_and_acts_without_jax(trained, tmp_path, monkeypatch):
    policy, env = on_images(trained.encoder), hall()
    save(policy, tmp_path / "p")
    monkeypatch.setitem(sys.modules, "jax", None)
    again = load(tmp_path / "p").policy
    assert (again.n_features, again.horizon, again.n_actions) == (144, 12, 2)
    mine, other = (play_simulator(x, env, np.arange(1, 21, 2)) for x in (policy, again))
    np.testing.assert_array_equal(mine.actions, other.actions)
    assert 0 < (mine.actions == 1).mean() < 1


def damaged(path, arrays=None, drop=(), **scalars):
    with safe_open(path, "numpy") as file:
        header = json.loads(file.metadata()["tailrank"])
        found = {name: file.get_tensor(name) for name in file.keys() if name not in drop}  # noqa: SIM118
    header["scalars"] |= scalars
    save_file(found | (arrays or {}), path, metadata={"tailrank": json.dumps(header)})


@pytest.mark.parametrize(
    ("arrays", "drop", "scalars", "said"),
    [
        ({"encoder.out": np.zeros((3, 8), np.float32)}, (), {}, "encoder.out: must be"),
        ({"encoder.scale0": np.array(0, np.float32)}, (), {}, "encoder.scale0: must be > 0"),
        ({"encoder.centre": np.full(8, np.nan, np.float32)}, (), {}, "encoder.centre: must be finite"),
        ({"more": np.zeros(2)}, (), {}, "must not hold"),
        ({}, ("encoder.hidden",), {}, "must hold"),
        ({}, (), {"images": [[0, 12, 12, 2]]}, "images: need 288 features, there are 144"),
        ({}, (), {"images": [[0, 6, 12, 1]]}, "does not fit"),
        ({}, (), {"images": []}, "images: need"),
        ({}, (), {"images": 7}, "damaged header"),
        ({}, (), {"n_features": 10**12}, "n_features"),
        ({}, (), {"n_features": 150}, "inner: sees 8 numbers, must see 14"),
        ({}, (), {"kind": "images"}, "kind = 'images'"),
    ],
)
def test_damaged_files_are_refused(trained, tmp_path, arrays, drop, scalars, said):
    save(on_images(trained.encoder), tmp_path / "p")
    damaged(tmp_path / "p", arrays, drop, **scalars)
    with pytest.raises(InputError, match=said):
        load(tmp_path / "p")


def test_a_learner_sees_the_spot_and_goes_on_to_the_same_bits(tmp_path):
    env, streams = hall(), Streams(4)
    learner = make_learner("kernel", "simulator", tau=0.5, pilot=16).prepared(env, streams, 60)
    state, middle = learner.init(env, streams), None
    while not learner.over(state, env.horizon):
        state, _info = learner.step(state, env, streams)
        middle = middle or state
    assert "images seen through an encoder of 8 numbers" in middle.fitted[0].about()
    assert state.played.observations.dtype == np.uint8
    policy = learner.policy(state, env, streams)
    # Random play earns about -0.4, going right at once about 0.8.
    assert play_simulator(policy, env, np.arange(1, 101, 2)).returns.mean() > 0.6
    again = learner.restored(middle.to_arrays(), env, streams)
    assert again.fitted[0].promise == middle.fitted[0].promise
    while not learner.over(again, env.horizon):
        again = learner.step(again, env, streams)[0]
    for name, array in state.to_arrays().items():
        np.testing.assert_array_equal(again.to_arrays()[name], array, err_msg=name)
    save(policy, tmp_path / "p")
    found = play_simulator(load(tmp_path / "p").policy, env, np.arange(1, 21, 2))
    np.testing.assert_array_equal(found.actions, play_simulator(policy, env, np.arange(1, 21, 2)).actions)


def test_what_is_missing_is_said_and_pixels_stay_where_they_are_asked_for(monkeypatch):
    env, streams = hall(), Streams(0)
    monkeypatch.setattr("tailrank.learning.simulators.learner.has_jax", lambda: False)
    with pytest.raises(InputError, match=r"shows images.*install tailrank\[neural\]"):
        make_learner("auto", "simulator").init(env, streams)
    plain = make_learner("kernel", "simulator", images="none", pilot=8).prepared(env, streams, 8)
    state = plain.step(plain.init(env, streams), env, streams)[0]
    assert state.played.observations.dtype == np.float32
    assert not hasattr(state.fitted[0], "training")
    with pytest.raises(InputError, match="images = 'some'"):
        make_learner("kernel", "simulator", images="some")


def test_a_checkpoint_with_another_encoder_is_refused(trained):
    arrays = trained.to_arrays()
    with pytest.raises(InputError, match=r"encoder\.next\.action: must be"):
        EncoderTraining.from_arrays(trained.layout, arrays, 3)
    again = EncoderTraining.from_arrays(trained.layout, arrays, 2)
    assert isinstance(again.encoder, ImageEncoder)
    assert (again.steps, again.score) == (trained.steps, trained.score)
