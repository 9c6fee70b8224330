"""Places: which directions are wide, and that likelihoods do not depend on it."""

from __future__ import annotations

import numpy as np
import pytest
from lowrank_parts import played, random_weights

from tailrank.learning.lowrank import gaussians, network
from tailrank.learning.lowrank.data import OutcomeData
from tailrank.learning.lowrank.places import sensitivity, stretch


def test_sensitivity_is_the_fisher_information_of_what_the_network_says():
    rng = np.random.default_rng(5)
    w = random_weights(rng, L=1)
    net = network.network_of(w, np.zeros(2), np.array([[2.0, 0.3], [0.0, 0.5]]), 3)
    x, action = rng.normal(size=(4, 2)), np.array([0, 2, 1, 2])
    expected = np.zeros((2, 2))
    for i, a in enumerate(action):
        here = net.split(0, x[i : i + 1])[0][0, a]
        slopes = []
        for move in 1e-6 * np.linalg.inv(net.project):  # one place at a time
            up, down = (np.log(net.split(0, x[i : i + 1] + side * move)[0][0, a]) for side in (1, -1))
            slopes.append((up - down) / 2e-6)
        expected += np.einsum("kj,j,lj->kl", slopes, here, slopes) / len(action)
    assert sensitivity(net, x, np.zeros(4, dtype=np.int64), action) == pytest.approx(expected, rel=1e-5)


def test_stretched_places_are_wide_where_outcomes_change_and_say_the_same():
    rng = np.random.default_rng(6)
    w = {name: x.copy() for name, x in random_weights(rng, L=1).items()}
    w["hidden"][1], w["heads"][2] = 0.0, 0.0  # nothing depends on the second feature
    net = network.network_of(w, np.zeros(2), np.eye(2), 3)
    x, h, action = rng.normal(size=(50, 2)), np.zeros(50, dtype=np.int64), rng.integers(3, size=50)
    for project in (np.eye(2), np.array([[0.0, 3.0], [1.0, 0.0]])):
        by = project @ stretch(net, x, h, action, project)
        assert np.linalg.norm(by[0]) > 9 * np.linalg.norm(by[1])
    _env, replay = played("continuous-lowrank", 20, horizon=4, n_features=2, d=3, n_actions=3)
    data, by = OutcomeData.of(replay, 3), np.array([[2.0, 0.5], [0.5, 1.0]])
    psi = gaussians.begin(data.after[data.followed], 3, 4.0, rng)
    moved = [np.linalg.inv(one @ one.T) for one in psi.whiteners]
    moved = np.stack([gaussians.whitener(by.T @ one @ by) for one in moved])
    other = data.stretched(by)
    log_psi = other.log_psi((gaussians.Gaussians(psi.means @ by, moved),)) + other.scale * other.followed[:, None]
    assert log_psi == pytest.approx(data.log_psi((psi,)), abs=1e-6)
