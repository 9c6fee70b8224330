"""What stands beside a policy on observations: other policies, what it does, and the same on the page."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from safetensors.numpy import save

from tailrank.checks import InputError
from tailrank.envs import make_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.policies.tables import UniformPolicy
from tailrank.report._beside import beside_data, information
from tailrank.runs.beside import BESIDE, Beside
from tailrank.runs.config import RunConfig
from tailrank.runs.run import run


class Threshold:
    """Action 1 where the first feature is positive."""

    def start(self, n):
        return np.zeros(n)

    def act(self, h, states, memory):
        return (states[:, 0] > 0).astype(np.int64)

    def update(self, h, moved, memory):
        return memory


class Line:
    """A normal number and its noise; action 1 pays the number, action 0 nothing; three steps."""

    name, horizon, n_actions, n_features, width = "line", 3, 2, 2, 5

    def reset(self, seeds):
        self.rngs = [np.random.default_rng(int(seed)) for seed in seeds]
        return self._see()

    def step(self, actions):
        reward = np.where(actions == 1, self.now[:, 0], 0.0)
        return reward, self._see(), np.zeros(len(actions), dtype=bool)

    def _see(self):
        self.now = np.array([rng.normal(size=2) for rng in self.rngs])
        return self.now.copy()


def test_others_play_the_episodes_of_the_judge(tmp_path):
    seeds = Streams(3).evaluation_seeds(0, 60)
    found = Beside.of(Threshold(), None, Line(), seeds, np.random.default_rng(0))
    uniform = play_simulator(UniformPolicy(2, 3, np.random.default_rng(0)), Line(), seeds).returns
    np.testing.assert_array_equal(found.others["uniform"], uniform)
    mine = play_simulator(Threshold(), Line(), seeds[:50]).returns
    np.testing.assert_allclose(found.rewards.sum(axis=1)[[0, -1]], [mine.min(), mine.max()])
    np.testing.assert_array_equal(found.played, found.seen[:, 0] > 0)
    for e, seed in enumerate(found.seeds):
        once = play_simulator(Threshold(), Line(), np.array([seed]), keep_features=True)
        np.testing.assert_array_equal(found.observations[e], once.features[0])
        np.testing.assert_array_equal(found.rewards[e], once.rewards[0])
    begins = found.at == 0
    assert (found.paid[begins] == 0).all()
    gain = np.where(found.played == 1, found.seen[:, 0], 0.0)  # what is kept is whole here: three steps an episode
    np.testing.assert_allclose(found.paid[found.at == 2], gain[found.at == 0] + gain[found.at == 1])
    found.save(tmp_path)
    again = Beside.read(tmp_path)
    for name in ("seen", "played", "at", "paid", "rewards", "actions", "observations", "seeds"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    data = beside_data(found, (0.1, 1.0))
    assert [other["name"] for other in data["beside"]] == ["Uniform actions"]
    first = data["watched"]["features"][0]
    assert (first["feature"], first["bits"] > 0.6) == (0, True), "the feature that the action depends on"
    assert first["counts"][0][1] == 0
    assert first["counts"][-1][0] == 0


def test_observations_of_long_episodes_are_thinned():
    n = 1000
    rewards, actions = np.zeros((1, n)), np.zeros((1, n), dtype=np.int64)
    seen = np.arange(n + 1.0)[None, :, None]
    few = np.zeros(1, dtype=np.int64)
    data = beside_data(Beside({}, np.zeros((1, 1)), few, few, np.zeros(1), rewards, actions, seen, few), (0.1,))
    assert data["stride"] == 3
    line = np.frombuffer(base64.b64decode(data["played"][0]["seen"][0]["f8"]))
    np.testing.assert_array_equal(line, np.arange(0, n + 1, 3))


def test_information_is_that_of_the_definition():
    counts = np.array([[3, 1], [2, 6]])
    p = counts / 12
    expected = sum(p[i, j] * np.log2(p[i, j] / (p[i].sum() * p[:, j].sum())) for i in range(2) for j in range(2))
    assert information(counts) == pytest.approx(expected)


@pytest.mark.parametrize(
    "change",
    [
        {"played": np.array([-1])},
        {"uniform": np.array([np.nan])},
        {"seen": np.zeros((2, 3))},
        {"more": np.ones(1)},
        {"kept.seen": np.zeros((1, 2, 3))},
    ],
)
def test_a_damaged_file_is_named(change, tmp_path):
    arrays = {"uniform": np.ones(2), "seen": np.zeros((1, 3)), "played": np.zeros(1, dtype=np.int64)}
    arrays |= {"kept.rewards": np.zeros((1, 2)), "kept.actions": np.zeros((1, 2), dtype=np.int64)}
    arrays |= {"kept.seen": np.zeros((1, 3, 3)), "kept.seeds": np.ones(1, dtype=np.int64)}
    arrays |= {"at": np.zeros(1, dtype=np.int64), "paid": np.zeros(1)}
    (tmp_path / BESIDE).write_bytes(save(arrays | change, metadata={"format": "tailrank-beside"}))
    with pytest.raises(InputError, match=BESIDE):
        Beside.read(tmp_path)


def test_a_run_has_the_plan_for_the_mean_beside_it(tmp_path):
    values = {"environment": "rich-lock", "settings": {"horizon": 3}, "algorithm": "kernel", "evaluation_episodes": 40}
    run(RunConfig.from_dict(values | {"iterations": 40, "episodes": 40}), tmp_path / "out")
    found = Beside.read(tmp_path / "out")
    assert set(found.others) == {"uniform", "neutral"}
    assert found.others["neutral"].size == 40
    env = make_simulator("rich-lock", horizon=3)
    assert found.seen.shape[1] == min(env.n_features, 64)
    assert found.rewards.shape[1] == 3
