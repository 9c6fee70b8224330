"""The standard error of what a learned model promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tailrank.envs.built_in.rich_lock import rich_lock
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.observed.ela import ObservedELA


@pytest.fixture(scope="module")
def trained():
    lock = rich_lock(horizon=3, n_actions=2, seed=0)
    learner, streams = ObservedELA(1.0, Discriminative(rank=3)), Streams(0)
    state = learner.init(lock, streams)
    while state.episodes < 80:
        state, _ = learner.step(state, lock, streams)
    return learner, lock, state


def test_falls_with_the_root_of_the_data(trained):
    learner, lock, state = trained
    errors = []
    for times in (1, 100):
        counts = state.counts.copy()
        counts.counts = counts.counts * times
        more = replace(state, counts=counts)
        errors.append(learner.promise_error(more, lock, np.random.default_rng(0), draws=200))
    assert errors[0] > 0
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.35)


def test_leaves_the_state_alone():
    lock = rich_lock(horizon=3, n_actions=2, seed=0)
    learner, streams = ObservedELA(1.0, Discriminative(rank=3)), Streams(0)
    state = learner.init(lock, streams)
    before = state.counts.counts.copy()
    learner.promise_error(state, lock, np.random.default_rng(0))
    np.testing.assert_array_equal(state.counts.counts, before)
