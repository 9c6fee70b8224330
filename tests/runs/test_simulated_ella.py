"""ELLA on observations: from the command line to a policy that opens the lock, and the same plan after a checkpoint."""

from __future__ import annotations

import json

import numpy as np
from click.testing import CliRunner

from tailrank import make_simulator
from tailrank.cli import main
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.observed.ela import ObservedELA
from tailrank.learning.observed.state import ObservedState
from tailrank.planning.lsvi.observed import LatentLsvi
from tailrank.planning.observed.planner import plan_observed


def test_the_lock_is_opened(tmp_path):
    arguments = ["--set", "horizon=4", "--set", "actions=3", "--algorithm", "ella", "--planner", "iterations=40"]
    more = ["--episodes", "50", "--output-episodes", "100", "--evaluation-episodes", "500", "--json", "--quiet"]
    result = CliRunner().invoke(main, ["train", "rich-lock", *arguments, *more, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["algorithm"], found["episodes"]) == ("ella", 50)
    assert found["cvar"] > 0.95 * found["cvar_star"]


def test_a_checkpoint_gives_the_same_plan():
    lock, streams = make_simulator("rich-lock", horizon=3, n_actions=2), Streams(3)
    learner = ObservedELA(0.1, Discriminative(rank=3), planner=LatentLsvi(20, 20, seed=3))
    state = learner.init(lock, streams)
    for _ in range(3):
        state, _ = learner.step(state, lock, streams)
    again = learner.resumed(ObservedState.from_arrays(state.to_arrays(), state.replay), lock)
    assert again.policy.plan.budget == state.policy.plan.budget
    for x, y in zip(again.policy.plan.values, state.policy.plan.values, strict=True):
        np.testing.assert_array_equal(x, y)
    output = learner.output(state, lock, streams, 50)
    assert len(output.scores) == 3
    assert output.caution == 0.0
    assert len(ObservedELA(0.1, Discriminative(rank=3)).output(state, lock, streams, 50).scores) > 3
    assert learner.planner is not plan_observed
