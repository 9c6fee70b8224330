"""Matrix products have one thread wherever something is learned or played, so that bits do not depend on cores."""

from dataclasses import dataclass

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tailrank import ELA, learn, make_episodic, make_simulator, train
from tailrank.episodes.rollout import play_simulator
from tailrank.policies.tables import UniformPolicy
from tailrank.runs.config import RunConfig
from tailrank.runs.run import run
from tailrank.runs.sweeps._worker import work


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    """The libraries have two threads outside, whatever the machine has."""
    with threadpool_limits(2, "blas"):
        yield
        assert blas_threads() == {2}


@pytest.fixture
def seen(monkeypatch):
    """The numbers of threads that ELA's iterations saw."""
    found, step = list[set[int]](), ELA.step

    def watched(self, *arguments):
        found.append(blas_threads())
        return step(self, *arguments)

    monkeypatch.setattr(ELA, "step", watched)
    return found


CONFIG = {"environment": "risky-lock", "settings": {"horizon": 3, "n_actions": 3}, "iterations": 2}


def test_learn(seen):
    learn("risky-lock", tau=0.1, episodes=20, horizon=3, n_actions=3)
    assert seen
    assert all(found == {1} for found in seen)


def test_train(seen):
    for _ in train(ELA(tau=0.1), make_episodic("risky-lock", horizon=3, n_actions=3), iterations=2, seed=0):
        assert blas_threads() == {2}
    assert seen == [{1}, {1}]


def test_run(seen, tmp_path):
    run(RunConfig.from_dict(CONFIG), tmp_path / "r")
    assert seen == [{1}, {1}]


def test_a_worker_of_a_sweep(seen, tmp_path):
    assert work(RunConfig.from_dict(CONFIG).tables(), str(tmp_path / "r"))["status"] == "finished"
    assert seen == [{1}, {1}]


def test_play():
    @dataclass(frozen=True)
    class Watched(UniformPolicy):
        def act(self, *arguments):
            assert blas_threads() == {1}
            return super().act(*arguments)

    lock = make_simulator("rich-lock", horizon=3, n_actions=4)
    play_simulator(Watched(4, 3, np.random.default_rng(0)), lock, np.array([1, 3]))
