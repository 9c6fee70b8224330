"""Kinds of phi and psi: units by hand, gradients, EM that never falls, laws that are normalised, fits that explain."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank.checks import InputError
from tailrank.episodes.replay import Replay
from tailrank.learning.lowrank import network
from tailrank.learning.lowrank.data import OutcomeData
from tailrank.learning.lowrank.gains import gains
from tailrank.learning.lowrank.gaussians import log_prior, responsibilities
from tailrank.learning.lowrank.oracle import LowRankOracle
from tailrank.learning.lowrank.planning import support_of
from tailrank.learning.lowrank.psi import FAMILIES, looked_up
from tailrank.learning.lowrank.units import MAKERS, UnitData
from tailrank.policies.outcomes import OutcomeNetwork
from tailrank.policies.units import LOUD, seen

A, K, L = 2, 2, 2


def data(rng, n=60, k=2):
    z = rng.normal(size=(n, k))
    return UnitData(z, rng.integers(A, size=n), np.eye(3)[(z > 0.2).sum(axis=1)])


@pytest.mark.parametrize("phi", MAKERS)
def test_rows_of_phi_are_on_the_simplex_and_only_a_network_trains_its_units(phi):
    rng = np.random.default_rng(0)
    made = MAKERS[phi](data(rng), 5, rng)
    w = network.fresh(1, A, K, L, made)
    w |= {name: rng.normal(size=w[name].shape) for name in ("heads", "reward_heads", "tilt")}
    net = network.network_of(w, np.zeros(2), np.eye(2), A)
    x = rng.normal(size=(9, 2))
    assert net.phi(0, x).sum(axis=2) == pytest.approx(1.0)
    assert (net.phi(0, x) >= 0).all()
    outcomes = network.Outcomes(x, rng.integers(A, size=9), rng.integers(L, size=9), rng.normal(size=(9, K)))
    _, slopes = network.gradient(w, outcomes)
    assert ("hidden" in slopes) == (phi == "network")
    for name in ("heads", "tilt"):
        for index in list(np.ndindex(w[name].shape))[::7]:
            sides = []
            for step in (1e-6, -1e-6):
                moved = {key: y.copy() for key, y in w.items()}
                moved[name][index] += step
                sides.append(network.log_likelihoods(moved, outcomes)[0].mean())
            assert slopes[name][index] == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=1e-7)
    logits = [
        network._inner(one, x) @ one["heads"].reshape(len(one["heads"]), -1) for one in (w, w | {"tilt": w["tilt"]})
    ]
    both = network.mean_of([w, w])
    joined = network._inner(both, x) @ both["heads"].reshape(len(both["heads"]), -1)
    assert joined == pytest.approx(np.mean(logits, axis=0))


def test_kernels_and_leaves_by_hand():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(20, 2))
    made = MAKERS["kernel"](data(rng), 5, rng)
    centres, wide = made["hidden"].T, np.exp(-made["bias"][0])
    for row, found in zip(z, seen(made["units"], z, made["hidden"], made["bias"]), strict=True):
        near = np.exp(-((row - centres) ** 2).sum(axis=1) / (2 * wide**2))
        assert found == pytest.approx(LOUD * near / near.sum())
    made = MAKERS["forest"](data(rng, n=300), 5, rng)
    nodes = 2 ** int(made["units"][1])
    trees = made["bias"].size // nodes
    found = seen(made["units"], z, made["hidden"], made["bias"]).reshape(20, trees, nodes)
    for row, leaves in zip(z, found, strict=True):
        for tree in range(trees):
            node = 1
            while node < nodes:
                column = tree * nodes + node
                node = 2 * node + int(row @ made["hidden"][:, column] + made["bias"][column] > 0)
            assert leaves[tree].tolist() == np.eye(nodes)[node - nodes].tolist()


def test_a_forest_splits_where_outcomes_change():
    """Outcomes change at .3 in the first of four places, in opposite ways for two actions."""
    rng = np.random.default_rng(2)
    z, action = rng.uniform(-1, 1, size=(2000, 4)), rng.integers(2, size=2000)
    target = np.eye(2)[((z[:, 0] > 0.3) ^ (action == 1)).astype(int)]
    made = MAKERS["forest"](UnitData(z, action, target), 5, rng)
    nodes = 2 ** int(made["units"][1])
    roots = made["hidden"].reshape(4, -1, nodes)[:, :, 1]
    places = -made["bias"].reshape(-1, nodes)[:, 1]
    assert (roots.argmax(axis=0) == 0).mean() > 0.6
    assert np.median(np.abs(places[roots.argmax(axis=0) == 0] - 0.3)) < 0.3


def test_units_that_do_not_fit_are_refused():
    shape = (1, A, 4, K)
    parts = (np.zeros(2), np.eye(2), np.zeros((2, 1)), np.zeros(1), np.zeros(shape), np.zeros(shape), np.zeros((K, L)))
    for units in ([9, 0], [3, 2], [0, 0.5]):
        with pytest.raises(InputError, match="do not fit"):
            OutcomeNetwork(*parts, np.array(units, dtype=np.float64))


def places(rng, psi):
    z = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(40, 2)) + 1.5])
    return np.round(z) if psi == "table" else z


@pytest.mark.parametrize("psi", FAMILIES)
def test_em_never_falls_and_psi_is_normalised_on_what_was_seen(psi):
    """phi fixed: log likelihood plus the log of the family's prior; psi_k / P has mean 1 under the empirical law P."""
    rng = np.random.default_rng(3)
    z = places(rng, psi)
    log_phi = np.log(rng.dirichlet(np.ones(3), size=len(z)))
    family, last = FAMILIES[psi].of(z), -np.inf
    now = family.begin(z, 3, rng)
    for _ in range(15):
        joint = log_phi + now.log_densities(z)
        value = np.log(np.exp(joint).sum(axis=1)).sum()
        if psi == "gaussian":
            value += log_prior(now, family.pooled, family.nu)
        else:
            assert np.exp(now.log_densities(z)).mean(axis=0) == pytest.approx(1.0, rel=1e-6)
        if psi == "discriminative":
            value -= 0.5 * family.decay * (now.heads**2).sum()
        if psi == "table":
            met = np.bincount(looked_up(now.places, z), minlength=len(now.places)) / len(z)
            value += family.prior * (met[:, None] * now.logs).sum()
        assert value >= last - 1e-8
        last = value
        now = family.refit(now, z, responsibilities(joint))
    assert now.n_kinds == 3
    assert type(now)(**now.to_arrays()).log_densities(z[:4]) == pytest.approx(now.log_densities(z[:4]))


def test_tables_need_places_that_repeat():
    rng = np.random.default_rng(4)
    with pytest.raises(InputError, match="must repeat, found 50 of 50 different"):
        FAMILIES["table"].of(rng.normal(size=(50, 2)))
    found = FAMILIES["table"].of(np.round(rng.normal(size=(50, 2)))).begin(np.zeros((2, 2)), 2, rng)
    assert found.log_densities(np.array([[99.0, 99.0]])).tolist() == [[0.0, 0.0]]


def corners(n=150, H=4):
    """Four places, two kinds of outcomes: the places left or right; action 0 stays on its side, 1 changes it; noise."""
    rng = np.random.default_rng(5)
    at = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    side, features = rng.integers(2, size=n), np.empty((n, H, 2))
    actions, rewards = rng.integers(A, size=(n, H)), np.zeros((n, H))
    for h in range(H):
        features[:, h] = at[2 * side + rng.integers(2, size=n)]
        rewards[:, h] = (features[:, h, 0] == 1) & (actions[:, h] == 0)
        side = np.where(rng.random(n) < 0.9, side ^ (actions[:, h] == 1), rng.integers(2, size=n))
    replay = Replay(H, 2)
    replay.add(features, actions, np.zeros((n, H)), np.full(n, H), rewards)
    return replay


@pytest.mark.parametrize(("phi", "psi"), [("features", "table"), ("kernel", "table"), ("forest", "discriminative")])
def test_a_fit_explains_what_was_held_out(phi, psi):
    """log P(x', r | x, a) / P(x'): log 2 for the side, less the noise, and the reward is sure; by definition too."""
    replay = corners()
    oracle = LowRankOracle(rank=2, shared=True, members=2, epochs=6, width=6, phi=phi, psi=psi)
    fit = oracle.fit(replay, A, rng=np.random.default_rng(0))
    t, found = gains(fit, replay, A, by_step=False)
    assert fit.setting.phi == phi
    assert fit.psi[0].name == psi
    best = np.log(2) + 0.95 * np.log(0.95) + 0.05 * np.log(0.05)
    assert best - 0.25 < found[t.held & t.followed].mean() < best + 0.15
    for weights in support_of(fit, replay, np.random.default_rng(0)).weights:
        assert weights.sum(axis=1) == pytest.approx(1.0)
    seen_now = OutcomeData.of(replay, A, fit)
    value = seen_now.log_likelihoods(fit)
    net = network.network_of(fit.weights, seen_now.centre, seen_now.project, A)
    log_psi = seen_now.log_psi(fit.psi)
    for i in (0, 5, 17):
        kinds, rewards = net.split(0, t.x[i : i + 1])
        joint = kinds[0, t.action[i]] * rewards[0, t.action[i], :, seen_now.law[i]] * np.exp(log_psi[i])
        assert value[i] == pytest.approx(np.log(joint.sum()), abs=1e-4)
