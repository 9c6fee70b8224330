"""Collection as Algorithm 1 prints it, for a low-rank model: which steps are uniform, and which are learned from."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank import make_simulator
from tailrank.checks import InputError
from tailrank.episodes.replay import RollIns
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.lowrank.ela import LowRankELA
from tailrank.learning.lowrank.ella import LowRankELLA
from tailrank.learning.lowrank.oracle import LowRankOracle
from tailrank.learning.lowrank.state import LowRankState
from tailrank.learning.lowrank.transitions import SeenTransitions
from tailrank.planning.lsvi.observed import LatentLsvi
from tailrank.policies.moved import Moved
from tailrank.policies.optimistic import OptimisticPolicy
from tailrank.runs._restored import check_lowrank

H = 3
QUICK = LowRankOracle(shared=True, members=1, epochs=4, width=4)


def test_steps_that_are_learned_from():
    """One whole episode, then u = -1, 0, 1: D has step u, D~ step u + 1; counted, D has the steps before u too."""
    used, in_d = RollIns(1, counted=False).uses(5, H)
    assert used.astype(int).tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 0]]
    assert in_d.astype(int).tolist() == [[1, 1, 1], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]]
    used, in_d = RollIns(1, counted=True).uses(4, H)
    assert used.astype(int).tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert in_d.astype(int).tolist() == [[1, 1, 1], [0, 0, 0], [1, 0, 0], [1, 1, 0]]


def learner(cls=LowRankELA, model="lowrank", **settings):
    return cls(0.2, Discriminative(model=model, rank=2), lowrank=QUICK, **settings)


def test_episodes_follow_the_plan_before_u_and_uniform_actions_after():
    """And the state of other kinds of phi and psi is the same after a checkpoint."""
    env, streams = make_simulator("continuous-lowrank", horizon=H, n_features=2, d=2, n_actions=3), Streams(2)
    mine = learner(collect="printed", pilot=10, batch=60, phi="forest", psi="discriminative")
    before = mine.init(env, streams)
    plan = before.policy
    after, info = mine.step(before, env, streams)
    assert (after.episodes, info.returns.size) == (70, 60)
    replay, memory = after.replay, plan.start(60)
    agree = np.empty((60, H))
    for h in range(H):
        x, actions = replay.features[10:, h], replay.actions[10:, h]
        agree[:, h] = plan.act(h, x, memory) == actions
        memory = plan.update(h, Moved(x, actions, replay.rewards[10:, h], x), memory)
    first = np.arange(60) % H - 1
    rolled = np.arange(H) < first[:, None]
    assert agree[rolled].all()
    assert not agree[~rolled].all()
    t = SeenTransitions.of(replay)
    assert (t.episode >= 10).sum() == 20 * (1 + 2 + 2)
    assert (t.in_d & (t.episode >= 10)).sum() == 20 * (0 + 1 + 1)
    check_lowrank(after.to_arrays(), env)
    again = mine.resumed(mine.state_from(after.to_arrays(), replay), env)
    assert again.chosen == after.chosen
    for x, y in zip(again.policy.plan.tables, after.policy.plan.tables, strict=True):
        np.testing.assert_array_equal(x, y)


def test_only_a_low_rank_model_knows_roll_ins():
    with pytest.raises(InputError, match=r"collect = 'printed': is for model = 'lowrank', found 'auto'"):
        learner(model="auto", collect="printed")


@pytest.mark.filterwarnings("ignore:CVaR-LSVI. beta")
def test_ella_plans_in_the_low_rank_model_and_again_after_a_checkpoint():
    env, streams = make_simulator("continuous-lowrank", horizon=H, n_features=2, d=2, n_actions=2), Streams(4)
    mine = learner(LowRankELLA, planner=LatentLsvi(8, 8)).prepared(env, streams, None)
    state, _ = mine.step(mine.init(env, streams), env, streams)
    assert isinstance(state, LowRankState)
    assert isinstance(state.policy, OptimisticPolicy)
    assert mine.planner.seed == streams.seed
    again = mine.resumed(mine.state_from(state.to_arrays(), state.replay), env)
    np.testing.assert_array_equal(again.policy.inverse, state.policy.inverse)
    assert mine.greedy(state, env).exploration is None
