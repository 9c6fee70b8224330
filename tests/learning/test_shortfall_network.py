"""The shortfall network: targets by brute force, gradients by differences, learning on a tiny MDP, resuming, files."""

from __future__ import annotations

import numpy as np
import pytest
from small_simulators import Gamble, Simulated

from tailrank import cvar
from tailrank.checks import InputError
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.simulators.learners import ShortfallLearner
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.kernel import BudgetScale
from tailrank.policies.shortfall import ShortfallPolicy, forward, network_input, shortfalls
from tailrank.policies.tables import UniformPolicy
from tailrank.runs.policy_files import budgeted, storage

jax = pytest.importorskip("jax")
pytest.importorskip("optax")
jnp = jax.numpy


def candidate(**more):
    from tailrank.learning.shortfall.candidate import ShortfallCandidate

    return ShortfallCandidate(**({"hidden": (16,), "budgets": 16, "ratio": 2.0, "batch": 32} | more))


def engine():
    from tailrank.learning.shortfall import _training_jax

    return _training_jax


def layers(rng, inputs=3, hidden=4, outputs=2 * 5):
    sizes = [(inputs, hidden), (hidden, outputs)]
    return tuple((rng.normal(size=s).astype(np.float32), rng.normal(size=s[1]).astype(np.float32)) for s in sizes)


def batch_of(rng, n=6, inputs=3):
    e = engine()
    x, after = rng.normal(size=(2, n, inputs)).astype(np.float32)
    over, end = np.array([0, 1] * (n // 2), dtype=np.float32), rng.normal(size=n).astype(np.float32)
    return e.TransitionBatch(x, rng.integers(0, 2, size=n), 2 * rng.normal(size=n).astype(np.float32), after, over, end)


def test_targets_against_brute_force():
    rng, e = np.random.default_rng(0), engine()
    mine, slow, batch = layers(rng), layers(rng), batch_of(rng)
    found = np.asarray(jax.jit(e.targets, static_argnums=3)(mine, slow, batch, 2))
    C = found.shape[1]
    for i in range(len(found)):
        q, q_slow = (shortfalls(np, forward(np, net, batch.after[i : i + 1]).reshape(2, -1)) for net in (mine, slow))
        v = [q_slow[int(np.argmin(q[:, c])), c] for c in range(C)]
        for c in range(C):
            place = c - float(batch.shift[i])
            inside = np.interp(place, np.arange(C), v) + max(place - (C - 1), 0.0)
            expected = max(place + float(batch.end[i]), 0.0) if batch.over[i] else inside
            assert found[i, c] == pytest.approx(expected, abs=1e-4)


def test_gradient_against_differences():
    rng, e = np.random.default_rng(1), engine()
    mine, slow, batch = layers(rng), layers(rng), batch_of(rng)
    slope = jax.jit(jax.grad(e.loss), static_argnums=3)(mine, slow, batch, 2)
    # With the target held still, as the gradient holds it.
    aim = np.clip(
        np.diff(np.asarray(jax.jit(e.targets, static_argnums=3)(mine, slow, batch, 2), dtype=np.float64), axis=1),
        0.0,
        1.0,
    )

    def plain(net):
        logits = forward(np, net, np.asarray(batch.x, dtype=np.float64)).reshape(len(aim), 2, -1)
        chosen = logits[np.arange(len(aim)), batch.action]
        return float((np.logaddexp(0.0, chosen) - aim * chosen).mean())

    for i, j, k in ((0, 1, 2), (0, 0, 0), (1, 3, 7)):
        step = np.zeros_like(mine[i][0], dtype=np.float64)
        step[j, k] = 1e-5
        moved = [tuple((w + s * step if n == i else w, b) for n, (w, b) in enumerate(mine)) for s in (1, -1)]
        assert float(slope[i][0][j, k]) == pytest.approx((plain(moved[0]) - plain(moved[1])) / 2e-5, abs=1e-4)


def test_shortfalls_have_slopes_between_zero_and_one():
    q = shortfalls(np, np.random.default_rng(0).normal(size=(3, 2, 9)) * 50)
    assert q.shape == (3, 2, 10)
    assert (q[..., 0] == 0).all()
    assert (np.diff(q, axis=-1) >= 0).all()
    assert (np.diff(q, axis=-1) <= 1).all()


def test_network_learns_the_shortfall_of_a_tiny_mdp():
    """Gamble: at its last step action 0 pays .7 and action 1 pays 2 or nothing."""
    env, streams = Gamble(), Streams(0)
    batch = play_simulator(
        UniformPolicy(2, 2, streams.planner(0)), env, streams.train_seeds(0, 400), keep_features=True
    )
    played = PlayedEpisodes.none(2, 1).with_played(batch)
    fitted = candidate(members=1, budgets=40, ratio=4.0).fit(played, 2, 0.3, np.random.default_rng(0))
    policy, promise = fitted.policy((0,))
    budgets = fitted.scale.budget(np.arange(fitted.scale.count), 1)
    q = policy.values(np.zeros((1, 1)), 1)[0] * fitted.scale.unit
    exact = np.stack([np.maximum(budgets - 0.7, 0), 0.5 * np.maximum(budgets, 0) + 0.5 * np.maximum(budgets - 2, 0)])
    assert np.abs(q - exact).max() < 0.2
    assert promise == pytest.approx(0.7, abs=0.15)  # the safe way is the best tail


class Slope(Simulated):
    """One number; action 1 pays it, action 0 pays nothing; three steps."""

    horizon, n_actions, n_features = 3, 2, 1

    def _begin(self, rng):
        return rng.normal()

    def _see(self, h, latent, rng):
        return np.array([latent])

    def _move(self, h, latent, action, rng):
        return action * latent, rng.normal(), False


def test_learner_resumes_and_saves(tmp_path):
    one = ShortfallLearner(0.3, network=candidate(), total=150, pilot=40, choice=0.1)
    env, streams = Slope(), Streams(1)
    state = again = one.init(env, streams)
    while not one.over(state, env.horizon):
        state, _ = one.step(state, env, streams)
        again = one.restored(again.to_arrays(), env, streams) if again.k else again
        again, _ = one.step(again, env, streams)
    for name, array in state.to_arrays().items():
        np.testing.assert_array_equal(again.to_arrays()[name], array, err_msg=name)
    policy, seeds = one.policy(state, env, streams), streams.evaluation_seeds(0, 200)
    returns = play_simulator(policy, env, seeds).returns
    assert cvar(returns, 0.3) > -0.1  # without risk where the number is negative
    storage.save(policy, tmp_path / "slope.policy")
    loaded = storage.load(tmp_path / "slope.policy").policy
    np.testing.assert_array_equal(play_simulator(loaded, env, seeds).returns, returns)


def test_damaged_networks_are_refused():
    rng = np.random.default_rng(0)
    net = tuple((w[None], b[None]) for w, b in layers(rng))
    scale = BudgetScale(1.0, 0.0, 6, 0.0)
    arrays, scalars = budgeted.shortfall_parts(ShortfallPolicy(net, np.zeros(1), np.ones(1), scale, 1.0, 4))
    assert budgeted.shortfall_policy(arrays, scalars).n_actions == 2
    for name, value in (("spread", np.zeros(1)), ("layer.0.weight", net[0][0][:, 1:]), ("centre", np.zeros(2))):
        with pytest.raises(InputError):
            budgeted.shortfall_policy(arrays | {name: value}, scalars)
    with pytest.raises(InputError):
        budgeted.shortfall_policy(arrays, scalars | {"count": 5})


def test_inputs_are_standardised_and_cut():
    x = network_input(np.array([[3.0], [1e9]]), np.array([2, 1]), 4, np.ones(1), np.full(1, 2.0))
    np.testing.assert_allclose(x, [[1.0, 0.5, 0.5], [10.0, 0.25, 1.0]])
